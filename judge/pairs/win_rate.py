"""The win rate of a candidate over pairs, and how far place and length decided.

A pair counts for a side only where both orders name it; everything else is a tie, and a tie is half
a win. Repetitions of a case are averaged, and cases of one cluster are never taken as independent.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from math import log
from typing import Final

import numpy as np
from pydantic import Field

from assizes.judge.families.pairwise.verdict import PairVerdict
from assizes.judge.statistics.effects import paired_effect
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.fractional_logit import fit_logit, sigmoid
from assizes.judge.statistics.intervals import (
    CONFIDENCE,
    MIN_CLUSTERS,
    Floats,
    Sample,
    ValueInterval,
    rate_interval,
)
from assizes.judge.summary.headlines import FrozenModel

_TWICE: Final = log(2)
"""The logarithm of the ratio of lengths of an answer that is twice as long."""


class RateEstimate(FrozenModel):
    """A number with its 95 % interval; no interval where there is too little for it."""

    value: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, value: float, span: ValueInterval | None) -> RateEstimate:
        """The number, rounded; an interval with an infinite end is none."""
        if span is None or not np.isfinite([span.low, span.high]).all():
            return cls(value=rounded_value(value))
        return cls(
            value=rounded_value(value),
            low=rounded_value(span.low),
            high=rounded_value(span.high),
        )

    def excludes(self, value: float) -> bool:
        """Whether the interval does not hold a value; without an interval nothing is excluded."""
        if self.low is None or self.high is None:
            return False
        return not self.low <= value <= self.high


class LengthBias(FrozenModel):
    """What length has to do with winning; longer can also be better, so it proves no bias alone."""

    decided: int  # pairs with a winner whose sides have different lengths
    longer_wins: RateEstimate | None = None  # share of them that the longer side won, 0..1
    twice_as_long: RateEstimate | None = Field(
        default=None, description="the chance, 0..1, of a side twice as long as its equal to win"
    )
    win_rate_at_equal_length: RateEstimate | None = Field(
        default=None, description="the candidate's win rate by regression, both sides equally long"
    )


class WinRate(FrozenModel):
    """The pairs of two runs, counted, with the candidate's win rate and the judge's biases."""

    pairs: int  # with a verdict
    cases: int
    clusters: int
    wins: int  # of the candidate, in both orders
    losses: int
    ties: int  # flips, halves and identical pairs are among them
    flips: int  # each order names another side
    halves: int  # one order names a side, the other neither
    identical: int  # both sides show the same text, so that nothing was asked
    failed: int  # without a usable reply in one order or both; they count nowhere else
    win_rate: RateEstimate | None = None  # ties count half, 0..1
    decided_rate: RateEstimate | None = None  # wins / (wins + losses), 0..1
    p_value: float | None = None  # two-sided, of a win rate of one half
    flip_rate: RateEstimate | None = None  # flips / pairs that were asked in both orders, 0..1
    position_bias: RateEstimate | None = Field(
        default=None,
        description="how much more often the side shown first was chosen than the one shown second, "
        "-1..1; 0: the place decides nothing",
    )
    one_order: float | None = None  # the win rate that the order as given alone would say, 0..1
    length: LengthBias


def win_rate(verdicts: Sequence[PairVerdict]) -> WinRate:
    """Count the verdicts of two runs."""
    judged = [verdict for verdict in verdicts if verdict.winner is not None]
    asked = [verdict for verdict in judged if not verdict.identical]
    decided = [verdict for verdict in judged if verdict.winner != "tie"]
    wins = sum(verdict.winner == "candidate" for verdict in judged)
    net = _sample(judged, lambda verdict: 2 * verdict.points - 1)
    effect = paired_effect(net, CONFIDENCE, share=True) if judged else None
    return WinRate(
        pairs=len(judged),
        cases=net.size,
        clusters=net.clusters,
        wins=wins,
        losses=len(decided) - wins,
        ties=len(judged) - len(decided),
        flips=sum(verdict.is_flip for verdict in judged),
        halves=sum(verdict.is_half for verdict in judged),
        identical=len(judged) - len(asked),
        failed=len(verdicts) - len(judged),
        win_rate=None
        if effect is None
        else _half(RateEstimate.of(effect.delta, _net_interval(net))),
        decided_rate=_share(decided, lambda verdict: verdict.points),
        p_value=None if effect is None else rounded_value(effect.p_value),
        flip_rate=_share(asked, lambda verdict: float(verdict.is_flip)),
        position_bias=_lean(asked),
        one_order=_one_order(judged),
        length=length_bias(judged),
    )


def length_bias(verdicts: Sequence[PairVerdict]) -> LengthBias:
    """What the lengths of the sides have to do with the verdicts."""
    decided = [
        verdict
        for verdict in verdicts
        if verdict.winner not in ("tie", None) and verdict.baseline_chars != verdict.candidate_chars
    ]
    longer = _share(
        decided,
        lambda v: float((v.winner == "candidate") == (v.candidate_chars > v.baseline_chars)),
    )
    rows = [verdict for verdict in verdicts if verdict.winner is not None]
    codes = _sample(rows, lambda verdict: verdict.points, per_case=False).codes
    if len(set(codes.tolist())) < MIN_CLUSTERS or not decided:
        return LengthBias(decided=len(decided), longer_wins=longer)
    ratios = np.array([log((v.candidate_chars + 1) / (v.baseline_chars + 1)) for v in rows])
    design = np.column_stack([np.ones(ratios.size), ratios])
    points = np.array([verdict.points for verdict in rows])
    fit = fit_logit(design, points, codes)
    if fit is None:
        return LengthBias(decided=len(decided), longer_wins=longer)

    def chance(weights: Floats) -> RateEstimate:
        low, high = fit.interval(weights, CONFIDENCE)
        shares = sigmoid(np.array([fit.estimate(weights), low, high])).tolist()
        return RateEstimate.of(shares[0], ValueInterval(shares[1], shares[2]))

    return LengthBias(
        decided=len(decided),
        longer_wins=longer,
        twice_as_long=chance(np.array([0.0, _TWICE])),
        win_rate_at_equal_length=chance(np.array([1.0, 0.0])),
    )


def _sample(
    verdicts: Sequence[PairVerdict],
    value: Callable[[PairVerdict], float],
    *,
    per_case: bool = True,
) -> Sample:
    """A value for each case, its repetitions averaged, with the clusters of the cases."""
    clusters = [(bool(v.cluster), v.cluster or v.case_id) for v in verdicts]
    if not per_case:
        return Sample.of([value(verdict) for verdict in verdicts], clusters)
    values: dict[str, list[float]] = defaultdict(list)
    cluster_of: dict[str, object] = {}
    for verdict, cluster in zip(verdicts, clusters, strict=True):
        values[verdict.case_id].append(value(verdict))
        cluster_of.setdefault(verdict.case_id, cluster)
    means = [sum(each) / len(each) for each in values.values()]
    return Sample.of(means, list(cluster_of.values()))


def _share(
    verdicts: Sequence[PairVerdict], value: Callable[[PairVerdict], float]
) -> RateEstimate | None:
    if not verdicts:
        return None
    sample = _sample(verdicts, value)
    return RateEstimate.of(sample.mean, rate_interval(sample))


def _lean(verdicts: Sequence[PairVerdict]) -> RateEstimate | None:
    if not verdicts:
        return None
    sample = _sample(verdicts, lambda verdict: verdict.place_lean)
    return RateEstimate.of(sample.mean, _net_interval(sample))


def _net_interval(differences: Sample) -> ValueInterval | None:
    """The interval of a difference of shares, -1..1; `None` where one cluster holds all cases."""
    if differences.clusters < 2:
        return None
    return paired_effect(differences, CONFIDENCE, share=True).span


def _half(net: RateEstimate) -> RateEstimate:
    """A win rate, 0..1, from the net rate -1..1 of wins minus losses."""
    if net.low is None or net.high is None:
        return RateEstimate.of((1 + net.value) / 2, None)
    return RateEstimate.of(
        (1 + net.value) / 2, ValueInterval((1 + net.low) / 2, (1 + net.high) / 2)
    )


def _one_order(verdicts: Sequence[PairVerdict]) -> float | None:
    worth = {"first": 0.0, "second": 1.0, "tie": 0.5, None: 0.5}
    if not verdicts:
        return None
    return rounded_value(_sample(verdicts, lambda verdict: worth[verdict.as_given]).mean)
