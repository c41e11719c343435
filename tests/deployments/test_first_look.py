"""What the offline judge says of data that nobody has prepared for it: no more than it saw."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from assizes.deployments.commands.init import write_config
from assizes.deployments.commands.output import print_outcome
from assizes.deployments.settings import validate_config
from assizes.flows.nightly import PartOutcome, conclude_parts
from assizes.flows.outcome import to_state
from assizes.flows.shards import ShardFailures
from assizes.judge.case import Case, Expected, ExpectedCall
from assizes.judge.config.run import RunConfig
from assizes.judge.formats import native_line
from assizes.judge.summary.run_summary import RunSummary
from assizes.tasks.context.run_context import open_run_context
from assizes.tasks.judge_shard import judge_shard
from assizes.tasks.plan import RunRequest, plan_run
from assizes.tasks.reports.stored import stored_report_data
from assizes.tasks.summarise import BaselineResult, summarise_run
from tests.builders import agent, call, case, result, user


class FirstLook(NamedTuple):
    summary: RunSummary
    printed: str
    report: dict[str, Any]
    scores: list[dict[str, Any]]


@pytest.fixture
def look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Judge cases with what `assizes init` writes, and say what a person then sees."""
    monkeypatch.chdir(tmp_path)

    async def seen(cases: Sequence[Case] | str, **judge: Any) -> FirstLook:
        file = Path("t.csv" if isinstance(cases, str) else "t.jsonl")
        lines = [cases.encode()] if isinstance(cases, str) else map(native_line, cases)
        file.write_bytes(b"".join(lines))
        write_config(str(file), Path("assizes.toml"), force=True)
        body = tomllib.loads(Path("assizes.toml").read_text("utf-8"))
        body["comparison"].pop("baseline")
        return await ended(validate_config({**body, "judge": {**body["judge"], **judge}}, "test"))

    async def ended(config: RunConfig) -> FirstLook:
        async with open_run_context(config) as context:
            run = await plan_run.fn(context, RunRequest())
            for shard in run.intake.shards:
                await judge_shard.fn(context, run.run_id, shard)
            finished, summary = await summarise_run.fn(context, run, has_lost_shards=False)
            report = stored_report_data(context.store, finished.record, None)
            scores = context.store.table(run.run_id, "scores").to_dicts()
        state = to_state(
            finished.record, summary, BaselineResult(), ShardFailures(), {}, fail=False
        )
        capsys.readouterr()
        print_outcome(state.data)
        return FirstLook(summary, capsys.readouterr().out, report, scores)

    return seen


def booking(number: int, *, made: bool = True, **rest: Any) -> Case:
    code = f"AB{number}7"
    turns = [user(f"Please book flight {code} for me.")]
    if made:
        turns += [agent(calls=[call("book_flight", flight=code)]), result(f"booked {code}")]
    turns += [agent(f"Flight {code} is booked. Is there anything else?"), user("No, thank you.")]
    return case(*turns, agent("Have a nice day!"), case_id=f"c{number}", **rest)


CALLS = Expected(tool_calls=(ExpectedCall(name="book_flight"),))
TASK = ["tool_routing", "response_delivery", {"metric": "task_completion", "weight": 1}]
EIGHT = [booking(number, made=number != 5) for number in range(8)]


async def test_a_booking_that_was_never_made_is_not_passed_without_a_word_on_task_success(look):
    ending = await look(EIGHT)
    assert ending.summary.outcome == "passed"
    assert ending.summary.task_unjudged_count == 8
    lines = ending.printed.splitlines()
    assert "TASK SUCCESS NOT JUDGED" in lines
    assert "PASSED" not in lines
    assert any(line.startswith("  task success was not judged in 8 of 8 cases") for line in lines)
    verdict = ending.report["verdict"]
    assert (verdict["outcome"], verdict["word"]) == ("passed", "TASK SUCCESS NOT JUDGED")
    assert "task success was not judged in 8 of 8 cases" in verdict["reasons"][0]


