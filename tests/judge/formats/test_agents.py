"""Where several agents work together, a turn has the name of the one that spoke."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assizes.judge.case import Case
from assizes.judge.errors import DataError
from assizes.judge.formats import WRITERS
from assizes.judge.formats.readers.atif import MAX_DEPTH
from assizes.judge.formats.shared.parsing import FIDELITY
from tests.judge.formats.foreign import FIXTURES, cases_in, fixture, joined, lines


def speakers(case: Case) -> list[tuple[str, str | None]]:
    return [(turn.role, turn.agent) for turn in case.transcript.turns]


# Chat completions


def test_the_name_of_an_assistants_message_is_its_agent():
    messages = [
        {"role": "user", "name": "kim", "content": "Where is order 77?"},
        {"role": "assistant", "name": "planner", "content": "Ask the shop."},
        {"role": "assistant", "name": "clerk", "content": "It is late."},
        {"role": "assistant", "content": "Sorry."},
    ]
    case = joined("openai_chat", {"id": "c-1", "messages": messages})
    assert speakers(case) == [
        ("user", None),
        ("assistant", "planner"),
        ("assistant", "clerk"),
        ("assistant", None),
    ]
    assert case.metadata[FIDELITY] == {"dropped message.name": 1}  # the user's
    record = WRITERS["openai_chat"].record(case)
    assert [message.get("name") for message in record["messages"]] == [
        None,
        "planner",
        "clerk",
        None,
    ]
    assert speakers(joined("openai_chat", record)) == speakers(case)


def test_a_name_in_the_history_of_a_request_log_does_not_part_it_from_its_answer():
    def logged(*messages: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        return {
            "request": {"model": "m1", "messages": list(messages)},
            "response": {"choices": [{"message": answer}]},
            "session_id": "s1",
        }

    asked = {"role": "user", "content": "Where is order 77?"}
    answer = {"role": "assistant", "content": "It is late."}
    thanks = {"role": "user", "content": "Thanks."}
    first = logged(asked, answer=answer)
    second = logged(
        asked,
        {**answer, "name": "clerk"},
        thanks,
        answer={"role": "assistant", "content": "Welcome."},
    )
    case = joined("openai_logs", first, second)
    assert [turn.text for turn in case.transcript.turns] == [
        "Where is order 77?",
        "It is late.",
        "Thanks.",
        "Welcome.",
    ]


# ATIF


def trajectory(name: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    numbered = [{"step_id": place, **step} for place, step in enumerate(steps, 1)]
    return {
        "schema_version": "ATIF-v1.7",
        "session_id": "s1",
        "agent": {"name": name, "version": "1"},
        "steps": numbered,
        **more,
    }


ASKED = {"source": "user", "message": "Where is order 77?"}
FOUND = trajectory(
    "researcher",
    {"source": "system", "message": "You find orders."},
    {"source": "user", "message": "Find order 77."},
    {
        "source": "agent",
        "message": "",
        "tool_calls": [{"tool_call_id": "f", "function_name": "find", "arguments": {"id": 77}}],
        "observation": {"results": [{"source_call_id": "f", "content": "late"}]},
    },
    {"source": "agent", "message": "It is late."},
    trajectory_id="sub-1",
)


def delegated(*references: dict[str, Any], **result: Any) -> dict[str, Any]:
    return {
        "source": "agent",
        "message": "",
        "tool_calls": [{"tool_call_id": "t", "function_name": "Task", "arguments": {}}],
        "observation": {
            "results": [
                {"source_call_id": "t", "subagent_trajectory_ref": list(references), **result}
            ]
        },
    }


def test_an_embedded_sub_agent_speaks_under_its_name_before_the_result_that_names_it():
    record = trajectory(
        "desk",
        ASKED,
        delegated({"trajectory_id": "sub-1"}, content="It is late."),
        {"source": "agent", "message": "Sorry, it is late."},
        subagent_trajectories=[FOUND],
    )
    (case,) = cases_in(json.dumps(record, indent=1).encode())
    assert speakers(case) == [
        ("user", None),
        ("assistant", "desk"),
        ("assistant", "researcher"),
        ("tool", None),
        ("assistant", "researcher"),
        ("tool", None),
        ("assistant", "desk"),
    ]
    assert case.transcript.agents() == ("desk", "researcher")
    assert case.transcript.system is None  # of the desk; that of the researcher is its own
    assert case.metadata[FIDELITY] == {
        "dropped subagent system step": 1,
        "dropped subagent user step": 1,
    }


def test_one_agent_alone_has_no_name_in_its_turns():
    record = trajectory("desk", ASKED, {"source": "agent", "message": "It is late."})
    (case,) = cases_in(lines(record))
    assert speakers(case) == [("user", None), ("assistant", None)]
    assert case.agent == "desk"


@pytest.mark.parametrize(
    ("references", "embedded"),
    [
        ([{"session_id": "s2", "trajectory_path": "other.json"}], []),  # in another file
        ([{"trajectory_id": "sub-2"}], [FOUND]),  # one missing, one that no result names
        ([{"trajectory_id": "sub-1"}, {"trajectory_id": "sub-1"}], [FOUND]),  # named twice
    ],
)
def test_a_sub_agent_that_cannot_be_placed_is_counted(references, embedded):
    step = delegated(*references, content="late")
    record = trajectory("desk", ASKED, step, subagent_trajectories=embedded)
    (case,) = cases_in(lines(record))
    counts = case.metadata[FIDELITY]
    assert counts["dropped subagent trajectory"] == len(embedded) + len(references) - 2 * (
        len(references) - 1
    )
    assert case.transcript.turns[-1].tool_result.content == "late"


def test_sub_agents_within_sub_agents_have_a_bound():
    inner = FOUND
    for depth in range(2, MAX_DEPTH + 3):
        step = delegated({"trajectory_id": inner["trajectory_id"]})
        inner = trajectory(
            f"a{depth}", step, subagent_trajectories=[inner], trajectory_id=f"sub-{depth}"
        )
    (case,) = cases_in(lines({**inner, "steps": [{"step_id": 0, **ASKED}, *inner["steps"]]}))
    assert len(case.transcript.agents()) == MAX_DEPTH + 1
    assert case.metadata[FIDELITY]["dropped subagent trajectory"] == 1


def test_a_fault_within_a_sub_agent_is_named_with_its_place():
    bad = {**FOUND, "steps": [{"step_id": 1, "source": "x"}]}
    record = trajectory(
        "desk", ASKED, delegated({"trajectory_id": "sub-1"}), subagent_trajectories=[bad]
    )
    with pytest.raises(DataError, match=r"steps\.1\.subagent sub-1\.steps\.0\.source: found 'x'"):
        cases_in(lines(record))


# inspect_ai


def test_after_a_handoff_of_inspect_each_answer_has_its_agent():
    (case,) = fixture("inspect_ai_agents.json")
    assert speakers(case) == [
        ("user", None),
        ("assistant", "desk"),
        ("tool", None),
        ("assistant", "researcher"),
        ("user", None),
        ("assistant", "desk"),
    ]


@pytest.mark.parametrize(
    "events", [None, [], "odd", [7, {"event": "model", "output": 3}], [{"event": "span_begin"}]]
)
def test_a_log_of_inspect_without_events_that_say_it_has_no_names(events):
    log = json.loads((FIXTURES / "inspect_ai_agents.json").read_text())
    log["samples"][0]["events"] = events
    (case,) = cases_in(json.dumps(log, indent=1).encode())
    assert case.transcript.agents() == ()
    assert len(case.transcript.turns) == 6


def test_spans_of_inspect_that_lie_within_each_other_end_the_search():
    log = json.loads((FIXTURES / "inspect_ai_agents.json").read_text())
    for event in log["samples"][0]["events"]:
        if event["event"] == "span_begin":
            event |= {"parent_id": event["id"], "type": "solver"}
    (case,) = cases_in(json.dumps(log, indent=1).encode())
    assert case.transcript.agents() == ()


# OpenTelemetry


def test_spans_of_sub_agents_name_theirs_by_the_agent_around_the_model_call():
    def span(name: str, parent: str | None, start: int, **attributes: Any) -> dict[str, Any]:
        attributes = {
            f"gen_ai.{key.replace('__', '.')}": value for key, value in attributes.items()
        }
        return {
            "trace_id": "t1",
            "span_id": name,
            "parent_span_id": parent,
            "start_time": f"2026-11-20T01:00:0{start}Z",
            "end_time": f"2026-11-20T01:00:0{start + 1}Z",
            "attributes": attributes,
        }

    def said(role: str, text: str) -> dict[str, Any]:
        return {"role": role, "parts": [{"type": "text", "content": text}]}

    asked, found = said("user", "Where is order 77?"), said("assistant", "Late, says the shop.")
    spans = [
        span("a", None, 1, operation__name="invoke_agent", agent__name="desk"),
        span("b", "a", 2, operation__name="invoke_agent", agent__name="researcher"),
        span(
            *("c", "b", 3),
            operation__name="chat",
            input__messages=[asked],
            output__messages=[found],
        ),
        span(
            *("d", "a", 5),
            operation__name="chat",
            input__messages=[asked, found],
            output__messages=[said("assistant", "It is late.")],
        ),
    ]
    case = joined("otel", *spans)
    assert speakers(case) == [("user", None), ("assistant", "researcher"), ("assistant", "desk")]
