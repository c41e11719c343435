"""The warnings that a reader of a comparison must know before believing its verdict."""

from __future__ import annotations

import pytest

from assizes.judge.comparison.compare import compare
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.summary.spending import MIXED_JUDGE
from tests.judge.run_frames import case_row, run_of, score_row, skipped_row, summary_of

FLOOR = "that no rule fired does not mean that nothing got worse"


def told(before, after):
    return compare(run_of(before), run_of(after), ComparisonConfig()).warnings


def whole(name, **rest):
    return case_row(name, overall_score=80.0, agent_latency_ms=100.0, **rest)


def test_cases_of_one_run_only_are_counted_by_side():
    before, after = [whole(name) for name in "abc"], [whole(name) for name in "cd"]
    assert told(before, after) == (
        "the runs executed different cases: 1 matched, 2 only in the baseline, 1 only in the "
        "candidate; the rules look at the matched ones",
    )
    assert told(before[:2], after) == (
        "the runs share no case: each is taken as a whole, and they are only roughly alike",
    )


def test_uneven_repetitions_are_told():
    assert told([whole("a")], [whole("a"), whole("a", repetition=1)]) == (
        "1 cases have different numbers of repetitions in the two runs; a rule fires only if it "
        "also does with each case counted once",
    )


def test_a_score_on_one_side_only_is_told():
    assert told([whole("a"), whole("b")], [whole("a"), case_row("b", agent_latency_ms=1.0)]) == (
        "1 cases have a score in one run only; neither average score counts them",
    )


@pytest.mark.parametrize("role", ["baseline", "candidate"])
def test_a_side_that_says_little_is_named(role):
    def sides(one, scores=(), **rest):
        pair = [run_of([whole("a")]), run_of(one, scores, **rest)]
        return compare(*(reversed(pair) if role == "baseline" else pair), ComparisonConfig())

    assert sides([skipped_row("a")]).warnings[1:3] == (
        f"the {role} run executed no case: no rule could be applied",
        f"the {role} run is inconclusive (coverage None, floor 0.95): {FLOOR}",
    )
    assert sides([whole("a")], [score_row("a", raw=None)]).warnings == (
        f"the {role} run is inconclusive (coverage 0.0, floor 0.95): {FLOOR}",
    )
    flagged = [whole("a", flags=["addresses_judge"])]
    assert (
        f"the {role} run: 1 passes are flagged and count as not passed (docs/judges.md)"
        in (
            sides(
                flagged,
                summary=summary_of([whole("a")]).model_copy(update={"pass_flagged_count": 1}),
            )
        ).warnings
    )
    cautions = ("something else", f"{MIXED_JUDGE}: a and b")
    warned = summary_of([whole("a")]).model_copy(update={"warnings": cautions})
    assert sides([whole("a")], summary=warned).warnings == (
        f"the {role} run: {MIXED_JUDGE}: a and b",
    )


SCORES = "average score rule skipped: no overall scores to compare"
LATENCIES = "latency rule skipped: no latencies to compare"


@pytest.mark.parametrize(
    ("before", "after"),
    [("a", "a"), ("a", "b"), ("b", "a")],
)
def test_a_rule_without_numbers_on_either_side_is_said_to_be_skipped(before, after):
    """Runs that share no case keep their own numbers, so that one side can be without."""
    bare = [case_row(before)]
    assert told(bare, [whole(after)])[-2:] == (SCORES, LATENCIES)
    assert told([whole(after)], bare)[-2:] == (SCORES, LATENCIES)


def test_a_latency_of_zero_cannot_grow():
    zero = [case_row("a", overall_score=80.0, agent_latency_ms=0.0)]
    assert told(zero, [whole("a")]) == (
        "latency rule skipped: the baseline's average latency is 0",
    )
