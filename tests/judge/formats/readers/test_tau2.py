from __future__ import annotations

import json
import math
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.case import Case, Expected, ExpectedCall, ToolCall, Transcript, Usage
from assizes.judge.errors import DataError
from assizes.judge.formats import FORMATS
from assizes.judge.formats.shared.parsing import unchecked_truth
from tests.builders import agent, call, result, user
from tests.judge.formats.files import TAU2, cases_of, read

FORMAT = FORMATS["tau2"]
CLAUDE = "tau2_airline/claude-sonnet-4.5.json.gz"


def message(role: str, content: str | None, at: str | None = None, **rest: Any) -> dict[str, Any]:
    return {"role": role, "content": content, "timestamp": at, **rest}


def results(*messages: dict[str, Any], task: Any = None, **rest: Any) -> dict[str, Any]:
    simulation = {"id": "s1", "task_id": "7", "trial": 1, "messages": list(messages), **rest}
    info = {
        "agent_info": {"implementation": "llm_agent", "llm": "m1", "llm_args": {"api_key": "KEY"}},
        "environment_info": {"domain_name": "florist", "policy": "Be kind."},
        "user_info": {"global_simulation_guidelines": "Play a customer."},
    }
    criteria = {"evaluation_criteria": task}
    tasks = [{"id": "7", "user_scenario": {"instructions": "SECRET"}, **criteria}]
    return {"info": info, "tasks": tasks, "simulations": [simulation]}


def case_of(*messages: dict[str, Any], task: Any = None, **rest: Any) -> Case:
    document = json.dumps(results(*messages, task=task, **rest)).encode()
    (record,) = FORMAT.records(document)
    return FORMAT.case(record)


SPOKEN = (
    message("assistant", "Hi!", "2026-11-21T10:00:00"),
    message("user", "Cancel X", "2026-11-21T10:00:02", cost=0.5, usage={"prompt_tokens": 9}),
    message(
        "assistant",
        None,
        "2026-11-21T10:00:03.250000",
        tool_calls=[
            {"id": "c1", "name": "cancel", "arguments": {"id": "X"}, "requestor": "assistant"}
        ],
        cost=0.01,
        usage={"prompt_tokens": 90, "completion_tokens": 12},
        raw_data={"api_key": "KEY"},
    ),
    message("tool", "not found", "2026-11-21T10:00:04", id="c1", requestor="assistant", error=True),
    message("assistant", "Sorry.", "2026-11-21T10:00:05"),
    message("user", "###TRANSFER###", "2026-11-21T10:00:06"),
)
TASK = {
    "actions": [
        {"name": "cancel", "arguments": {"id": "X"}, "requestor": "assistant"},
        {"name": "look", "arguments": {"id": "X"}, "compare_args": []},
        {"name": "restart", "arguments": {}, "requestor": "user"},
    ],
    "communicate_info": ["327"],
    "nl_assertions": ["X is gone."],
}


def test_only_the_arguments_that_a_task_compares_are_expected():
    action = {"name": "look", "arguments": {"id": "X", "note": "any"}, "compare_args": ["id"]}
    case = case_of(*SPOKEN, task={"actions": [action]})
    assert case.expected.tool_calls == (ExpectedCall(name="look", arguments={"id": "X"}),)


def test_a_simulation_becomes_a_case_with_its_task_and_policy():
    case = case_of(
        *SPOKEN,
        task=TASK,
        start_time="2026-11-21T09:59:59",
        duration=7.5,
        termination_reason="user_stop",
        agent_cost=0.01,
        reward_info={"reward": 0.0},
    )
    cancel = ToolCall(name="cancel", arguments={"id": "X"}, id="c1")
    calling = agent(calls=[cancel], latency_ms=1250.0).model_copy(
        update={"usage": Usage(input_tokens=90, output_tokens=12), "cost_usd": 0.01}
    )
    assert case == Case(
        case_id="7",
        repetition=1,
        transcript=Transcript(
            system="Be kind.",
            turns=(
                agent("Hi!"),
                user("Cancel X"),
                calling,
                result("not found", call_id="c1", is_error=True),
                agent("Sorry.", latency_ms=1000.0),
            ),
            started_at=datetime(2026, 11, 21, 9, 59, 59, tzinfo=UTC),
            duration_ms=7500.0,
            agent_cost_usd=0.01,
            finished=True,
        ),
        expected=Expected(
            outcomes=("X is gone.",),
            tool_calls=(
                ExpectedCall(name="cancel", arguments={"id": "X"}),
                ExpectedCall(name="look", arguments=None),
            ),
            said=("327",),
        ),
        agent="m1",
        tags={"trial": "1", "domain": "florist"},
        cluster="7",
        labels={"reward": 0.0},
        metadata={
            "fidelity": {"unchecked call expected of the user": 1},
            "simulation_id": "s1",
            "termination_reason": "user_stop",
        },
    )


def test_neither_keys_nor_instructions_nor_raw_replies_arrive():
    case = case_of(message("user", "Hi", raw_data={"x": "SECRET"}))
    written = case.model_dump_json()
    assert "SECRET" not in written
    assert "KEY" not in written


