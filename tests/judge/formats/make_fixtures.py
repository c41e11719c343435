"""Makes the files of `fixtures/` with the libraries that write them in the field.

Run with an interpreter that has them, never the project's own:

    python -m venv /tmp/v && /tmp/v/bin/pip install mlflow-skinny inspect-ai anthropic openai \
        opentelemetry-sdk opentelemetry-exporter-otlp-proto-common openinference-semantic-conventions
    /tmp/v/bin/python tests/judge/formats/make_fixtures.py

`versions.json` says with which versions the files at hand were made.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

FOLDER = Path(__file__).parent / "fixtures"
LIBRARIES = (
    "anthropic",
    "inspect-ai",
    "mlflow-skinny",
    "openai",
    "openinference-semantic-conventions",
    "opentelemetry-exporter-otlp-proto-common",
    "opentelemetry-sdk",
)
ASK = "Where is order 77?"
ANSWER = "It is late, sorry."
POLICY = "You are Fern, a flower-shop agent."
SCHEMA = {"type": "object", "properties": {"order_id": {"type": "integer"}}}


def openai_chat() -> None:
    """Messages that the library's own types take, with a completion it parsed."""
    from openai.types.chat import ChatCompletion, ChatCompletionMessageParam
    from pydantic import TypeAdapter

    messages = [
        {"role": "developer", "content": POLICY},
        {"role": "user", "content": [{"type": "text", "text": ASK}, _picture()]},
        _openai_call("call_a1", '{"order_id": 77}'),
        {"role": "tool", "tool_call_id": "call_a1", "content": '{"state":"late"}'},
    ]
    adapter = TypeAdapter(list[ChatCompletionMessageParam])
    adapter.validate_python(messages)
    completion = ChatCompletion.model_validate(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1795246704,
            "model": "m1",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": ANSWER},
                }
            ],
            "usage": {"prompt_tokens": 90, "completion_tokens": 12, "total_tokens": 102},
        }
    )
    tools = [{"type": "function", "function": {"name": "find_order", "parameters": SCHEMA}}]
    record = {"messages": messages, "tools": tools, "model": "m1"}
    done = completion.model_dump(mode="json")
    whole = {"id": "c-1", **record, "response": done}
    custom = {
        "messages": [
            {"role": "user", "content": "Sum it."},
            {
                "role": "assistant",
                "content": None,
                "refusal": None,
                "tool_calls": [
                    {"id": "x1", "type": "custom", "custom": {"name": "code", "input": "1+1"}}
                ],
            },
            {"role": "tool", "tool_call_id": "x1", "content": "2"},
            {"role": "assistant", "content": None, "refusal": "I will not say."},
        ]
    }
    adapter.validate_python(custom["messages"])
    _lines("openai_chat.jsonl", [whole, custom])
    first = {"model": "m1", "messages": messages[:2], "tools": tools}
    called = {**done, "choices": [{"index": 0, "message": messages[2]}]}
    _lines(
        "openai_logs.jsonl",
        [
            {"request": first, "response": called, "created_at": "2026-11-20T01:00:00Z"},
            {"request": record, "response": done, "created_at": "2026-11-20T01:00:02Z"},
            {
                "request": {"model": "m1", "messages": [{"role": "user", "content": "Hi"}]},
                "response": done,
            },
        ],
    )


def _picture() -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": "https://example.com/rose.png"}}


def _openai_call(name: str, arguments: str) -> dict[str, object]:
    function = {"name": "find_order", "arguments": arguments}
    call = {"id": name, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def anthropic_messages() -> None:
    """Messages that the library's own types take, with a response it parsed."""
    from anthropic.types import Message, MessageParam
    from pydantic import TypeAdapter

    messages = [
        {"role": "user", "content": ASK},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Look it up.", "signature": "s"},
                {"type": "text", "text": "Checking."},
                {"type": "tool_use", "id": "tu_1", "name": "find_order", "input": {"order_id": 77}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "tu_1",
                    "is_error": True,
                    "content": [{"type": "text", "text": "late"}],
                },
                {"type": "text", "text": "Hurry."},
            ],
        },
    ]
    TypeAdapter(list[MessageParam]).validate_python(messages)
    answer = Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-x",
            "content": [{"type": "text", "text": ANSWER}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 90,
                "output_tokens": 12,
                "cache_read_input_tokens": 10,
                "cache_creation_input_tokens": 0,
            },
        }
    )
    record = {
        "id": "a-1",
        "system": [{"type": "text", "text": POLICY}],
        "messages": messages,
        "tools": [{"name": "find_order", "input_schema": SCHEMA}],
        "response": answer.model_dump(mode="json"),
    }
    _whole("anthropic.json", record)


