"""Traces of any emitter: the tokens of all model calls, and the passages of the last retrieval."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assizes.judge.case import Case, Chunk, Usage
from assizes.judge.prompts.prompt_texts import rendered_turns
from tests.judge.formats.foreign import joined, turn_lines

REWRITE = [{"role": "user", "content": "Rewrite as a query: Where is order 77?"}]
ASKED = [{"role": "user", "content": "Where is order 77?"}]
TURNS = ["user: Where is order 77?", "assistant: It is late."]
START = 1_790_000_000_000_000_000


def mlflow_span(place: int, kind: str, parent: str | None = None, **rest: Any) -> dict[str, Any]:
    attributes = {"mlflow.spanType": kind, **{f"mlflow.{name}": rest[name] for name in rest}}
    return {
        "span_id": f"s{place}",
        "parent_span_id": parent,
        "start_time_unix_nano": START + place * 10**9,
        "end_time_unix_nano": START + place * 10**9 + 10**8,
        "attributes": {name: json.dumps(value) for name, value in attributes.items()},
    }


def model_call(place: int, asked: Any, answer: str, used: tuple[int, int], **rest: Any) -> Any:
    return mlflow_span(
        place,
        rest.pop("kind", "CHAT_MODEL"),
        spanInputs={"messages": asked},
        spanOutputs={"role": "assistant", "content": answer},
        **{"chat.tokenUsage": {"input_tokens": used[0], "output_tokens": used[1]}},
        **rest,
    )


def retriever(place: int, *contents: str, parent: str | None = None) -> dict[str, Any]:
    passages = [{"page_content": text, "metadata": {"doc_uri": f"{text}.md"}} for text in contents]
    return mlflow_span(place, "RETRIEVER", parent, spanInputs="order 77", spanOutputs=passages)


def mlflow_trace(*spans: dict[str, Any], trace_id: str = "t1", **info: Any) -> dict[str, Any]:
    return {"info": {"trace_id": trace_id, **info}, "data": {"spans": list(spans)}}


def otel_call(place: int, asked: str, answer: str, used: tuple[int, int]) -> dict[str, Any]:
    return {
        "trace_id": "t1",
        "span_id": f"s{place}",
        "start_time": START + place * 10**9,
        "end_time": START + place * 10**9 + 10**8,
        "attributes": {
            "gen_ai.operation.name": "chat",
            "gen_ai.input.messages": [
                {"role": "user", "parts": [{"type": "text", "content": asked}]}
            ],
            "gen_ai.output.messages": [
                {"role": "assistant", "parts": [{"type": "text", "content": answer}]}
            ],
            "gen_ai.usage.input_tokens": used[0],
            "gen_ai.usage.output_tokens": used[1],
        },
    }


def langfuse_call(place: int, asked: str, answer: str, used: tuple[int, int]) -> dict[str, Any]:
    return {
        "id": f"s{place}",
        "trace_id": "t1",
        "type": "GENERATION",
        "start_time": f"2026-11-21T12:00:0{place}Z",
        "end_time": f"2026-11-21T12:00:0{place}Z",
        "input": asked,
        "output": answer,
        "usage_details": {"input": used[0], "output": used[1]},
        "total_cost": 0.25,
    }


REWRITING = (
    model_call(0, REWRITE, "order 77 state", (100, 20)),
    model_call(9, ASKED, "It is late.", (200, 30)),
)


def case_of(*spans: dict[str, Any]) -> Case:
    return joined("mlflow", mlflow_trace(*spans))


def tokens(case: Case) -> tuple[int, int, int]:
    used = case.transcript.agent_usage() or Usage()
    return used.input_tokens + used.output_tokens, used.input_tokens, used.output_tokens


def passages(case: Case) -> list[list[str]]:
    """The contents of every retrieval step, in the order of the turns."""
    steps = [turn.chunks for turn in case.transcript.turns if turn.chunks is not None]
    return [[chunk.content for chunk in chunks] for chunks in steps]


# Tokens


@pytest.mark.row("005-16")
@pytest.mark.parametrize(
    "case",
    [
        joined("mlflow", mlflow_trace(*REWRITING)),
        joined(
            "otel",
            otel_call(0, "Rewrite as a query: Where is order 77?", "order 77 state", (100, 20)),
            otel_call(1, "Where is order 77?", "It is late.", (200, 30)),
        ),
        joined(
            "langfuse",
            langfuse_call(0, "Rewrite as a query: Where is order 77?", "state of 77", (100, 20)),
            langfuse_call(1, "Where is order 77?", "It is late.", (200, 30)),
        ),
    ],
    ids=["mlflow", "otel", "langfuse"],
)
def test_the_tokens_of_a_trace_are_those_of_all_its_model_calls(case: Case):
    assert turn_lines(case) == TURNS
    assert tokens(case) == (350, 300, 50)
    assert case.transcript.turns[-1].usage == Usage(input_tokens=200, output_tokens=30)


def test_the_dollars_of_a_trace_are_those_of_all_its_model_calls():
    case = joined(
        "langfuse", langfuse_call(0, "a", "b", (1, 1)), langfuse_call(1, "c", "d", (1, 1))
    )
    assert (len(case.transcript.turns), case.transcript.cost_usd()) == (2, 0.5)


@pytest.mark.parametrize("by_framework", [(200, 30), (14, 43), (900, 90)])
def test_a_model_call_that_a_framework_records_too_counts_once_as_its_provider_says(by_framework):
    outer = model_call(0, ASKED, "It is late.", by_framework)
    inner = model_call(1, ASKED, "It is late.", (200, 30), parent="s0")
    assert tokens(case_of(outer, inner)) == (230, 200, 30)


def test_a_model_call_within_a_tool_counts():
    tool = mlflow_span(1, "TOOL", spanInputs={"q": "77"}, spanOutputs="late")
    inside = model_call(2, REWRITE, "late", (7, 3), parent="s1")
    case = case_of(model_call(0, ASKED, "It is late.", (200, 30)), tool, inside)
    assert tokens(case) == (240, 207, 33)


def test_tokens_that_only_the_agent_records_count_and_never_beside_those_of_its_calls():
    agent = model_call(0, ASKED, "It is late.", (300, 50), kind="AGENT")
    assert tokens(case_of(agent)) == (350, 300, 50)
    inside = model_call(1, ASKED, "It is late.", (200, 30), parent="s0")
    assert tokens(case_of(agent, inside)) == (230, 200, 30)


def test_a_trace_whose_turns_tell_all_tokens_says_nothing_beside_them():
    case = case_of(model_call(0, ASKED, "It is late.", (200, 30)))
    assert (case.transcript.usage, case.transcript.agent_cost_usd) == (None, None)


def test_a_trace_without_tokens_has_none():
    silent = mlflow_span(0, "LLM", spanInputs="Where is order 77?", spanOutputs="It is late.")
    assert case_of(silent).transcript.agent_usage() is None


# Retrieval


@pytest.mark.row("005-17", "004-92")
def test_the_last_retrieval_step_is_judged_and_the_others_are_kept():
    case = case_of(retriever(0, "draft"), retriever(1, "fees", "delays"), *REWRITING[1:])
    assert [chunk.content for chunk in case.transcript.retrieved_chunks()] == ["fees", "delays"]
    assert passages(case) == [["draft"], ["fees", "delays"]]
    assert case.transcript.turns[1].chunks == (Chunk(content="draft", doc_uri="draft.md"),)


@pytest.mark.row("005-17")
def test_people_see_every_retrieval_step_and_a_prompt_says_that_there_was_one():
    case = case_of(retriever(0, "draft"), retriever(1), *REWRITING[1:])
    assert [turn.all_text() for turn in case.transcript.turns] == [
        "Where is order 77?",
        "retrieved from draft.md: draft",
        "It is late.\nretrieved: nothing",
    ]
    assert rendered_turns(case.transcript) == [
        "[0] user: Where is order 77?",
        "[1] retrieval: (passages: 1)",
        "[2] assistant: It is late.",
    ]


def test_a_retriever_within_a_retriever_is_a_part_of_its_step():
    inner = retriever(1, "a", parent="s0")
    assert passages(case_of(retriever(0, "a", "b"), inner, *REWRITING[1:])) == [["a", "b"]]


def test_each_trace_of_a_session_keeps_its_own_steps_though_the_history_is_repeated():
    session = {"trace_metadata": {"mlflow.trace.session": "s"}}
    thanks = [
        *ASKED,
        {"role": "assistant", "content": "It is late."},
        {"role": "user", "content": "Why?"},
    ]
    first = mlflow_trace(retriever(0, "a"), retriever(1, "b"), *REWRITING[1:], **session)
    second = mlflow_trace(
        retriever(2, "c"),
        retriever(3, "d"),
        model_call(4, thanks, "Snow.", (1, 1)),
        trace_id="t2",
        **session,
    )
    case = joined("mlflow", first, second)
    assert passages(case) == [["a"], ["b"], ["c"], ["d"]]
    assert [line for line in turn_lines(case) if line != "tool:"] == [
        *TURNS,
        "user: Why?",
        "assistant: Snow.",
    ]


def test_without_an_answer_the_last_step_stands_for_the_whole_and_the_others_are_counted():
    asked = mlflow_span(2, "CHAT_MODEL", spanInputs={"messages": ASKED})
    case = case_of(retriever(0, "a"), retriever(1, "b"), asked)
    assert (turn_lines(case), case.transcript.chunks) == (
        TURNS[:1],
        (Chunk(content="b", doc_uri="b.md"),),
    )
    assert case.metadata["fidelity"] == {"dropped retrieval step": 1}


# Agents


def agent_span(place: int, name: str) -> dict[str, Any]:
    span = otel_call(place, "", "", (0, 0))
    attributes = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}
    return {**span, "attributes": attributes}


def test_the_turns_of_several_agents_have_the_names_of_the_spans_around_them():
    plan = otel_call(1, "Count.", "I plan.", (1, 1)) | {"parent_id": "s0"}
    count = otel_call(3, "Count.", "Four.", (1, 1)) | {"parent_id": "s2"}
    history = count["attributes"]["gen_ai.input.messages"]
    history.append({"role": "assistant", "parts": [{"type": "text", "content": "I plan."}]})
    spans = [agent_span(0, "planner"), plan, agent_span(2, "counter"), count]
    turns = joined("otel", spans).transcript.turns
    assert [(turn.text, turn.agent) for turn in turns] == [
        ("Count.", None),
        ("I plan.", "planner"),
        ("Four.", "counter"),
    ]
    alone = [agent_span(0, "planner"), plan, agent_span(2, "planner"), count]
    assert joined("otel", alone).transcript.agents() == ()
