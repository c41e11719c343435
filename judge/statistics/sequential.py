"""Looks at a run that is not yet judged to its end: may it stop, and would the rest change its word?

Two conditions hold at once where a run stops for a change. The first keeps the error rates: the
estimate so far passes the boundary of a group-sequential test whose false alarms are spent over the
looks (Lan and DeMets 1983, with the power family of Kim and DeMets 1987; boundaries by the recursion
of Armitage, McPherson and Rowe 1969). The second keeps the word: given what was seen, the run judged
to its end would say the same with the wished probability. Such stochastic curtailment is due to Lan,
Simon and Halperin (1982), its form with the predictive distribution to Spiegelhalter, Freedman and
Blackburn (1986). The cases left are a random part of a finite run, so the mean M over all N cases,
given the mean m and its standard error e over n of them, is m + e sqrt(1 - n/N) t: nothing is left
to be uncertain about once n = N.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, sqrt
from typing import Final, Literal, NamedTuple

import numpy as np
from scipy.special import gammaln, ndtr, stdtr  # type: ignore[import-untyped]  # it has no types

from assizes.judge.statistics.intervals import Floats, Sample, t_of

EARLY_SHARE: Final = 0.2
"""The share (0..1) of alpha that the looks before the end may spend; the end has the rest."""

SPENDING_POWER: Final = 1.0
"""The power rho of the share judged in the spending function alpha x share^rho (Kim and DeMets)."""

_GRID: Final = 401
"""The points of the grid on which the density of the test statistic is carried from look to look."""

_REACH: Final = 8.0
"""Standard deviations up to which that density is carried."""


def spent_alpha(share: float, alpha: float) -> float:
    """The false alarms, 0..alpha, that may have been spent once a share, 0..1, of a run is judged."""
    return alpha * float(min(1.0, max(0.0, share)) ** SPENDING_POWER)


def spending_bounds(shares: Sequence[float], alpha: float) -> tuple[float, ...]:
    """The boundaries of a one-sided test at looks, as normal quantiles; alpha is spent at the last.

    `shares` are the shares of the run that are judged at each look, 0..1 and ascending. Crossing
    any boundary has the probability alpha if nothing changed.

    Raises:
        ValueError: the shares do not ascend within 0..1, or there are none.
    """
    if not shares or any(b <= a for a, b in zip((0.0, *shares), shares, strict=False)):
        raise ValueError("shares must ascend from above 0")
    if shares[-1] > 1:
        raise ValueError("no share may be over 1")
    last = shares[-1]
    bounds: list[float] = []
    # The statistic as Brownian motion B(share): a grid, and on it the paths not yet stopped.
    points, weights = np.zeros(1), np.ones(1)
    before = used = 0.0
    for share in shares:
        step, due = sqrt(share - before), spent_alpha(share / last, alpha) - used
        bound = _bound(points, weights, share, step, due)
        bounds.append(bound)
        grid = np.linspace(-_REACH * sqrt(share), bound * sqrt(share), _GRID)
        density = np.exp(-0.5 * ((grid[:, None] - points) / step) ** 2) @ weights
        weights = density * (grid[1] - grid[0]) / (step * sqrt(2 * np.pi))
        weights[[0, -1]] /= 2  # the trapezoid rule
        points, before, used = grid, share, spent_alpha(share / last, alpha)
    return tuple(bounds)


def _bound(points: Floats, weights: Floats, share: float, step: float, due: float) -> float:
    """The boundary at which paths with these weights cross with the probability `due`."""
    low, high = 0.0, 12.0
    for _ in range(60):  # bisection: a higher boundary is crossed less often
        middle = (low + high) / 2
        crossed = float(weights @ ndtr((points - middle * sqrt(share)) / step))
        low, high = (middle, high) if crossed > due else (low, middle)
    return high


class PartialEffect(NamedTuple):
    """The change of a measure over the part of a run that is judged, candidate minus baseline.

    `error` is the clustered standard error of the change; `fixed` is the part of it that no further
    case of the run makes smaller: that of a baseline over other cases.
    """

    delta: float
    error: float
    clusters: int
    share: float  # of the run's cases that are judged, above 0, up to 1
    fixed: float = 0.0

    @property
    def left(self) -> float:
        """The standard deviation of the change over all cases, given the change so far."""
        return sqrt(max(0.0, self.error**2 - self.fixed**2) * (1 - self.share))

    @property
    def full(self) -> float:
        """The standard error that the change over all cases is expected to have."""
        return sqrt(self.fixed**2 + max(0.0, self.error**2 - self.fixed**2) * self.share)


def partial_effect(differences: Sample, share: float, *, least_move: float) -> PartialEffect:
    """The change over judged cases, from the differences of the cases.

    One added case that moves each way keeps the error above 0, where few cases moved yet: by the
    widest move so far, and at least by `least_move`. A pass moves by its whole scale.
    """
    move = max(float(np.abs(differences.values).max(initial=0.0)), least_move)
    error = differences.with_cases(move, -move).error
    return PartialEffect(differences.mean, error, differences.clusters, share)


class Chances(NamedTuple):
    """The chances, 0..1, that the run judged to its end would say one thing or another."""

    regressed: float
    fine: float  # not worse, or improved


def chances(seen: PartialEffect, margin: float, alpha: float) -> Chances:
    """What the comparison of the whole run would say of a measure, given the part that is judged.

    The whole run says `regressed` where the change is at most -margin and its interval below 0, and
    `not_worse` or `improved` where the interval is above -margin. `alpha` is two-sided, as in that
    interval; `margin` is in the unit of the change.
    """
    half = t_of(1 - alpha, max(1.0, seen.clusters / seen.share - 1)) * seen.full
    worse_at, fine_at = -max(margin, half), half - margin
    degrees = max(1, seen.clusters - 1)
    if seen.left == 0:
        return Chances(float(seen.delta <= worse_at), float(seen.delta > fine_at))
    worse = stdtr(degrees, (worse_at - seen.delta) / seen.left)
    fine = stdtr(degrees, (seen.delta - fine_at) / seen.left)
    return Chances(float(worse), float(fine))


def crosses(estimate: float, error: float, clusters: int, bound: float) -> bool:
    """Whether an estimate is above 0 by more than a boundary, a normal quantile, allows to chance.

    With few clusters the boundary is that quantile of Student's t which chance passes as often.
    """
    if error <= 0:
        return estimate > 0
    return float(stdtr(max(1, clusters - 1), -estimate / error)) <= float(ndtr(-bound))


StopWord = Literal["fine", "regressed", "inconclusive"]
"""What a run stops for: a regression, none, or that all of its cases would not tell which."""


def decided_word(
    measures: Sequence[Sequence[PartialEffect]], rules: StopRules, bounds: Bounds
) -> StopWord | None:
    """What the measures that gate have decided at a look; `None`: more cases have to be judged.

    Each measure comes with its change for each filling of missing scores: none of them may
    contradict the word.
    """
    alpha = rules.alpha if len(measures) <= 2 else 2 * rules.alpha / len(measures)
    worst: list[float] = []  # for each measure, the chance that the whole run calls it regressed
    best: list[float] = []  # likewise not worse or improved
    fell, held = [], []  # whether the tests of the look say so
    for fillings in measures:
        found = [chances(seen, rules.margin, alpha) for seen in fillings]
        worst.append(min(each.regressed for each in found))
        best.append(min(each.fine for each in found))
        fell.append(all(crosses(-s.delta, s.error, s.clusters, bounds.worse) for s in fillings))
        held.append(
            all(crosses(s.delta + rules.margin, s.error, s.clusters, bounds.fine) for s in fillings)
        )
    doubt = 1 - rules.certainty
    if any(did and chance >= 1 - doubt for did, chance in zip(fell, worst, strict=True)):
        return "regressed"
    if all(held) and sum(1 - chance for chance in best) <= doubt:
        return "fine"
    # Nothing is claimed: that the whole run could tell no more needs no test.
    return "inconclusive" if sum(worst) + min(best, default=0.0) <= doubt else None


class Bounds(NamedTuple):
    """The boundaries of one look, as normal quantiles: for one measure that got worse, and for fine."""

    worse: float
    fine: float


def final_alpha(alpha: float) -> float:
    """The alpha, 0..1, of the comparison at the end of a run that may have stopped at looks."""
    return alpha * (1 - EARLY_SHARE)


@lru_cache(maxsize=64)
def look_bounds(shares: tuple[float, ...], alpha: float, measures: int) -> tuple[Bounds, ...]:
    """The boundaries of each look before the end of a run, in which `measures` gate.

    False alarms: `EARLY_SHARE` of alpha is spent over the looks and the measures (Bonferroni); the
    comparison at the end has the rest (`final_alpha`). For `fine` every measure must pass its test,
    so that no correction is due (intersection-union test, Berger 1982), and the looks together may
    err as often as the one-sided interval of the whole run.
    """
    worse = spending_bounds(shares, EARLY_SHARE * alpha / max(1, measures))
    fine = spending_bounds(shares, alpha / 2)
    return tuple(Bounds(*pair) for pair in zip(worse, fine, strict=True))


class StopRules(NamedTuple):
    """What a look is measured against."""

    margin: float  # the smallest drop that matters, in the unit of the changes
    alpha: float  # of the comparison of the whole run, 0..1
    certainty: float  # the least chance that the whole run would say the same, 0..1


def reaching_chance(seen: PartialEffect, least: float) -> float:
    """The chance, 0..1, that the mean over all cases is at least `least`, given the mean so far."""
    if seen.left == 0:
        return float(seen.delta >= least)
    return float(stdtr(max(1, seen.clusters - 1), (seen.delta - least) / seen.left))


def rate_chance(passes: Sample, cases: int, least: float) -> float:
    """The chance, 0..1, that of all `cases` a share of at least `least` passes.

    Of the cases left, the number that pass has a beta-binomial distribution: every rate was equally
    likely before the first case. Clusters make the judged cases count as fewer (Kish), and the
    cases left as fewer, too.
    """
    rate, judged = passes.mean, passes.size
    spread = rate * (1 - rate)
    few = 1 - 1 / passes.clusters  # single cases have the effect 1
    effect = (
        max(1.0, passes.error**2 * few * judged / spread)
        if spread > 0
        else judged / passes.clusters
    )
    effective = judged / effect
    left = round((cases - judged) / effect)
    needed = ceil((least * cases - rate * judged) / effect - _ROUNDING)
    if needed <= 0:
        return 1.0
    if needed > left:
        return 0.0
    good, bad = rate * effective + 1, (1 - rate) * effective + 1
    counts = np.arange(needed, left + 1)
    logs = gammaln(left + 1) - gammaln(counts + 1) - gammaln(left - counts + 1)
    logs += gammaln(counts + good) + gammaln(left - counts + bad) - gammaln(left + good + bad)
    logs += gammaln(good + bad) - gammaln(good) - gammaln(bad)
    return min(1.0, float(np.exp(logs).sum()))


_ROUNDING: Final = 1e-9
"""Cases by which a needed number may be over a whole number through the rounding of floats."""
