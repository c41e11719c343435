"""Tool calls that only tool spans hold, and the results that they give to recorded calls."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from assizes.judge.case import ToolCall, ToolResult, Transcript, Turn
from assizes.judge.evidence.tool_calls import made_calls
from assizes.judge.formats.shared.parsing import FidelityCounter
from assizes.judge.formats.shared.spans import TraceSpan, conversation
from tests.builders import agent, call, result, user
from tests.judge.formats.foreign import joined
from tests.judge.formats.shared.test_spans import mlflow_span, mlflow_trace

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
POLLS = [("status", {"job": 7}, "running"), ("status", {"job": 7}, "done")]


def calls_of(transcript: Transcript) -> list[tuple[str, dict[str, Any], str | None]]:
    """Return the name, the arguments and the result of every call, in order."""
    return [
        (made.call.name, made.call.arguments, made.result.content if made.result else None)
        for made in made_calls(transcript)
    ]


def read(*spans: TraceSpan) -> Transcript:
    """Return the transcript of spans of one trace that start one second after another."""
    starts = [NOON + timedelta(seconds=place) for place in range(len(spans))]
    for span, start in zip(spans, starts, strict=True):
        span.start = start
    return conversation(spans, FidelityCounter())


def model(name: str, inputs: list[Turn], *outputs: Turn) -> TraceSpan:
    return TraceSpan(
        name, "root", "t", "llm", input_turns=tuple(inputs), output_turns=tuple(outputs)
    )


def tool(name: str, made: ToolCall, answer: str | None, parent: str = "root") -> TraceSpan:
    given = None if answer is None else ToolResult(content=answer, call_id=made.id)
    return TraceSpan(name, parent, "t", "tool", call=made, result=given)


def polled(call_id: str | None = None) -> ToolCall:
    return call("status", call_id, job=7)


# The same call again


def langfuse_polls() -> list[dict[str, Any]]:
    root = {"id": "root", "type": "AGENT", "input": "Is it done?", "output": "Yes."}
    rows = [
        {"id": f"p{place}", "type": "TOOL", "parent_observation_id": "root", "name": name}
        | {"input": str(arguments).replace("'", '"'), "output": answer}
        for place, (name, arguments, answer) in enumerate(POLLS)
    ]
    times = [f"2026-11-21T12:00:0{place}Z" for place in range(3)]
    return [
        {**row, "trace_id": "t", "start_time": time, "end_time": time}
        for row, time in zip([root, *rows], times, strict=True)
    ]


def otel_polls() -> list[dict[str, Any]]:
    said = [
        {"role": role, "parts": [{"type": "text", "content": text}]}
        for role, text in (("user", "Is it done?"), ("assistant", "Yes."))
    ]
    root = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.input.messages": said[:1],
        "gen_ai.output.messages": said[1:],
    }
    tools = [
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
        | {"gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": answer}
        for name, arguments, answer in POLLS
    ]
    return [
        {"trace_id": "t", "span_id": f"s{place}", "attributes": attributes}
        | {"parent_id": "s0" if place else None, "start_time": 1_790_000_000_000_000_000 + place}
        for place, attributes in enumerate([root, *tools])
    ]


def mlflow_polls() -> list[dict[str, Any]]:
    root = mlflow_span(0, "AGENT", spanInputs="Is it done?", spanOutputs="Yes.")
    tools = [
        mlflow_span(place, "TOOL", "s0", spanInputs=arguments, spanOutputs=answer) | {"name": name}
        for place, (name, arguments, answer) in enumerate(POLLS, 1)
    ]
    return [mlflow_trace(root, *tools)]


@pytest.mark.parametrize(
    ("format_name", "values"),
    [("langfuse", langfuse_polls()), ("otel", otel_polls()), ("mlflow", mlflow_polls())],
)
def test_a_tool_that_is_called_twice_with_the_same_arguments_has_two_calls(format_name, values):
    assert calls_of(joined(format_name, *values).transcript) == POLLS


def test_a_call_that_a_model_call_and_a_tool_span_record_is_one_call():
    first = model("m1", [user("Done?")], agent(calls=[polled("k1")]))
    history = [user("Done?"), agent(calls=[polled("k1")]), result("running", call_id="k1")]
    again = model("m2", history, agent(calls=[polled("k2")]))
    last = tool("p2", polled(), "done")
    found = read(first, tool("p1", polled(), '"running"'), again, last)
    assert calls_of(found) == POLLS  # the later history tells the result of the first call


def test_a_repeated_call_that_the_history_lacks_is_added():
    only = model("m", [user("Done?"), agent(calls=[polled("k1")])], agent("Yes."))
    found = read(tool("p1", polled(), "running"), tool("p2", polled(), "done"), only)
    assert calls_of(found) == POLLS


def test_a_call_of_an_earlier_exchange_is_not_taken_for_that_of_the_trace():
    before = [user("Done?"), agent(calls=[polled("k1")]), result("running", call_id="k1")]
    asked = [*before, agent("Not yet."), user("And now?")]
    found = read(
        model("m", asked, agent(calls=[polled("k2")])),
        tool("p", polled(), "done"),
    )
    assert calls_of(found) == POLLS


@pytest.mark.parametrize("outer_answer", ["done", None])
def test_a_tool_span_within_that_of_the_same_call_is_no_second_call(outer_answer):
    outer, inner = tool("p1", polled("k1"), outer_answer), tool("p2", polled(), "done", "p1")
    asked = TraceSpan("root", None, "t", "agent", input_turns=(user("Done?"),))
    assert calls_of(read(asked, outer, inner)) == POLLS[1:]


def test_two_tool_spans_with_one_call_id_are_one_call():
    asked = TraceSpan("root", None, "t", "agent", input_turns=(user("Done?"),))
    spans = [tool("p1", polled("k1"), None), tool("p2", polled("k1"), "done")]
    assert calls_of(read(asked, *spans)) == POLLS[1:]


def test_an_id_that_is_used_again_for_another_call_hides_no_result():
    first, second = call("find", "k", job=7), call("status", "k", job=7)
    history = [user("Done?"), agent(calls=[first]), result("job 7", call_id="k")]
    asked = model("m", history, agent(calls=[second]))
    found = read(tool("p1", first, "job 7"), tool("p2", second, "done"), asked)
    assert calls_of(found) == [("find", {"job": 7}, "job 7"), POLLS[1]]


# Results of parallel calls


@pytest.mark.parametrize("ids", [("k1", "k2"), (None, None)])
@pytest.mark.parametrize("answered", [("Oslo", "Paris"), ("Oslo",), ("Paris",)])
def test_a_result_goes_to_its_own_call_of_those_made_at_once(ids, answered):
    cities = [
        call("weather", id_, city=city) for id_, city in zip(ids, ("Paris", "Oslo"), strict=True)
    ]
    spans = [
        tool(f"p{place}", call("weather", None, city=city), f"It snows in {city}.")
        for place, city in enumerate(answered)
    ]
    found = read(model("m", [user("Weather?")], agent(calls=cities)), *spans)
    assert calls_of(found) == [
        ("weather", {"city": city}, f"It snows in {city}." if city in answered else None)
        for city in ("Paris", "Oslo")
    ]


def test_a_result_whose_id_only_the_tool_span_has_goes_to_its_call():
    asked = model("m", [user("Done?")], agent(calls=[polled()]))
    assert calls_of(read(asked, tool("p", polled("k1"), "done"))) == POLLS[1:]
