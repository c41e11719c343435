"""Votes are reduced to the one in the middle, which is that of a hearing that took place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assizes.judge.engine.ensemble import (
    NO_QUORUM,
    Vote,
    escalate_scores,
    escalation_reason,
    reduce_votes,
)
from assizes.judge.score import Metric, Scale, Score

LEVEL = Metric("level", scale=Scale.SCORED)
YES = Metric("polite", scale=Scale.YES_NO)
ROUTING = Metric("tool_routing", scale=Scale.SCORED)


def level(raw: int, metric: Metric = LEVEL, **rest) -> Score:
    return Score.of(metric, raw, reason=f"level {raw}", **rest)


def votes(*found: Score | list[Score], models=("a",)) -> list[Vote]:
    lists = [one if isinstance(one, list) else [one] for one in found]
    each = len(lists) // len(models)
    return [Vote(models[n // each], n % each, scores) for n, scores in enumerate(lists)]


def test_one_vote_is_passed_on_as_it_is():
    score = level(4)
    assert reduce_votes(votes(score)) == [score]


@pytest.mark.parametrize(
    ("levels", "result", "agreement"),
    [((4, 5, 1), 4, 1 / 3), ((2, 2, 5), 2, 2 / 3), ((3, 5), 3, 0.5), ((0, 1, 4, 5), 1, 0.25)],
)
def test_levels_are_reduced_to_their_lower_median_with_the_reason_of_that_vote(
    levels, result, agreement
):
    (score,) = reduce_votes(votes(*map(level, levels)))
    assert (score.raw, score.reason) == (result, f"level {result}")
    assert score.details["agreement"] == pytest.approx(agreement, abs=1e-6)
    assert [vote["value"] for vote in score.details["votes"]] == [n / 5 for n in levels]


@pytest.mark.parametrize(
    ("said", "result"), [((1, 1, 0), "yes"), ((0, 1, 0), "no"), ((1, 0), "no")]
)
def test_two_valued_scores_go_by_majority_and_an_even_split_is_bad(said, result):
    (score,) = reduce_votes(votes(*(Score.of(YES, one) for one in said)))
    assert score.label == result


def test_a_vote_that_failed_is_counted_and_is_no_low_score():
    lost = Score.failed("level", "late", "deadline")
    (score,) = reduce_votes(votes(level(4), lost, level(5)))
    assert (score.raw, score.details["agreement"]) == (4, 0.5)
    assert [vote["status"] for vote in score.details["votes"]] == ["scored", "failed", "scored"]


def test_without_a_majority_of_the_votes_the_metric_has_failed():
    lost = Score.failed("level", "late", "deadline")
    (score,) = reduce_votes(votes(level(5), lost, lost))
    assert (score.status, score.details["error"]) == ("failed", NO_QUORUM)
    assert score.reason == "1 of 3 votes came; late"


def test_skipped_votes_stay_skipped_and_failures_come_before_skips():
    skipped, lost = Score.skipped("level", "no tools"), Score.failed("level", "late", "deadline")
    assert reduce_votes(votes(skipped, skipped))[0].status == "skipped"
    assert reduce_votes(votes(skipped, lost))[0].status == "failed"


def test_parts_are_reduced_over_the_votes_that_have_them():
    first = [level(4), Score.of(YES, 1, part="aspect:1")]
    second = [level(4), Score.of(YES, 0, part="aspect:1"), Score.of(YES, 1, part="aspect:2")]
    found = {(score.metric, score.part): score.raw for score in reduce_votes(votes(first, second))}
    assert found == {("level", ""): 4, ("polite", "aspect:1"): 0, ("polite", "aspect:2"): 1}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9), st.randoms())
def test_the_order_of_the_votes_does_not_matter(levels, random):
    shuffled = random.sample(levels, len(levels))
    one, other = (reduce_votes(votes(*map(level, given)))[0].raw for given in (levels, shuffled))
    assert one == other
    assert one in levels


@pytest.mark.parametrize(
    ("given", "evidence", "why"),
    [
        ([level(4)], [], None),
        ([level(0)], [], None),
        ([level(2)], [], "level: one level below acceptable"),
        ([Score.failed("level", "no json", "invalid_reply")], [], "level: no score came"),
        ([Score.failed("level", "late", "deadline")], [], None),
        ([Score.failed("level", "no key", "circuit_open")], [], None),
        ([level(5), level(1)], [], "level: the votes differ"),
        ([level(5), level(4)], [], None),
        (
            [level(5, ROUTING)],
            [level(0, ROUTING)],
            "tool_routing: the transcript's plain evidence says the opposite",
        ),
        ([level(5, ROUTING)], [level(3, ROUTING)], None),
        ([level(5)], [level(0)], None),
        ([Score.skipped("level", "no tools")], [], None),
    ],
)
def test_a_stronger_model_is_wanted_where_the_first_is_unsure(given, evidence, why):
    assert escalation_reason(votes(*given), (LEVEL, ROUTING), evidence) == why


def test_what_was_escalated_says_why_and_what_was_said_before():
    part = Score.of(YES, 1, part="turn:1")
    scores = escalate_scores([level(5), part], votes(level(2)), "level: one level below acceptable")
    assert scores[0].raw == 5
    assert scores[0].details["escalated"] == "level: one level below acceptable"
    assert [vote["value"] for vote in scores[0].details["first_votes"]] == [0.4]
    assert scores[1] == part
