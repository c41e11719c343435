"""Rankings: planted strengths come out, whatever the order of the runs, and nothing is invented."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from assizes.judge.errors import ConfigurationError
from assizes.judge.families.pairwise.verdict import PairVerdict
from assizes.judge.pairs.ranking import Ranking, rank_runs

NAMES = ("a", "b", "c", "d")
STRENGTHS = {"a": 1.2, "b": 0.3, "c": -0.3, "d": -1.2}


def of_points(case: object, point: float) -> PairVerdict:
    choices = {1.0: ("second", "first"), 0.0: ("first", "second"), 0.5: ("tie", "tie")}[point]
    return PairVerdict(case_id=str(case), as_given=choices[0], swapped=choices[1])  # type: ignore[arg-type]


def drawn(cases: int, seed: int) -> dict[tuple[str, str], list[PairVerdict]]:
    rng = np.random.default_rng(seed)
    return {
        (one, other): [
            of_points(
                case,
                float(rng.random() < 1 / (1 + np.exp(STRENGTHS[one] - STRENGTHS[other]))),
            )
            for case in range(cases)
        ]
        for one, other in combinations(NAMES, 2)
    }


def by_name(ranking: Ranking) -> dict[str, float]:
    return {run.run: run.strength.value for run in ranking.runs if run.strength is not None}


def test_planted_strengths_come_out_in_their_order():
    ranking = rank_runs(NAMES, drawn(200, 1))
    assert [run.run for run in ranking.runs] == list(NAMES)
    assert by_name(ranking) == pytest.approx(STRENGTHS, abs=0.25)
    assert sum(by_name(ranking).values()) == pytest.approx(0, abs=1e-8)
    first = ranking.runs[0]
    assert (first.rank, first.best_rank, first.worst_rank) == (1, 1, 1)
    assert ranking.misfit_p_value is not None
    assert ranking.misfit_p_value > 0.01
    for pair in ranking.pairs:
        assert pair.expected_win_rate == pytest.approx(pair.result.win_rate.value, abs=0.1)  # type: ignore[union-attr]


def test_the_order_of_the_runs_and_of_the_sides_changes_nothing():
    verdicts = drawn(60, 2)
    turned = {
        (other, one): [row.with_sides_exchanged() for row in rows]
        for (one, other), rows in verdicts.items()
    }
    there, back = rank_runs(NAMES, verdicts), rank_runs(NAMES[::-1], turned)
    assert by_name(there) == pytest.approx(by_name(back), abs=1e-7)
    assert [run.run for run in there.runs] == [run.run for run in back.runs]
    ends = [(run.strength.low, run.strength.high) for run in there.runs if run.strength]
    assert ends == [
        pytest.approx((run.strength.low, run.strength.high), abs=1e-6)
        for run in back.runs
        if run.strength
    ]


def test_a_run_that_wins_everything_has_a_bounded_strength_and_is_said_to():
    wins = [of_points(case, 0.0) for case in range(30)]  # the baseline wins
    even = [of_points(case, float(case % 2)) for case in range(30)]
    ranking = rank_runs("abc", {("a", "b"): wins, ("a", "c"): wins, ("b", "c"): even})
    assert ranking.added_ties == 3
    assert ranking.runs[0].run == "a"
    assert ranking.runs[0].strength is not None
    assert 0 < ranking.runs[0].strength.value < 10


def test_runs_that_beat_each_other_in_a_circle_do_not_fit_one_scale():
    lost = [of_points(case, 0.0 if case % 10 else 1.0) for case in range(100)]
    won = [row.with_sides_exchanged() for row in lost]
    ranking = rank_runs("abc", {("a", "b"): lost, ("b", "c"): lost, ("a", "c"): won})
    assert [abs(value) < 1e-6 for value in by_name(ranking).values()] == [True] * 3
    assert ranking.misfit_p_value is not None
    assert ranking.misfit_p_value < 1e-6
    assert {(run.best_rank, run.worst_rank) for run in ranking.runs} == {(1, 3)}


def test_without_a_scale_there_are_no_strengths_and_a_reason():
    even = [of_points(case, float(case % 2)) for case in range(10)]
    apart = rank_runs(NAMES, {("a", "b"): even, ("c", "d"): even})
    assert all(run.strength is None for run in apart.runs)
    assert "no pairs lead" in (apart.why_not or "")
    empty = rank_runs("ab", {("a", "b"): []})
    assert empty.why_not == "no pair has a verdict"


def test_a_ranking_needs_two_to_twelve_different_runs():
    for names, reason in ((("a",), "1 runs"), (("a", "a"), "named twice"), ("x" * 13, "13 runs")):
        with pytest.raises(ConfigurationError, match=reason):
            rank_runs(names, {})
