"""Makes the files of `fixtures/` with the libraries that write them in the field.

Run with an interpreter that has them, never the project's own:

    python -m venv /tmp/v && /tmp/v/bin/pip install mlflow-skinny inspect-ai anthropic openai \
        opentelemetry-sdk opentelemetry-exporter-otlp-proto-common openinference-semantic-conventions
    /tmp/v/bin/python -m tests.judge.formats.make_fixtures

`versions.json` says with which versions the files at hand were made.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

from tests.judge.formats.fixture_chats import anthropic_messages, openai_chat
from tests.judge.formats.fixture_spans import openinference, otel
from tests.judge.formats.fixture_texts import ANSWER, ASK, FOLDER, lines, whole

LIBRARIES = (
    "anthropic",
    "inspect-ai",
    "mlflow-skinny",
    "openai",
    "openinference-semantic-conventions",
    "opentelemetry-exporter-otlp-proto-common",
    "opentelemetry-sdk",
)


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
    lines("mlflow.jsonl", traces)


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


def main() -> None:
    """Every file, and the versions they were made with."""
    FOLDER.mkdir(exist_ok=True)
    for make in (openai_chat, anthropic_messages, otel, openinference, mlflow, inspect_ai):
        make()
    from tests.judge.formats.fixture_agents import inspect_ai_agents  # imports its library

    inspect_ai_agents()
    whole("versions.json", {name: version(name) for name in LIBRARIES})


if __name__ == "__main__":
    main()
