"""Pairs in both orders: flips, replies that name no winner, and the answer shown first."""

from __future__ import annotations

from assizes.judge.calibration.order_flips import PairVerdicts, order_flips


def pairs(*winners, label=1):
    return [PairVerdicts(str(n), label, *of) for n, of in enumerate(winners)]


def test_a_pair_flips_where_its_winner_changes_with_the_order():
    flips = order_flips(pairs((1, 1), (1, 2), (2, 1), (2, 2)))
    assert (flips.flips, flips.read, flips.rate.value) == (2, 4, 0.5)
    assert (flips.same, flips.right_twice) == (2, 1)


def test_a_reply_without_a_winner_is_no_flip():
    flips = order_flips(pairs((None, 2), (None, None), (1, 1)))
    assert (flips.pairs, flips.read, flips.flips, flips.same) == (3, 1, 0, 2)
    assert flips.first_shown == 2 / 3  # 2 when swapped, and 1 as given


def test_a_judge_that_always_takes_the_first_flips_every_time():
    flips = order_flips(pairs(*[(1, 2)] * 20))
    assert (flips.first_shown, flips.rate.value, flips.rate.low, flips.rate.high) == (1, 1, 1, 1)


def test_nothing_read_has_no_rate():
    flips = order_flips(pairs((None, None)))
    assert flips.rate.value is None
    assert flips.first_shown is None


def test_the_interval_of_the_rate_holds_it():
    rate = order_flips(pairs(*[(1, 2)] * 5, *[(1, 1)] * 15)).rate
    assert rate.low < 0.25 < rate.high
