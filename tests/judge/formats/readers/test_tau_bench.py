from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.case import Case, Expected, ExpectedCall, ToolCall, Transcript
from assizes.judge.errors import DataError
from assizes.judge.formats import FORMATS
from tests.builders import agent, call, result, user
from tests.judge.formats.files import TAU_BENCH, cases_of, read

FORMAT = FORMATS["tau_bench"]


def message(role: str, content: str | None, **rest: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **rest}


def calling(name: str, arguments: Any, id: str = "call_1") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": id, "type": "function", "function": function}


def trajectory(*traj: dict[str, Any], **rest: Any) -> dict[str, Any]:
    info = {"task": {"actions": [], "outputs": []}, "reward_info": {"reward": 1.0}}
    return {"task_id": 3, "trial": 2, "reward": 1.0, "info": info, "traj": list(traj), **rest}


def turns_of(*traj: dict[str, Any]) -> tuple[Any, ...]:
    return FORMAT.case(trajectory(*traj)).transcript.turns


def test_a_trajectory_becomes_a_case():
    task = {
        "user_id": "u9",
        "instruction": "You want it gone.",
        "actions": [{"name": "cancel", "kwargs": {"order": "X"}}],
        "outputs": ["327"],
    }
    record = trajectory(
        message("system", "Be kind."),
        message("user", "Cancel X"),
        message("assistant", None, tool_calls=[calling("cancel", '{"order": "X"}')]),
        message("tool", "done", tool_call_id="call_1", name="cancel"),
        message("assistant", "It is gone."),
        message("user", "Thanks ###STOP###"),
        info={"task": task, "source": "user", "reward_info": {"reward": 1.0}, "user_cost": 0.1},
    )
    assert FORMAT.case(record) == Case(
        case_id="3",
        repetition=2,
        transcript=Transcript(
            system="Be kind.",
            turns=(
                user("Cancel X"),
                agent(calls=[call("cancel", order="X")]),
                result("done", name="cancel"),
                agent("It is gone."),
                user("Thanks"),
            ),
            finished=True,
        ),
        expected=Expected(
            tool_calls=(ExpectedCall(name="cancel", arguments={"order": "X"}),), said=("327",)
        ),
        tags={"trial": "2"},
        cluster="3",
        labels={"reward": 1.0},
        metadata={"instruction": "You want it gone.", "user_id": "u9", "ended_by": "user"},
    )


def test_what_the_simulated_customer_was_told_is_not_part_of_what_judges_see():
    info = {"task": {"instruction": "SECRET", "user_id": "SECRET"}}
    case = FORMAT.case(trajectory(message("user", "Hi"), info=info))
    assert "SECRET" not in case.model_dump_json(exclude={"metadata"})


@pytest.mark.parametrize(
    ("written", "arguments", "raw"),
    [
        ('{"a": [1, 2.5]}', {"a": [1, 2.5]}, None),
        ("{}", {}, None),
        ({"a": 1}, {"a": 1}, None),
        (None, {}, None),
        ("", {}, ""),
        ("{'a': 1}", {}, "{'a': 1}"),
        ("[1]", {}, "[1]"),
        ('{"a": NaN}', {}, '{"a": NaN}'),
        ('{"a": 1, "a": 2}', {}, '{"a": 1, "a": 2}'),
    ],
)
def test_arguments_are_read_from_their_text_or_kept_as_text(
    written: Any, arguments: dict[str, Any], raw: str | None
):
    (turn,) = turns_of(message("assistant", None, tool_calls=[calling("f", written)]))
    assert turn.tool_calls == (ToolCall(name="f", arguments=arguments, id="call_1", raw=raw),)


def test_text_beside_a_call_is_kept():
    (turn,) = turns_of(message("assistant", "One moment.", tool_calls=[calling("f", "{}")]))
    assert turn == agent("One moment.", calls=[call("f")])


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("Thanks ###STOP###", "Thanks"),
        ("Thanks\n\n###STOP###\n", "Thanks"),
        ("Thanks ###TRANSFER### ###OUT-OF-SCOPE###", "Thanks"),
        ("Thanks ###STOP_2###", "Thanks"),
        ("###STOP### is what I say", "###STOP### is what I say"),
        ("### Options ###", "### Options ###"),
        ("Thanks. \n", "Thanks. \n"),
        ("##STOP##", "##STOP##"),
    ],
)
def test_markers_at_the_end_of_a_users_text_are_taken_off(written: str, kept: str):
    assert turns_of(message("user", written), message("assistant", "Bye")) == (
        user(kept),
        agent("Bye"),
    )


def test_an_agents_marker_stays():
    assert turns_of(message("assistant", "Bye ###STOP###")) == (agent("Bye ###STOP###"),)


def test_a_turn_of_nothing_but_a_marker_is_dropped_only_at_the_end():
    marker = message("user", "###STOP###")
    assert turns_of(marker, message("assistant", "Bye"), marker) == (user(""), agent("Bye"))
    assert turns_of(message("user", "")) == (user(""),)


