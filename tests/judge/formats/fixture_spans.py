"""Fixtures of spans: OpenTelemetry's own keys, and those of OpenInference."""

from __future__ import annotations

import json

from tests.judge.formats.fixture_texts import ANSWER, ASK, POLICY, lines


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
    lines("otlp.jsonl", [document])
    lines("otel_spans.jsonl", [json.loads(span.to_json(indent=None)) for span in spans])


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
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    kept = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    _openinference_turn(provider.get_tracer("fixtures"))
    lines(
        "openinference.jsonl",
        [json.loads(span.to_json(indent=None)) for span in kept.get_finished_spans()],
    )


def _openinference_turn(tracer) -> None:
    """One trace: an agent, a model call, a tool, and the call that has its result."""
    from openinference.semconv.trace import OpenInferenceSpanKindValues, SpanAttributes

    kind, session = SpanAttributes.OPENINFERENCE_SPAN_KIND, SpanAttributes.SESSION_ID
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
            llm.set_attributes({kind: OpenInferenceSpanKindValues.LLM.value, **_asked_first()})
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
            llm.set_attributes({kind: OpenInferenceSpanKindValues.LLM.value, **_asked_again()})


def _asked_first() -> dict[str, str | int]:
    """Return the first model call: its request, and the tool that it calls."""
    from openinference.semconv.trace import MessageAttributes, SpanAttributes

    asked, said = SpanAttributes.LLM_INPUT_MESSAGES, SpanAttributes.LLM_OUTPUT_MESSAGES
    role, content = MessageAttributes.MESSAGE_ROLE, MessageAttributes.MESSAGE_CONTENT
    return {
        SpanAttributes.LLM_MODEL_NAME: "m1",
        f"{asked}.0.{role}": "system",
        f"{asked}.0.{content}": POLICY,
        f"{asked}.1.{role}": "user",
        f"{asked}.1.{content}": ASK,
        f"{said}.0.{role}": "assistant",
        **_called(f"{said}.0"),
        SpanAttributes.LLM_TOKEN_COUNT_PROMPT: 90,
        SpanAttributes.LLM_TOKEN_COUNT_COMPLETION: 12,
    }


def _asked_again() -> dict[str, str | int]:
    """Return the second model call, which has the result of the tool."""
    from openinference.semconv.trace import MessageAttributes, SpanAttributes

    asked, said = SpanAttributes.LLM_INPUT_MESSAGES, SpanAttributes.LLM_OUTPUT_MESSAGES
    role, content = MessageAttributes.MESSAGE_ROLE, MessageAttributes.MESSAGE_CONTENT
    return {
        f"{asked}.0.{role}": "user",
        f"{asked}.0.{content}": ASK,
        f"{asked}.1.{role}": "assistant",
        **_called(f"{asked}.1"),
        f"{asked}.2.{role}": "tool",
        f"{asked}.2.{content}": '{"state":"late"}',
        f"{asked}.2.{MessageAttributes.MESSAGE_TOOL_CALL_ID}": "t1",
        f"{said}.0.{role}": "assistant",
        f"{said}.0.{content}": ANSWER,
    }


def _called(message: str) -> dict[str, str]:
    """Return the attributes of a tool call under a message prefix."""
    from openinference.semconv.trace import MessageAttributes, ToolCallAttributes

    call = f"{message}.{MessageAttributes.MESSAGE_TOOL_CALLS}.0"
    return {
        f"{call}.{ToolCallAttributes.TOOL_CALL_ID}": "t1",
        f"{call}.{ToolCallAttributes.TOOL_CALL_FUNCTION_NAME}": "find_order",
        f"{call}.{ToolCallAttributes.TOOL_CALL_FUNCTION_ARGUMENTS_JSON}": '{"order_id": 77}',
    }