async def test_table_and_report_name_the_metrics_that_are_not_seen_without_ground_truth(look):
    ending = await look(EIGHT)
    (row,) = [
        line for line in ending.printed.splitlines() if line.strip().startswith("tool_routing")
    ]
    assert row.rstrip().endswith("0/0*")
    (line,) = [line for line in ending.printed.splitlines() if line.startswith("* ")]
    assert line.startswith("* cases that show nothing of it or lack ground truth: ")
    assert "tool_routing 8" in line
    (line,) = [s for s in ending.report["skipped"]["shown"] if s["metrics"] == ["tool_routing"]]
    assert line["count"] == 8
    assert "no expected calls are given to compare the calls with" in line["reason"]


async def test_an_outcome_that_the_agent_only_claims_does_not_make_a_pass(look):
    told = [Expected(outcomes=(f"Flight AB{number}7 is booked.",)) for number in range(8)]
    ending = await look(
        [booking(number, made=number != 5, expected=told[number]) for number in range(8)]
    )
    assert (ending.summary.outcome, ending.summary.task_unjudged_count) == ("passed", 8)
    assert "TASK SUCCESS NOT JUDGED" in ending.printed.splitlines()


async def test_where_the_task_was_judged_in_some_cases_the_ending_says_that_it_was_not_in_others(
    look,
):
    ending = await look([booking(0, expected=CALLS), booking(1)], metrics=TASK)
    assert "TASK SUCCESS NOT JUDGED" in ending.printed.splitlines()
    assert "task success was not judged in 1 of 2 cases" in ending.printed


async def test_where_the_task_was_judged_everywhere_a_pass_is_a_pass(look):
    ending = await look([booking(number, expected=CALLS) for number in range(2)], metrics=TASK)
    assert "PASSED" in ending.printed.splitlines()
    assert ending.summary.task_unjudged_count == 0
    assert ending.report["verdict"]["word"] == "PASSED"


async def test_an_input_without_any_tool_call_is_said_once_and_nothing_is_judged_by_calls(look):
    cases = [booking(number, made=False, expected=CALLS) for number in range(40)]
    ending = await look(cases, metrics=TASK)
    told = "no tool trace in 40 of 40 conversations"
    assert ending.printed.count(told) == 1
    assert ending.summary.warnings[0].startswith(told)
    by_metric = {s["metric"]: (s["status"], s["reason"]) for s in ending.scores if not s["part"]}
    assert by_metric["tool_routing"] == (
        "skipped",
        "no tool trace: no conversation of the input holds a tool call",
    )
    assert by_metric["task_completion"][0] == "skipped"
    assert by_metric["response_delivery"][0] == "scored"
    assert "TASK SUCCESS NOT JUDGED" in ending.printed


async def test_one_conversation_without_calls_among_others_is_the_agents_fault(look):
    cases = [booking(0, made=False, expected=CALLS), booking(1, expected=CALLS)]
    ending = await look(cases, metrics=TASK)
    assert "no tool trace" not in ending.printed
    routed = {s["case_id"]: s["raw"] for s in ending.scores if s["metric"] == "tool_routing"}
    assert routed == {"c0": 0.0, "c1": 5.0}


