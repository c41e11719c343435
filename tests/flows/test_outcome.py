"""How a run ends: its conclusion, its exit code, and the reasons in their order."""

from __future__ import annotations

import pytest

from assizes.flows.outcome import RunOutcome, to_state
from assizes.flows.shards import ShardFailures
from assizes.judge.comparison.compare import compare
from assizes.tasks.summarise import BaselineResult
from tests.tasks.reports.sample import Run, Said, config, run

GOOD = Said("good", (5, 5))
BAD = Said("bad", (1, 1), done=False)
LOST = Said("lost", (0, 0), error="timeout: no answer in 120 s")


def ended(candidate: Run, against: BaselineResult | None = None) -> RunOutcome:
    result = against or BaselineResult()
    state = to_state(candidate.record, candidate.summary, result, ShardFailures(), {}, fail=False)
    assert isinstance(state.data, RunOutcome)
    return state.data


SHORT = "coverage 66.7% is under its floor 95.0%"
LEFT = [
    "timeout: no answer in 120 s, 1 of 3 asks",
    "1 case with an error: `assizes resume nightly-aaaaaaaaaaaa --errors` judges them anew",
]
GATES = ["weighted metrics score 57.50 is under 80", "cases pass rate 33.33 % is under 100 %"]


@pytest.mark.row("005-05")
def test_a_gate_that_fails_whatever_is_missing_names_the_ending():
    outcome = ended(run([GOOD, BAD, LOST]))
    assert (outcome.conclusion, outcome.exit_code) == ("GateFailed", 1)
    assert outcome.reasons == [*GATES, SHORT, *LEFT]


@pytest.mark.row("005-05")
def test_a_gate_that_only_errors_fail_is_named_beside_the_coverage():
    outcome = ended(run([GOOD, Said("also", (5, 5)), LOST]))
    assert (outcome.conclusion, outcome.exit_code) == ("Inconclusive", 4)
    assert outcome.reasons == [SHORT, "cases pass rate 66.67 % is under 100 %", *LEFT]


def test_a_run_without_a_verdict_stays_inconclusive():
    outcome = ended(run([LOST]))
    assert (outcome.conclusion, outcome.reasons[0]) == ("Inconclusive", "no case has a verdict")


def test_short_coverage_never_ends_as_a_regression():
    before = run([GOOD, Said("bad", (5, 5)), Said("lost", (5, 5))])
    after = run([GOOD, BAD, LOST], run_id="nightly-bbbbbbbbbbbb")
    comparison = compare(before.side(), after.side(), config().comparison)
    assert comparison.verdict.regression_detected
    assert comparison.verdict.ending == "inconclusive"
    outcome = ended(after, BaselineResult(comparison=comparison))
    assert (outcome.conclusion, outcome.reasons[:3]) == ("GateFailed", [*GATES, SHORT])
    assert not [reason for reason in outcome.reasons if "fell from" in reason]
    assert "fell from" not in str(after.data(comparison)["verdict"]["reasons"])