def otel() -> None:
    """Spans of the SDK: as OTLP/JSON, and as its console exporter writes them."""
    from google.protobuf.json_format import MessageToDict
    from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "shop", "service.version": "r41"}))
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("fixtures")
    _genai_turn(tracer, ASK, ANSWER, with_tool=True)
    _genai_turn(tracer, "Thanks", "Welcome.", with_tool=False)
    spans = kept.get_finished_spans()
    document = MessageToDict(encode_spans(spans))
    for span in _spans_of(document):  # a collector writes ids as hex digits
        for name in ("traceId", "spanId", "parentSpanId"):
            if name in span:
                span[name] = _hex(span[name])
    _lines("otlp.jsonl", [document])
    _lines("otel_spans.jsonl", [json.loads(span.to_json(indent=None)) for span in spans])


def _spans_of(document):
    for resource in document["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            yield from scope["spans"]


def _hex(text: str) -> str:
    import base64

    return base64.b64decode(text).hex()


def _genai_turn(tracer, ask: str, answer: str, *, with_tool: bool) -> None:
    """One trace: an agent, a model call, a tool, and the call that has its result."""
    user = {"role": "user", "parts": [{"type": "text", "content": ask}]}
    call = {"type": "tool_call", "id": "t1", "name": "find_order", "arguments": {"order_id": 77}}
    told = {"type": "tool_call_response", "id": "t1", "response": {"state": "late"}}
    final = [{"role": "assistant", "parts": [{"type": "text", "content": answer}]}]
    history = [user]
    with tracer.start_as_current_span("invoke_agent fern") as span:
        span.set_attributes(
            {
                "gen_ai.operation.name": "invoke_agent",
                "gen_ai.agent.name": "fern",
                **_conversation(),
            }
        )
        if with_tool:
            called = [{"role": "assistant", "parts": [call]}]
            _chat(tracer, history, called)
            with tracer.start_as_current_span("execute_tool find_order") as tool:
                tool.set_attributes(
                    {
                        "gen_ai.operation.name": "execute_tool",
                        "gen_ai.tool.name": "find_order",
                        "gen_ai.tool.call.id": "t1",
                        "gen_ai.tool.call.arguments": '{"order_id": 77}',
                        "gen_ai.tool.call.result": '{"state": "late"}',
                    }
                )
            history = [*history, *called, {"role": "tool", "parts": [told]}]
        _chat(tracer, history, final)
        with tracer.start_as_current_span("GET /health"):
            pass


def _conversation() -> dict[str, str]:
    return {"gen_ai.conversation.id": "c-9"}


def _chat(tracer, asked: list[object], answered: list[object]) -> None:
    with tracer.start_as_current_span("chat m1") as span:
        span.set_attributes(
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "acme",
                "gen_ai.request.model": "m1",
                "gen_ai.system_instructions": json.dumps([{"type": "text", "content": POLICY}]),
                "gen_ai.input.messages": json.dumps(asked),
                "gen_ai.output.messages": json.dumps(answered),
                "gen_ai.usage.input_tokens": 90,
                "gen_ai.usage.output_tokens": 12,
                **_conversation(),
            }
        )


