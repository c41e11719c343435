"""Differences between two runs: estimates, intervals, p-values, corrections and the decision.

Sources: McNemar (1947), exact form; sign-flip permutation with the +1 of Phipson and Smyth (2010);
Bonett and Price (2012) for paired shares; Hesterberg (2015) for percentiles of small samples;
Welch (1947) on cluster errors; Agresti and Caffo (2000) for shares; Kitagawa (1955) for the part
that is due to another mix of cases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isinf, sqrt
from typing import Final, Literal, NamedTuple

import numpy as np
from scipy.special import bdtr, ndtr, stdtr  # type: ignore[import-untyped]  # it has no types

from assizes.judge.statistics.intervals import (
    MIN_CLUSTERS,
    CountedSample,
    Floats,
    Sample,
    ValueInterval,
    cluster_sums,
    t_interval,
    t_of,
)

Method = Literal["mcnemar", "sign_flip", "welch", "t"]
Word = Literal["regressed", "not_worse", "inconclusive", "improved"]

SEED: Final = 20240601
"""The seed of all draws: it is fixed, so that the same runs always give the same numbers."""

DRAWS: Final = 10_000
"""The number of draws of a permutation test or a bootstrap."""

MAX_DRAWN: Final = 2_000
"""The most clusters for which numbers are drawn; above it the normal distribution is used."""


def t_p_value(estimate: float, error: float, degrees: float) -> float:
    """The two-sided p-value by Student's t; without an error, 1 for the estimate 0, else 0."""
    if error > 0:
        return float(2 * stdtr(degrees, -abs(estimate) / error))
    return 0.0 if estimate else 1.0


class Effect(NamedTuple):
    """The difference candidate minus baseline, in the unit of the values."""

    delta: float
    error: float  # standard error
    span: ValueInterval  # confidence interval
    p_value: float  # two-sided
    method: Method
    cases: int  # unpaired: of the smaller run; likewise `clusters`
    clusters: int


def decide(effect: Effect, p_adjusted: float, margin: float, alpha: float) -> Word:
    """Decide what a difference means, where higher values are better.

    Regressed: the interval is below 0, the estimate is at most -margin, and the adjusted p-value is
    at most alpha. Improved: the mirror image. Not worse: the interval is above -margin.
    Inconclusive: anything else, and always with fewer than `MIN_CLUSTERS` clusters on a side.
    `margin` is in the unit of the effect and above 0; the p-value is adjusted for the other gating
    metrics, and alpha, 0..1, is the share of false alarms over all of them.
    """
    if effect.clusters < MIN_CLUSTERS:
        return "inconclusive"
    sure = p_adjusted <= alpha
    if sure and effect.span.high < 0 and effect.delta <= -margin:
        return "regressed"
    if sure and effect.span.low > 0 and effect.delta >= margin:
        return "improved"
    return "not_worse" if effect.span.low > -margin else "inconclusive"


def combined_word(point: Word, worst: Word, best: Word) -> Word:
    """The decision for a difference with missing values, which no filling of them contradicts.

    `point` is the decision without the missing values, `worst` and `best` those with them filled
    against the candidate and in its favour.
    """
    if point == worst == best:
        return point
    return "not_worse" if {point, worst, best} <= {"not_worse", "improved"} else "inconclusive"


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values (1979), in the order given."""
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Benjamini and Hochberg's adjusted p-values (1995), in the order given.

    Among the tests with a value of at most q, a share of at most q is expected to be false.
    """
    # As `scipy.stats.false_discovery_control`, which takes half a second to import.
    adjusted, lowest = [0.0] * len(p_values), 1.0
    ascending = sorted(range(len(p_values)), key=p_values.__getitem__)
    for rank, place in reversed(list(enumerate(ascending, start=1))):
        lowest = min(lowest, p_values[place] * (len(p_values) / rank))
        adjusted[place] = lowest
    return adjusted


EXACT_CLUSTERS: Final = 13
"""The most differing clusters for which all sign flips are counted: 2^13 is below 10,000."""

_CELLS: Final = 2_000_000
"""The most numbers that are drawn at once, to bound the memory."""

_TOLERANCE: Final = 1e-9  # relative: equal totals of different flips differ by float noise


