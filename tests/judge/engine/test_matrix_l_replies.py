"""Faults in what a model writes (spec/reliability.md, rows L10 to L15, L18 and L19), over HTTP
where the model server can make them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from assizes.judge.case import Expected
from assizes.judge.catalog import JudgePanel
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.hearings import Engine, HearingResult
from assizes.judge.families.conversation import ConversationJudge
from assizes.judge.model_factory import model_for
from assizes.judge.models.model import ScriptedModel
from assizes.judge.protocol import Ask
from assizes.judge.rubrics.rubric import built_in_rubrics
from assizes.judge.verdicts.case_rows import RowKey, findings
from tests.builders import agent, case, user
from tests.doubles.fixtures import OpenAIServer
from tests.judge.engine.calls import LIMITS, config

JUDGE = ConversationJudge(built_in_rubrics()[:3])
METRICS = [metric.name for metric in JUDGE.rubric_metrics]
STATEMENTS = ("The agent greets.", "The agent says goodbye.")
CASE = case(user("hello"), agent("hi"), expected=Expected(outcomes=STATEMENTS))
COURT = JudgePanel((JUDGE,), dict.fromkeys(METRICS, 1 / 3), JUDGE.metrics, 75.0)


async def hear(server: OpenAIServer, fault: str) -> HearingResult:
    model = model_for(config(server, f"stub-{fault}"), LIMITS)
    return await Engine(model, LimitsConfig(max_in_flight=2, timeout_s=10)).hear(JUDGE, CASE)


def headlines(heard: HearingResult) -> dict[str, float | str | None]:
    """The level of each metric, or the code of its failure."""
    return {
        one.metric: one.raw if one.status == "scored" else one.details.get("error")
        for one in heard.scores
        if not one.part and one.metric in METRICS
    }


def rows(heard: HearingResult) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """The row of the case, and the details of its headlines by metric."""
    found = findings(RowKey("r", "t.jsonl", 0), CASE, [heard], COURT).rows
    details = {row["metric"]: json.loads(row["details"]) for row in found["scores"][::-1]}
    return found["cases"][0], details


ALL_FOUR = dict.fromkeys(METRICS, 4.0)


@pytest.mark.parametrize(
    ("fault", "flags"),
    [
        ("fenced", ("repaired",)),
        ("prose", ("repaired",)),
        ("bom", ("repaired",)),
        ("comma", ("repaired",)),
        ("echo", ("repaired",)),
        ("strings", ("coerced",)),
        ("floats", ("coerced",)),
    ],
)
async def test_l10_l11_l13_what_is_certain_costs_no_second_call(judge_server, fault, flags):
    heard = await hear(judge_server, fault)

    (record,) = heard.asks
    assert (record.error, record.attempts, judge_server.stats()["requests"]) == (None, 1, 1)
    assert (headlines(heard), record.flags) == (ALL_FOUR, flags)
    assert {one.passed for one in heard.scores if one.part} == {True}


@pytest.mark.parametrize(
    ("fault", "code", "complaint"),
    [
        ("two", "ambiguous_output", "2 JSON objects hold the reply_id; write one JSON object"),
        ("wrong-id", "ambiguous_output", "no JSON object holds the reply_id; write one"),
        ("no-id-prose", "ambiguous_output", "no JSON object holds the reply_id; write one"),
        ("double-key", "invalid_reply", "key 'expected_outcomes' appears twice"),
        ("nan", "invalid_reply", "NaN is no JSON number"),
        ("bools", "schema", "tool_routing.score: Input should be a valid integer"),
        ("halves", "schema", "tool_routing.score: Input should be a valid integer"),
    ],
)
async def test_l11_l12_l13_what_is_not_certain_is_asked_for_once_more_and_never_guessed(
    judge_server, fault, code, complaint
):
    heard = await hear(judge_server, fault)

    (record,) = heard.asks
    assert (record.attempts, judge_server.stats()["requests"]) == (2, 2)
    assert (record.error or "").startswith(f"{code}: ")
    assert headlines(heard) == dict.fromkeys(METRICS, code)
    first, second = (request["messages"][1]["content"] for request in judge_server.requests())
    assert complaint in second.removeprefix(first)


async def test_l12_a_missing_metric_fails_alone_and_no_weight_is_shared_out_anew(judge_server):
    heard = await hear(judge_server, "missing-metric")

    assert (heard.asks[0].error, heard.asks[0].attempts) == (None, 2)
    assert headlines(heard) == ALL_FOUR | {METRICS[0]: "missing_metric"}
    row, _ = rows(heard)
    assert (row["status"], row["overall_score"], row["passed"]) == ("errored", None, False)
    _, again = (request["messages"][1]["content"] for request in judge_server.requests())
    assert f"could not be used:\n<data: Problem>\nno entry for {METRICS[0]}\n" in again


async def test_l12_a_metric_nobody_asked_for_is_left_out_after_a_re_ask(judge_server):
    heard = await hear(judge_server, "extra-metric")

    assert (heard.asks[0].attempts, heard.asks[0].flags) == (2, ("extra_keys",))
    assert headlines(heard) == ALL_FOUR
    assert rows(heard)[0]["overall_score"] == 80.0


async def test_l12_a_renamed_metric_is_a_missing_one(judge_server):
    heard = await hear(judge_server, "renamed-metric")

    assert (heard.asks[0].attempts, heard.asks[0].flags) == (2, ("extra_keys",))
    assert headlines(heard) == ALL_FOUR | {METRICS[0]: "missing_metric"}


async def test_l19_characters_that_cannot_be_stored_are_replaced(judge_server):
    heard = await hear(judge_server, "surrogate")

    assert (heard.asks[0].error, heard.asks[0].attempts) == (None, 1)
    replaced, whole = heard.asks[0].flags
    assert (replaced, whole[:12], len(whole)) == ("text_replaced", "text_sha256:", 76)
    _, details = rows(heard)
    said = "ok \ufffd \ufffd \ufffd \ufffd[31m \ufffd end"
    assert details[METRICS[0]]["justification"] == said


async def test_l19_a_rationale_of_a_megabyte_is_cut(judge_server):
    heard = await hear(judge_server, "huge")

    assert (heard.asks[0].error, headlines(heard)) == (None, ALL_FOUR)
    assert heard.asks[0].flags[0] == "text_capped"
    _, details = rows(heard)
    assert len(details[METRICS[0]]["justification"]) == 8_000
    assert details[METRICS[0]]["justification"].endswith("…")


# Faults that the model server cannot produce


def finding(score: Any = 4, **rest: Any) -> dict[str, Any]:
    return {"justification": "said so", "score": score, "failure_code": None, "turns": []} | rest


def outcome(number: int, passed: bool = True, statement: str = "in other words") -> dict[str, Any]:
    return {"number": number, "statement": statement, "justification": "so", "passed": passed}


async def scripted(
    first: dict[str, Any], *entries: dict[str, Any], times: int = 1
) -> HearingResult:
    """A model that gives the first metric like this, and these outcomes, so many times."""

    def reply(ask: Ask[Any]) -> dict[str, Any]:
        metrics = dict.fromkeys(METRICS, finding()) | {METRICS[0]: first}
        return {**metrics, "expected_outcomes": list(entries or (outcome(1), outcome(2)))}

    model = ScriptedModel([reply] * times)
    heard = await Engine(model, LimitsConfig(max_in_flight=1)).hear(JUDGE, CASE)
    assert len(model.asked) == times
    return heard


async def test_l13_a_level_outside_the_scale_is_taken_as_its_end_and_said():
    _, details = rows(await scripted(finding(6)))
    assert details[METRICS[0]]["warnings"] == ["score 6 is outside 0..5, taken as 5"]


async def test_l14_a_failure_code_and_turns_are_put_right_and_said():
    heard = await scripted(finding(1, failure_code="Wrong Tool", turns=[1, 99, -1]))

    score = heard.scores[0]
    assert (score.raw, score.failure_code, score.turns) == (1.0, "wrong_tool", (1,))
    assert rows(heard)[1][METRICS[0]]["warnings"] == [
        "turns [-1, 99] are not among the 2 of the transcript",
        "failure_code 'Wrong Tool' is written wrong_tool",
    ]


async def test_l15_outcomes_are_told_apart_by_number_whatever_their_words_and_order():
    heard = await scripted(finding(), outcome(2, passed=False), outcome(1))

    passed = {one.details["statement"]: one.passed for one in heard.scores if one.part}
    assert passed == dict(zip(STATEMENTS, (True, False), strict=True))


async def test_l15_a_missing_outcome_is_asked_for_once_more_then_failed_and_not_passed():
    heard = await scripted(finding(), outcome(1), times=2)

    first, second = (one for one in heard.scores if one.part)
    assert (first.passed, second.passed, second.status) == (True, None, "failed")
    assert second.details["error"] == "missing_outcome"
    row, _ = rows(heard)
    assert (row["passed"], row["gate"]) == (False, "expected_outcomes")


@pytest.mark.parametrize(
    ("score", "justification", "suspect"),
    [
        (5, "The agent completely failed to help.", "value 1, but its rationale says"),
        (0, "Flawless work.", "value 0, but its rationale says 'flawless'"),
        (5, "Flawless work.", None),
        (0, "The answer is not perfect.", None),
        (3, "The agent completely failed, then did perfectly.", None),
    ],
)
async def test_l18_a_score_at_odds_with_its_rationale_is_marked_and_never_rewritten(
    score, justification, suspect
):
    heard = await scripted(finding(score, justification=justification))

    row, details = rows(heard)
    marked = details[METRICS[0]].get("suspect")
    assert (marked or "").startswith(suspect or "")
    assert bool(marked) is bool(suspect)
    assert heard.scores[0].raw == score
    assert row["overall_score"] == pytest.approx((score + 8) / 15 * 100, abs=0.01)