def openinference() -> None:
    """Spans with the flattened keys of OpenInference."""
    from openinference.semconv.trace import (
        MessageAttributes,
        OpenInferenceSpanKindValues,
        SpanAttributes,
        ToolCallAttributes,
    )
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("fixtures")
    kind, session = SpanAttributes.OPENINFERENCE_SPAN_KIND, SpanAttributes.SESSION_ID
    asked, said = SpanAttributes.LLM_INPUT_MESSAGES, SpanAttributes.LLM_OUTPUT_MESSAGES
    role, content = MessageAttributes.MESSAGE_ROLE, MessageAttributes.MESSAGE_CONTENT
    call = f"{said}.0.{MessageAttributes.MESSAGE_TOOL_CALLS}.0"
    with tracer.start_as_current_span("agent") as span:
        span.set_attributes(
            {
                kind: OpenInferenceSpanKindValues.AGENT.value,
                session: "s-5",
                SpanAttributes.INPUT_VALUE: ASK,
                SpanAttributes.OUTPUT_VALUE: ANSWER,
            }
        )
        with tracer.start_as_current_span("llm") as llm:
            llm.set_attributes(
                {
                    kind: OpenInferenceSpanKindValues.LLM.value,
                    SpanAttributes.LLM_MODEL_NAME: "m1",
                    f"{asked}.0.{role}": "system",
                    f"{asked}.0.{content}": POLICY,
                    f"{asked}.1.{role}": "user",
                    f"{asked}.1.{content}": ASK,
                    f"{said}.0.{role}": "assistant",
                    f"{call}.{ToolCallAttributes.TOOL_CALL_ID}": "t1",
                    f"{call}.{ToolCallAttributes.TOOL_CALL_FUNCTION_NAME}": "find_order",
                    f"{call}.{ToolCallAttributes.TOOL_CALL_FUNCTION_ARGUMENTS_JSON}": '{"order_id": 77}',
                    SpanAttributes.LLM_TOKEN_COUNT_PROMPT: 90,
                    SpanAttributes.LLM_TOKEN_COUNT_COMPLETION: 12,
                }
            )
        with tracer.start_as_current_span("find_order") as tool:
            tool.set_attributes(
                {
                    kind: OpenInferenceSpanKindValues.TOOL.value,
                    SpanAttributes.TOOL_NAME: "find_order",
                    SpanAttributes.INPUT_VALUE: '{"order_id": 77}',
                    SpanAttributes.OUTPUT_VALUE: '{"state":"late"}',
                }
            )
        with tracer.start_as_current_span("llm") as llm:
            llm.set_attributes(
                {
                    kind: OpenInferenceSpanKindValues.LLM.value,
                    f"{asked}.0.{role}": "user",
                    f"{asked}.0.{content}": ASK,
                    f"{asked}.1.{role}": "assistant",
                    f"{call}.{ToolCallAttributes.TOOL_CALL_ID}".replace(
                        f"{said}.0", f"{asked}.1"
                    ): "t1",
                    f"{call}.{ToolCallAttributes.TOOL_CALL_FUNCTION_NAME}".replace(
                        f"{said}.0", f"{asked}.1"
                    ): "find_order",
                    f"{call}.{ToolCallAttributes.TOOL_CALL_FUNCTION_ARGUMENTS_JSON}".replace(
                        f"{said}.0", f"{asked}.1"
                    ): '{"order_id": 77}',
                    f"{asked}.2.{role}": "tool",
                    f"{asked}.2.{content}": '{"state":"late"}',
                    f"{asked}.2.{MessageAttributes.MESSAGE_TOOL_CALL_ID}": "t1",
                    f"{said}.0.{role}": "assistant",
                    f"{said}.0.{content}": ANSWER,
                }
            )
    lines = [json.loads(span.to_json(indent=None)) for span in kept.get_finished_spans()]
    _lines("openinference.jsonl", lines)