def paired_effect(differences: Sample | CountedSample, confidence: float, *, share: bool) -> Effect:
    """The mean difference, candidate minus baseline, over the cases that both runs hold.

    With `share` the values are differences of passes, -1..1, and not of scores. The interval of
    scores is a bootstrap over up to `MAX_DRAWN` clusters, clustered t for more, and infinite for
    fewer than two. A `CountedSample` needs more than `MAX_DRAWN` values other than 0: none is
    drawn.
    """
    flips = share and bool(np.isin(differences.values, (-1.0, 0.0, 1.0)).all())
    # McNemar counts whole flips of independent cases: no fractions of repetitions, no clusters.
    exact = flips and differences.clusters == differences.size
    if exact:
        p_value = mcnemar(*differences.sides)
    elif isinstance(differences, CountedSample):
        p_value = _normal_flip(differences.values, differences.times)
    else:
        p_value = sign_flip(cluster_sums(differences.values, differences.codes))
    if share:
        span = share_interval(differences, confidence)
    elif differences.clusters < 2:
        span = ValueInterval(-np.inf, np.inf)
    elif isinstance(differences, CountedSample) or differences.clusters > MAX_DRAWN:
        span = t_interval(differences, confidence)
    else:
        sizes = cluster_sums(np.ones(differences.size), differences.codes)
        sums = cluster_sums(differences.values, differences.codes)
        span = bootstrap(sums, sizes, confidence)
    return Effect(
        delta=differences.mean,
        error=differences.with_cases(1.0, -1.0).error if share else differences.error,
        span=span,
        p_value=p_value,
        method="mcnemar" if exact else "sign_flip",
        cases=differences.size,
        clusters=differences.clusters,
    )


def plain_effect(differences: Sample | CountedSample, confidence: float, *, share: bool) -> Effect:
    """The same effect by Student's t instead of draws, fast enough for many slices."""
    added = differences.with_cases(1.0, -1.0) if share else differences
    center, error, degrees = added.mean, added.error, max(1, added.clusters - 1)
    half = t_of(confidence, degrees) * error
    return Effect(
        delta=differences.mean,
        error=error,
        span=ValueInterval(center - half, center + half),
        p_value=t_p_value(center, error, degrees),
        method="t",
        cases=differences.size,
        clusters=differences.clusters,
    )


def mcnemar(worse: int, better: int) -> float:
    """McNemar's exact two-sided p-value for `worse` and `better` flips of pass and fail."""
    return min(1.0, 2 * float(bdtr(min(worse, better), worse + better, 0.5)))  # 2 P(X <= fewer)


