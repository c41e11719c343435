"""Win rates: symmetric, with clusters kept, and with the place and the length measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assizes.judge.families.pairwise.verdict import Choice, PairVerdict
from assizes.judge.pairs.win_rate import RateEstimate, WinRate, win_rate

CHOICES: tuple[Choice, ...] = ("first", "second", "tie")


def verdict(
    case: object, as_given: Choice | None, swapped: Choice | None, **more: Any
) -> PairVerdict:
    return PairVerdict(case_id=str(case), as_given=as_given, swapped=swapped, **more)


@st.composite
def verdicts(draw: st.DrawFn) -> list[PairVerdict]:
    choice = st.sampled_from((*CHOICES, None))
    return [
        verdict(
            draw(st.integers(0, 8)),
            draw(choice),
            draw(choice),
            cluster=draw(st.sampled_from(("", "u1", "u2"))),
            baseline_chars=draw(st.integers(0, 50)),
            candidate_chars=draw(st.integers(0, 50)),
        )
        for _ in range(draw(st.integers(0, 25)))
    ]


def estimates(result: WinRate) -> list[RateEstimate]:
    each = (result.win_rate, result.decided_rate, result.flip_rate, result.position_bias)
    return [estimate for estimate in each if estimate is not None]


@given(verdicts())
@settings(deadline=None, max_examples=60)
def test_exchanging_the_sides_turns_the_win_rate_round_and_leaves_the_place(
    rows: list[PairVerdict],
):
    there, back = win_rate(rows), win_rate([row.with_sides_exchanged() for row in rows])
    assert (there.wins, there.losses, there.ties) == (back.losses, back.wins, back.ties)
    assert (there.flips, there.halves, there.failed) == (back.flips, back.halves, back.failed)
    assert there.position_bias == back.position_bias
    assert there.flip_rate == back.flip_rate
    if there.win_rate is not None and back.win_rate is not None:
        assert there.win_rate.value == pytest.approx(1 - back.win_rate.value, abs=2e-9)
        if there.win_rate.low is not None and back.win_rate.high is not None:
            assert there.win_rate.low == pytest.approx(1 - back.win_rate.high, abs=2e-9)


@given(verdicts())
@settings(deadline=None, max_examples=60)
def test_every_pair_counts_once_and_every_number_is_in_its_range(rows: list[PairVerdict]):
    result = win_rate(rows)
    assert result.wins + result.losses + result.ties == result.pairs
    assert result.pairs + result.failed == len(rows)
    assert result.flips + result.halves + result.identical <= result.ties
    for estimate in estimates(result):
        low, high = estimate.low, estimate.high
        if low is not None and high is not None:
            assert -1 <= low <= high <= 1
    WinRate.model_validate_json(result.model_dump_json())  # no number that JSON cannot hold


def test_a_judge_that_always_names_the_first_side_says_nothing_about_the_runs():
    result = win_rate([verdict(case, "first", "first") for case in range(40)])
    assert (result.wins, result.losses, result.flips) == (0, 0, 40)
    assert result.win_rate is not None
    assert result.win_rate.value == 0.5
    assert result.position_bias is not None
    assert result.position_bias.value == 1.0
    assert result.position_bias.excludes(0.0)
    assert result.one_order == 0.0  # one order alone would say that the baseline wins everything


def test_a_side_wins_only_where_both_orders_name_it():
    assert verdict(1, "second", "first").winner == "candidate"
    assert verdict(1, "first", "second").winner == "baseline"
    assert verdict(1, "tie", "tie").winner == "tie"
    assert (verdict(1, "second", "tie").winner, verdict(1, "second", "tie").is_half) == (
        "tie",
        True,
    )
    assert verdict(1, "first", None).winner is None
    assert verdict(1, None, None, identical=True).winner == "tie"


def test_clusters_widen_the_interval():
    rng = np.random.default_rng(2)
    wins = np.repeat(rng.random(20) < 0.6, 5).tolist()

    def of(clusters: Sequence[str]) -> RateEstimate:
        rows = [
            verdict(case, "second" if won else "first", "first" if won else "second", cluster=name)
            for case, (won, name) in enumerate(zip(wins, clusters, strict=True))
        ]
        estimate = win_rate(rows).win_rate
        assert estimate is not None
        return estimate

    apart, together = of([""] * 100), of([f"user-{case // 5}" for case in range(100)])
    assert apart.value == together.value
    assert apart.low is not None
    assert together.low is not None
    assert together.low < apart.low - 0.05


def test_repetitions_of_a_case_weigh_as_one_case():
    won, lost = ("second", "first"), ("first", "second")
    rows = [verdict("much", *won, repetition=n) for n in range(9)] + [verdict("once", *lost)]
    result = win_rate(rows)
    assert (result.pairs, result.cases) == (10, 2)
    assert result.win_rate is not None
    assert result.win_rate.value == 0.5


def test_a_judge_that_prefers_the_longer_side_is_measured():
    rng = np.random.default_rng(4)
    rows = []
    for case in range(300):
        chars = rng.integers(50, 500, 2).tolist()
        longer = chars[1] > chars[0] if rng.random() < 0.8 else rng.random() < 0.5
        rows.append(
            verdict(
                case,
                *(("second", "first") if longer else ("first", "second")),
                baseline_chars=chars[0],
                candidate_chars=chars[1],
            )
        )
    length = win_rate(rows).length
    assert length.longer_wins is not None
    assert length.longer_wins.value == pytest.approx(0.9, abs=0.05)
    assert length.twice_as_long is not None
    assert length.twice_as_long.excludes(0.5)
    assert length.win_rate_at_equal_length is not None
    assert not length.win_rate_at_equal_length.excludes(0.5)


def test_one_cluster_and_no_pair_give_no_interval():
    nothing = win_rate([])
    assert (nothing.win_rate, nothing.position_bias, nothing.one_order) == (None, None, None)
    alone = win_rate([verdict(case, "second", "first", cluster="u") for case in range(5)])
    assert alone.win_rate == RateEstimate(value=1.0)
    assert not alone.win_rate.excludes(0.5)