async def test_verdicts_that_rewards_contradict_in_more_than_a_third_of_the_cases_are_named(look):
    judges = ["conversation", "recorded"]
    metrics = ["response_delivery", {"metric": "task_completion", "weight": 1}]
    right = [booking(n, expected=CALLS, labels={"reward": 1.0}) for n in range(2)]
    wrong = booking(2, expected=CALLS, labels={"reward": 0.0})
    ending = await look([*right, wrong], judges=judges, metrics=metrics)
    assert not [line for line in ending.summary.warnings if line.startswith("disagreement")]
    half = booking(3, expected=CALLS, labels={"reward": 0.5})
    ending = await look([*right, wrong, half], judges=judges, metrics=metrics)
    told = [line for line in ending.summary.warnings if line.startswith("disagreement")]
    assert [line.partition(";")[0] for line in told] == [
        "disagreement: task_completion and the recorded reward differ in 2 of 4 cases",
        "disagreement: the verdict and the recorded reward differ in 2 of 4 cases",
    ]
    assert told[0].endswith(
        "likely causes: ground truth of other conversations, tools that the user calls, "
        "assertions on the environment, [transcripts] writes unset or wrong"
    )


async def test_ground_truth_that_cannot_be_checked_is_named_with_its_cases(look):
    noted = {"fidelity": {"unchecked environment assertion": 2}}
    ending = await look([booking(0, metadata=noted), booking(1)])
    assert "unchecked: environment assertion 2 (ground truth that no judge here can check" in (
        ending.printed
    )
    assert "unchecked: in case c0\n" in ending.printed
    lines = {line["case_id"]: line["summary"] for line in ending.report["cases"]["shown"]}
    assert lines["c0"].endswith("; not checked: environment assertion 2")
    assert "not checked" not in lines["c1"]


async def test_a_metric_under_its_floor_fails_the_case_whatever_the_average(look):
    cases = [booking(0, made=False, expected=CALLS), booking(1, expected=CALLS)]
    ending = await look(cases, floors={"tool_routing": 2}, pass_threshold=10)
    assert ending.summary.gates["floor"] == 1
    lines = {line["case_id"]: line["summary"] for line in ending.report["cases"]["shown"]}
    assert lines["c0"].startswith("FAILED (tool_routing 0 is under its floor 2; score ")
    assert lines["c1"].startswith("PASSED")
    assert json.loads(json.dumps(ending.report))["verdict"]["outcome"] == "failed"


async def test_a_series_of_passes_says_where_task_success_was_not_judged():
    config = RunConfig.model_validate({"transcripts": {"uri": "t.jsonl"}})
    why = "task success was not judged in 8 of 8 cases"
    part = PartOutcome(
        part="2026-11-01", run_id="r", conclusion="Passed", exit_code=0, reasons=[why]
    )
    state = conclude_parts(config, [part], [], no_data_counts=False)
    assert (state.name, state.data.reasons) == ("Passed", [f"2026-11-01: Passed: {why}"])


async def test_expected_calls_alone_do_not_make_a_pass_while_no_metric_compares_the_task(look):
    truth = Expected(tool_calls=(ExpectedCall(name="book_flight"), ExpectedCall(name="search")))
    cases = [booking(number, made=number != 5, expected=truth) for number in range(8)]
    ending = await look(cases, pass_threshold=10, metrics=["response_delivery"])
    assert ending.summary.outcome == "passed"
    assert "PASSED" not in ending.printed.splitlines()
    assert "TASK SUCCESS NOT JUDGED" in ending.printed.splitlines()


async def test_a_table_of_questions_and_answers_is_judged_by_what_init_chose_for_it(look):
    rows = (
        "question,answer,reference,context\n"
        + "Where is it?,In Rome.,In Rome.,It is in Rome.\n" * 2
    )
    ending = await look(rows.replace("\nWhere is", "\nAnd where is", 1))
    judged = {score["judge"] for score in ending.scores if score["status"] == "scored"}
    assert {"correctness", "groundedness", "relevance_to_query"} <= judged
    assert "conversation" not in judged
    assert ending.summary.counts["judged"] == 2


async def test_a_table_of_turns_is_judged_as_conversations_are(look):
    turns = "ticket,n,speaker,words\n77,2,bot,It is on its way.\n77,1,customer,Where is my order?\n"
    ending = await look(turns)
    assert ending.summary.counts["judged"] == 1
    assert {score["judge"] for score in ending.scores} == {"conversation"}