def test_tool_calls_of_the_user_are_marked_text_of_the_user_and_never_the_agents():
    case = case_of(
        message("assistant", "Please restart it."),
        message(
            "user",
            "Doing it.",
            tool_calls=[
                {"id": "u1", "name": "restart", "arguments": {"hard": True}, "requestor": "user"}
            ],
        ),
        message("tool", "restarted", id="u1", requestor="user", error=False),
        message("user", None, tool_calls=[{"id": "u2", "name": "look", "arguments": "{}"}]),
        message("tool", "dark", id="u2", requestor="user", error=True),
        message("user", "Still dark."),
    )
    assert case.transcript.turns == (
        agent("Please restart it."),
        user('Doing it.\n[the user\'s own tool call: restart({"hard": true})]'),
        user("[result of the user's own tool call: restarted]"),
        user("[the user's own tool call: look({})]"),
        user("[error of the user's own tool call: dark]"),
        user("Still dark."),
    )
    assert list(case.transcript.calls()) == []
    assert case.transcript.results() == {}


@pytest.mark.parametrize(
    ("before", "at", "latency_ms"),
    [
        ("2026-11-21T10:00:00", "2026-11-21T10:00:01.234567", 1234.567),
        ("2026-11-21T10:00:00Z", "2026-11-21T11:00:00+01:00", 0.0),
        ("2026-11-21T10:00:00", "2026-11-21T10:00:01Z", 1000.0),
        ("2026-11-21T10:00:01", "2026-11-21T10:00:00", None),
        (None, "2026-11-21T10:00:00", None),
        ("2026-11-21T10:00:00", None, None),
    ],
)
def test_latency_is_the_time_since_the_message_before(
    before: str | None, at: str | None, latency_ms: float | None
):
    case = case_of(message("user", "Hi", before), message("assistant", "Hi", at))
    assert case.transcript.turns[1].latency_ms == latency_ms


@pytest.mark.parametrize(
    ("reason", "finished"),
    [
        ("user_stop", True),
        ("agent_stop", True),
        ("max_steps", False),
        ("too_many_errors", False),
        ("agent_error", False),
        (None, None),
    ],
)
def test_how_a_simulation_ended_says_whether_it_is_whole(reason: str | None, finished: bool | None):
    assert case_of(termination_reason=reason).transcript.finished is finished


@pytest.mark.parametrize("cost", [None, 0.0, 0.25])
def test_the_agents_cost_stays_as_recorded(cost: float | None):
    assert case_of(agent_cost=cost).transcript.agent_cost_usd == cost


@pytest.mark.parametrize("task", [None, {}, {"actions": None, "nl_assertions": None}])
def test_a_task_without_criteria_expects_nothing_known(task: Any):
    assert case_of(task=task).expected == Expected()


def test_an_empty_list_of_actions_means_that_no_call_is_needed():
    assert case_of(task={"actions": []}).expected.tool_calls == ()


def test_calls_may_be_written_as_text():
    case = case_of(message("assistant", "", tool_calls=[{"name": "f", "arguments": '{"a": 1}'}]))
    assert case.transcript.turns == (agent("", calls=[call("f", None, a=1)]),)


def test_without_a_model_the_agent_is_its_implementation():
    document = results()
    document["info"]["agent_info"]["llm"] = None
    document["tasks"][0]["id"] = 7
    document["simulations"][0].update(trial=None, task_id=7, reward_info=None)
    (record,) = FORMAT.records(json.dumps(document).encode())
    case = FORMAT.case(record)
    assert (case.agent, case.case_id, case.repetition, case.labels) == ("llm_agent", "7", 0, {})


def test_a_file_without_facts_still_has_its_conversations():
    document = {"tasks": [{"id": "7"}], "simulations": results()["simulations"]}
    (record,) = FORMAT.records(json.dumps(document).encode())
    case = FORMAT.case(record)
    assert (case.agent, case.transcript.system, case.tags) == (None, None, {"trial": "1"})


@pytest.mark.parametrize(
    ("document", "code", "said"),
    [
        (b'{"simulations": [', "json", "EOF"),
        (b'{"simulations": [], "info": Infinity}', "json", "column"),
        (b'{"simulations": [], "info": "\\ud800"}', "encoding", "surrogate"),
        (b'{"simulations": [], "simulations": []}', "duplicate_key", "line 1"),
        (b"{}", "schema", "simulations: Field required"),
        (b"[]", "schema", "record: "),
        (b'{"simulations": [], "tasks": [1]}', "schema", "tasks.0: "),
    ],
)
def test_a_file_without_simulations_is_refused(document: bytes, code: str, said: str):
    with pytest.raises(DataError) as refused:
        FORMAT.records(document)
    assert (refused.value.code, said in refused.value.detail) == (code, True), refused.value