def mlflow() -> None:
    """Two traces of one session, with what a person assessed and expected."""
    os.environ.update(MLFLOW_ENABLE_ASYNC_TRACE_LOGGING="false", MLFLOW_ALLOW_FILE_STORE="true")
    import mlflow as library
    from mlflow.entities import AssessmentSource, AssessmentSourceType

    with tempfile.TemporaryDirectory() as folder:
        library.set_tracking_uri(f"file:{folder}/runs")
        library.set_experiment("fixtures")
        person = AssessmentSource(AssessmentSourceType.HUMAN, "kim")
        found = []
        for ask, answer, with_tool in ((ASK, ANSWER, True), ("Thanks", "Welcome.", False)):
            with library.start_span("agent", span_type="AGENT") as agent:
                library.update_current_trace(
                    metadata={"mlflow.trace.session": "s1", "mlflow.trace.user": "u9"},
                    tags={"env": "prod"},
                )
                agent.set_inputs({"messages": [{"role": "user", "content": ask}]})
                if with_tool:
                    with library.start_span("find_order", span_type="TOOL") as tool:
                        tool.set_inputs({"order_id": 77})
                        tool.set_outputs({"state": "late"})
                    with library.start_span("search", span_type="RETRIEVER") as search:
                        search.set_inputs({"query": "order 77"})
                        search.set_outputs(
                            [
                                {
                                    "page_content": "Orders may be late.",
                                    "metadata": {"doc_uri": "a.md"},
                                }
                            ]
                        )
                agent.set_outputs({"role": "assistant", "content": answer})
            trace_id = agent.trace_id
            library.log_feedback(trace_id=trace_id, name="correct", value=True, source=person)
            if with_tool:
                library.log_expectation(
                    trace_id=trace_id, name="expected_response", value="It is late.", source=person
                )
            found.append(trace_id)
        traces = [json.loads(library.get_trace(one).to_json()) for one in found]
    _lines("mlflow.jsonl", traces)


def inspect_ai() -> None:
    """A log of two epochs with a tool, in both containers."""
    from inspect_ai import Task
    from inspect_ai import eval as run
    from inspect_ai.dataset import Sample
    from inspect_ai.log import read_eval_log, write_eval_log
    from inspect_ai.model import ModelOutput, ModelUsage, get_model
    from inspect_ai.scorer import includes
    from inspect_ai.solver import generate, use_tools
    from inspect_ai.tool import tool

    @tool
    def add():
        async def execute(a: int, b: int) -> int:
            """Add.

            Args:
                a: One.
                b: Another.
            """
            return a + b

        return execute

    outputs = [
        out
        for _ in range(2)
        for out in (
            ModelOutput.for_tool_call("mockllm/model", "add", {"a": 1, "b": 2}),
            ModelOutput.from_content("mockllm/model", "It is 3."),
        )
    ]
    for out in outputs:  # else the library fetches a tokenizer to count for itself
        out.usage = ModelUsage(input_tokens=20, output_tokens=8, total_tokens=28)
    task = Task(
        name="sums",
        dataset=[Sample(id="s1", input="1+2?", target="3", metadata={"cluster": "k1"})],
        solver=[use_tools(add()), generate()],
        scorer=includes(),
    )
    with tempfile.TemporaryDirectory() as folder:
        model = get_model("mockllm/model", custom_outputs=outputs)
        run(task, model=model, log_dir=folder, epochs=2, display="none", max_samples=1)
        (made,) = Path(folder).glob("*.eval")
        shutil.copy(made, FOLDER / "inspect_ai.eval")
        log = read_eval_log(str(made))
        for sample in log.samples or []:
            sample.events = []
        write_eval_log(log, str(FOLDER / "inspect_ai.json"))


def _lines(name: str, records: list[object]) -> None:
    text = "".join(f"{json.dumps(one, ensure_ascii=False)}\n" for one in records)
    (FOLDER / name).write_text(text, encoding="utf-8")


def _whole(name: str, record: object) -> None:
    (FOLDER / name).write_text(json.dumps(record, indent=2), encoding="utf-8")


def main() -> None:
    """Every file, and the versions they were made with."""
    FOLDER.mkdir(exist_ok=True)
    for make in (openai_chat, anthropic_messages, otel, openinference, mlflow, inspect_ai):
        make()
    _whole("versions.json", {name: version(name) for name in LIBRARIES})


if __name__ == "__main__":
    main()