def test_taking_markers_off_takes_linear_time():
    many = "###A###" * 100_000
    assert turns_of(message("user", f"x{many}")) == (user("x"),)
    assert turns_of(message("user", f"{many}x")) == (user(f"{many}x"),)


@pytest.mark.parametrize(
    ("content", "is_error"), [("Error: no such id", True), ("No Error", False), ("", False)]
)
def test_a_result_that_begins_with_error_is_one(content: str, *, is_error: bool):
    assert turns_of(message("tool", content, tool_call_id="call_1")) == (
        result(content, is_error=is_error),
    )


def test_a_conversation_that_was_never_judged_was_cut_off():
    info: dict[str, Any] = {"task": {}, "reward_info": None}
    case = FORMAT.case(trajectory(message("user", "Hi"), info=info, reward=None))
    assert case.transcript.finished is False
    assert case.labels == {}
    assert case.expected == Expected(tool_calls=None)


def test_an_empty_list_of_actions_means_that_no_call_is_needed():
    assert FORMAT.case(trajectory()).expected.tool_calls == ()


@pytest.mark.parametrize(
    ("document", "code", "said"),
    [
        (b'[{"task_id": 1', "json", "EOF"),
        (b"NaN", "json", "column"),
        (b'"\xff"', "encoding", "byte 1"),
        (b'{"a": 1, "a": 1}', "duplicate_key", "line 1"),
        (b"{}", "schema", "found dict, expected a list"),
    ],
)
def test_a_file_that_is_no_list_is_refused(document: bytes, code: str, said: str):
    with pytest.raises(DataError) as refused:
        FORMAT.records(document)
    assert (refused.value.code, said in refused.value.detail) == (code, True), refused.value


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ("text", "record: "),
        ({}, "task_id"),
        (trajectory(message("judge", "Hi")), "traj.0.role: "),
        (trajectory(message("user", "Hi"), message("system", "Hi")), "role: "),
        (trajectory(message("assistant", None, tool_calls=[{}])), "traj.0.tool_calls.0.function: "),
        (trajectory(trial=-1), "repetition: "),
        (trajectory(task_id=""), "case_id: "),
    ],
)
def test_a_record_that_is_no_trajectory_is_refused_by_its_path(record: Any, said: str):
    with pytest.raises(DataError, match="schema") as refused:
        FORMAT.case(record)
    assert said in refused.value.detail


@pytest.fixture(scope="module")
def trajectories(data: Path) -> list[dict[str, Any]]:
    found = json.loads(read(data / TAU_BENCH))
    assert isinstance(found, list)
    return found


@pytest.mark.data
def test_all_turns_calls_and_results_of_the_real_file_arrive(
    data: Path, trajectories: list[dict[str, Any]]
):
    cases = cases_of(data / TAU_BENCH, "tau_bench")
    assert len(cases) == len({(case.case_id, case.repetition) for case in cases}) == 200
    assert Counter(case.cluster for case in cases) == {str(task): 4 for task in range(50)}
    messages = [one for each in trajectories for one in each["traj"]]
    roles = Counter(one["role"] for one in messages)
    bare_markers = sum(one["content"] == "###STOP###" for one in messages)
    turns = [turn for case in cases for turn in case.transcript.turns]
    assert Counter(turn.role for turn in turns) == {
        "user": roles["user"] - bare_markers,
        "assistant": roles["assistant"],
        "tool": roles["tool"],
    }
    assert (len(turns), bare_markers) == (5308 - 200 - 29, 29)
    calls = [one for case in cases for _, one in case.transcript.calls()]
    written = [one["function"] for each in messages for one in each.get("tool_calls") or ()]
    assert [(one.name, one.arguments, one.raw) for one in calls] == [
        (one["name"], json.loads(one["arguments"]), None) for one in written
    ]
    results = [turn.tool_result for turn in turns if turn.tool_result]
    assert len(calls) == len(results) == 1164
    assert sum(one.is_error for one in results) == 73
    assert all(case.transcript.system for case in cases)


@pytest.mark.data
def test_the_ground_truth_of_the_real_file_arrives(data: Path, trajectories: list[dict[str, Any]]):
    cases = cases_of(data / TAU_BENCH, "tau_bench")
    assert math.fsum(case.labels["reward"] for case in cases) / 200 == 0.42
    assert sum(case.transcript.finished is False for case in cases) == 5
    assert [len(case.expected.tool_calls or ()) for case in cases] == [
        len(one["info"]["task"]["actions"]) for one in trajectories
    ]
    assert sum(case.expected.tool_calls == () for case in cases) == 28
    assert sum(len(case.expected.said) for case in cases) == 32


@pytest.mark.data
def test_no_stop_marker_and_no_instruction_of_the_real_file_reaches_a_judge(data: Path):
    for case in cases_of(data / TAU_BENCH, "tau_bench"):
        seen = case.model_dump_json(exclude={"metadata"})
        assert "###STOP###" not in seen
        assert case.metadata["instruction"] not in seen