@pytest.mark.parametrize(
    ("simulation", "said"),
    [
        ("text", "simulation.task_id: the file has no task"),
        ({"task_id": "8", "messages": []}, "simulation.task_id: the file has no task"),
        ({"task_id": "7"}, "simulation.messages: Field required"),
        ({"task_id": "7", "messages": [{"role": "judge"}]}, "simulation.messages.0.role: "),
        ({"task_id": "7", "messages": [], "trial": -1}, "repetition: "),
        ({"task_id": "7", "messages": [], "duration": "long"}, "simulation.duration: "),
        ({"task_id": "7", "messages": [], "start_time": "noon"}, "simulation.start_time: "),
    ],
)
def test_one_broken_simulation_is_refused_and_the_others_are_read(simulation: Any, said: str):
    document = results()
    document["simulations"].append(simulation)
    good, broken = FORMAT.records(json.dumps(document).encode())
    assert FORMAT.case(good).case_id == "7"
    with pytest.raises(DataError, match="schema") as refused:
        FORMAT.case(broken)
    assert said in refused.value.detail


@pytest.mark.parametrize("record", [None, "text", {}])
def test_what_is_no_record_is_refused(record: Any):
    with pytest.raises(DataError, match="schema"):
        FORMAT.case(record)


@pytest.mark.data
def test_there_are_240_simulations(data: Path):
    assert sum(len(cases_of(data / path, "tau2")) for path in TAU2) == 240


@pytest.mark.data
@pytest.mark.parametrize("path", TAU2)
def test_all_turns_calls_and_results_of_a_real_file_arrive(data: Path, path: str):
    cases = cases_of(data / path, "tau2")
    simulations = json.loads(read(data / path))["simulations"]
    messages = [one for each in simulations for one in each["messages"]]
    roles = Counter(one["role"] for one in messages)
    bare = sum(
        one["role"] == "user"
        and one["content"] in {"###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###"}
        for one in messages
    )
    turns = [turn for case in cases for turn in case.transcript.turns]
    assert Counter(turn.role for turn in turns) == {**roles, "user": roles["user"] - bare}
    written = [one for each in messages for one in each.get("tool_calls") or ()]
    assert {one["requestor"] for one in written} == {"assistant"}
    assert [
        (one.id, one.name, one.arguments) for case in cases for _, one in case.transcript.calls()
    ] == [(one["id"], one["name"], one["arguments"]) for one in written]
    answers = [one for one in messages if one["role"] == "tool"]
    assert [turn.tool_result for turn in turns if turn.tool_result] == [
        result(one["content"], call_id=one["id"], is_error=one["error"]).tool_result
        for one in answers
    ]
    markers = ("###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###")
    assert not any(marker in (turn.text or "") for turn in turns for marker in markers)


@pytest.mark.data
@pytest.mark.parametrize(
    ("path", "reward", "agent_cost", "unfinished"),
    [
        (CLAUDE, 0.72, 0.28886496, 0),
        ("tau2_airline/gpt-4.1.json.gz", 0.5, 0.0391634, 0),
        ("tau2_airline/gpt-4.1-finetuned.json.gz", 0.65, 0.0, 0),
        ("tau2_airline/gpt-4o.json.gz", 0.46, 0.08406622, 0),
        ("tau2_airline/gpt-oss-120b.json.gz", 0.38, None, 6),
        ("tau2_airline/qwen2.5-7b.json.gz", 0.18, 0.0, 10),
    ],
)
def test_rewards_costs_and_ends_of_a_real_file_arrive(
    data: Path, path: str, reward: float, agent_cost: float | None, unfinished: int
):
    cases = cases_of(data / path, "tau2")
    costs = [case.transcript.agent_cost_usd for case in cases]
    known = [cost for cost in costs if cost is not None]
    mean_cost = round(math.fsum(known) / len(known), 9) if len(known) == len(costs) else None
    assert round(math.fsum(case.labels["reward"] for case in cases) / len(cases), 9) == reward
    assert mean_cost == agent_cost
    assert sum(case.transcript.finished is False for case in cases) == unfinished
    assert all(case.agent and case.transcript.system for case in cases)


@pytest.mark.data
@pytest.mark.parametrize("path", TAU2)
def test_every_agent_turn_of_a_real_file_but_the_first_has_a_latency(data: Path, path: str):
    for case in cases_of(data / path, "tau2"):
        latencies = [t.latency_ms for t in case.transcript.turns if t.role == "assistant"]
        assert latencies[0] is None
        assert all(one is not None and one >= 0 for one in latencies[1:])


@pytest.mark.data
def test_the_metadata_of_the_real_files_is_small(data: Path):
    for path in TAU2:
        for case in cases_of(data / path, "tau2"):
            assert set(case.metadata) == {"simulation_id", "termination_reason"}
            assert "api_key" not in case.model_dump_json()


def test_ground_truth_that_no_judge_can_check_is_counted():
    task = TASK | {"env_assertions": [{"func_name": "assert_lit"}, {"func_name": "assert_on"}]}
    case = case_of(*SPOKEN, task=task)
    counts = {"unchecked call expected of the user": 1, "unchecked environment assertion": 2}
    assert case.metadata["fidelity"] == counts
    assert unchecked_truth(case) == "call expected of the user 1, environment assertion 2"
    assert unchecked_truth(case_of(*SPOKEN, task={"actions": []})) == ""