def sign_flip(sums: Floats) -> float:
    """The two-sided p-value of the total of cluster sums, if each sign were as likely as the other.

    Up to `EXACT_CLUSTERS` sums other than 0, all sign flips are counted; up to `MAX_DRAWN`, `DRAWS`
    flips are drawn; above that the normal distribution is used.
    """
    moved = sums[sums != 0]
    total = abs(float(moved.sum()))
    if not moved.size:
        return 1.0
    if moved.size > MAX_DRAWN:
        return _normal_flip(moved, np.ones(moved.size))
    limit = total - _TOLERANCE * max(1.0, total)
    if moved.size <= EXACT_CLUSTERS:
        # The bits of 0 .. 2^n - 1 are all ways to choose n signs.
        ways = (np.arange(2**moved.size)[:, None] >> np.arange(moved.size)) & 1
        return float((np.abs((2 * ways - 1) @ moved) >= limit).mean())
    rng = np.random.default_rng(SEED)
    far, step = 0, max(1, _CELLS // moved.size)
    for first in range(0, DRAWS, step):
        ways = rng.integers(0, 2, size=(min(step, DRAWS - first), moved.size), dtype=np.int8)
        far += int((np.abs((2.0 * ways - 1) @ moved) >= limit).sum())
    return (1 + far) / (DRAWS + 1)  # the +1 of Phipson and Smyth: a p-value is never 0


def _normal_flip(values: Floats, times: Floats) -> float:
    total = abs(float(values @ times))
    return float(2 * ndtr(-total / sqrt(float(np.square(values) @ times))))


def share_interval(differences: Sample | CountedSample, confidence: float) -> ValueInterval:
    """The interval of a difference of pass rates on the same cases, within -1..1."""
    # One added case that flips each way keeps the width above 0; without clusters this is the
    # interval of Bonett and Price, with the quantile of t.
    return t_interval(differences.with_cases(1.0, -1.0), confidence).clip(-1.0, 1.0)


def bootstrap(sums: Floats, sizes: Floats, confidence: float) -> ValueInterval:
    """The percentile interval of the mean over clusters, drawn `DRAWS` times with replacement."""
    clusters = sums.size
    # Plain percentiles are too narrow for few clusters: these are the ones at which a normal sample
    # of as many clusters would give the t interval (Hesterberg 2015).
    beyond = float(ndtr(-sqrt(clusters / (clusters - 1)) * t_of(confidence, clusters - 1)))
    rng = np.random.default_rng(SEED)
    step = max(1, _CELLS // clusters)
    means = []
    for first in range(0, DRAWS, step):
        drawn = rng.integers(0, clusters, size=(min(step, DRAWS - first), clusters))
        means.append(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1))
    low, high = np.quantile(np.concatenate(means), [beyond, 1 - beyond])
    return ValueInterval(float(low), float(high))


class WeightedStratum(NamedTuple):
    """One stratum, or a whole run: its weight in the difference, and the values of both runs."""

    weight: float
    baseline: Sample | CountedSample
    candidate: Sample | CountedSample


class MeanDecomposition(NamedTuple):
    """A difference of means as the sum of two parts, in the unit of the values."""

    quality: float  # due to changes within the strata
    mix: float  # due to changes of the strata's shares


def unpaired_effect(
    baseline: Sample | CountedSample,
    candidate: Sample | CountedSample,
    confidence: float,
    *,
    share: bool,
) -> Effect:
    """The difference of two means over different cases, with clustered errors (Welch's test)."""
    return weighted_effect([WeightedStratum(1.0, baseline, candidate)], confidence, share=share)


def weighted_effect(parts: Sequence[WeightedStratum], confidence: float, *, share: bool) -> Effect:
    """The weighted difference over strata, sum w (mB - mA), variance sum w^2 (SE_A^2 + SE_B^2)."""
    # Agresti and Caffo: a pass and a fail on each side keep the width above 0; not in the estimate.
    more = (1.0, 0.0) if share else ()
    seen = [
        WeightedStratum(weight, before.with_cases(*more), after.with_cases(*more))
        for weight, before, after in parts
    ]
    center = _weighted_difference(seen)
    error, degrees = _welch(seen)
    half = t_of(confidence, degrees) * error
    span = ValueInterval(center - half, center + half)
    baselines, candidates = [p.baseline for p in parts], [p.candidate for p in parts]
    return Effect(
        delta=_weighted_difference(parts),
        error=error,
        span=span.clip(-1.0, 1.0) if share else span,
        p_value=t_p_value(center, error, degrees),
        method="welch",
        cases=min(sum(side.size for side in sides) for sides in (baselines, candidates)),
        clusters=min(sum(side.clusters for side in sides) for sides in (baselines, candidates)),
    )


def _weighted_difference(parts: Sequence[WeightedStratum]) -> float:
    return sum(p.weight * (p.candidate.mean - p.baseline.mean) for p in parts)


def _welch(parts: Sequence[WeightedStratum]) -> tuple[float, float]:
    """The error of the weighted difference and its degrees of freedom (Satterthwaite)."""
    terms = [
        (part.weight**2 * side.error**2, side.clusters - 1)
        for part in parts
        for side in (part.baseline, part.candidate)
    ]
    variance = sum(term for term, _ in terms)
    if isinf(variance):  # one side of a stratum is a single cluster
        return variance, 1.0
    spread = sum(term**2 / degrees for term, degrees in terms if term)
    fewest = min(degrees for _, degrees in terms)
    # Without any spread the degrees do not matter: their quantile is multiplied by 0.
    return variance**0.5, variance**2 / spread if spread else float(max(1, fewest))


def strata(
    baseline: Mapping[str, Sample], candidate: Mapping[str, Sample]
) -> tuple[list[WeightedStratum], MeanDecomposition]:
    """The strata that both runs hold, and the decomposition of the difference of means.

    A stratum's weight is the average of its shares in the two runs. The decomposition (Kitagawa) is
    mB - mA = sum wbar (m_gB - m_gA) [quality] + sum mbar (w_gB - w_gA) [mix]. Both runs give the
    values of the same strata.
    """
    before = sum(sample.size for sample in baseline.values())
    after = sum(sample.size for sample in candidate.values())
    parts, mix = [], 0.0
    for name in sorted(baseline.keys() & candidate.keys()):
        old, new = baseline[name], candidate[name]
        shares = (old.size / before, new.size / after)
        parts.append(WeightedStratum(sum(shares) / 2, old, new))
        mix += (old.mean + new.mean) / 2 * (shares[1] - shares[0])
    return parts, MeanDecomposition(_weighted_difference(parts), mix)
