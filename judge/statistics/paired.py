"""Effects on cases that both runs hold: exact tests and intervals of the paired differences.

Sources: McNemar (1947), exact form; sign-flip permutation with the +1 of Phipson and Smyth (2010);
Bonett and Price (2012) for paired shares; Hesterberg (2015) for percentiles of small samples.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np
from scipy.special import bdtr, ndtr  # type: ignore[import-untyped]  # it has no types

from assizes.judge.statistics.clusters import Floats, Sample, cluster_sums
from assizes.judge.statistics.counted import CountedSample
from assizes.judge.statistics.effects import DRAWS, MAX_DRAWN, SEED, Effect, t_p_value
from assizes.judge.statistics.intervals import ValueInterval, t_interval, t_of

EXACT_CLUSTERS: Final = 13
"""The most differing clusters for which all sign flips are counted: 2^13 is below 10,000."""

_CELLS: Final = 2_000_000
"""The most numbers that are drawn at once, to bound the memory."""

_TOLERANCE: Final = 1e-9


def paired_effect(differences: Sample | CountedSample, confidence: float, *, share: bool) -> Effect:
    """The mean difference over the cases that both runs hold.

    Args:
        differences: candidate minus baseline, one value for each case. A `CountedSample` must have
            more than `MAX_DRAWN` values other than 0, because nothing is drawn from it.
        confidence: the confidence of the interval, 0..1.
        share: whether the values are differences of passes, -1..1, and not of scores.
    """
    span = (
        share_interval(differences, confidence)
        if share
        else score_interval(differences, confidence)
    )
    flips = bool(np.isin(differences.values, (-1.0, 0.0, 1.0)).all())
    if share and flips and not differences.is_clustered:
        p_value, exact = mcnemar(*differences.sides), True
    elif isinstance(differences, CountedSample):
        p_value, exact = _normal_flip(differences.values, differences.times), False
    else:
        p_value = sign_flip(cluster_sums(differences.values, differences.codes))
        exact = False
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
    """McNemar's exact two-sided p-value for `worse` and `better` flips of pass and fail.

    It is min(1, 2 P(X <= min(worse, better))), where X is binomial with worse + better trials of
    probability one half.
    """
    return min(1.0, 2 * float(bdtr(min(worse, better), worse + better, 0.5)))


def sign_flip(sums: Floats) -> float:
    """The two-sided p-value of the total of cluster sums, if each sign were as likely as the other.

    Up to `EXACT_CLUSTERS` sums other than 0, all sign flips are counted. Up to `MAX_DRAWN`, `DRAWS`
    flips are drawn: the p-value is (1 + flips at least as extreme) / (draws + 1). Above that the
    normal distribution is used.
    """
    moved = sums[sums != 0]
    total = abs(float(moved.sum()))
    if not moved.size:
        return 1.0
    if moved.size > MAX_DRAWN:
        return _normal_flip(moved, np.ones(moved.size))
    limit = total - _TOLERANCE * max(1.0, total)
    if moved.size <= EXACT_CLUSTERS:
        ways = (np.arange(2**moved.size)[:, None] >> np.arange(moved.size)) & 1
        return float((np.abs((2 * ways - 1) @ moved) >= limit).mean())
    rng = np.random.default_rng(SEED)
    far, step = 0, max(1, _CELLS // moved.size)
    for first in range(0, DRAWS, step):
        ways = rng.integers(0, 2, size=(min(step, DRAWS - first), moved.size), dtype=np.int8)
        far += int((np.abs((2.0 * ways - 1) @ moved) >= limit).sum())
    return (1 + far) / (DRAWS + 1)


def _normal_flip(values: Floats, times: Floats) -> float:
    total = abs(float(values @ times))
    return float(2 * ndtr(-total / sqrt(float(np.square(values) @ times))))


def share_interval(differences: Sample | CountedSample, confidence: float) -> ValueInterval:
    """The interval of a difference of pass rates on the same cases, within -1..1.

    One case that flips each way is added first, so that the width is never 0. For cases without
    clusters this is the interval of Bonett and Price, with the quantile of t.
    """
    return t_interval(differences.with_cases(1.0, -1.0), confidence).clip(-1.0, 1.0)


def score_interval(differences: Sample | CountedSample, confidence: float) -> ValueInterval:
    """The interval of a difference of means on the same cases.

    It is a bootstrap over up to `MAX_DRAWN` clusters, and clustered t for more. For fewer than two
    clusters it is infinite.
    """
    if differences.clusters < 2:
        return ValueInterval(-np.inf, np.inf)
    if isinstance(differences, CountedSample) or differences.clusters > MAX_DRAWN:
        return t_interval(differences, confidence)
    sums = cluster_sums(differences.values, differences.codes)
    sizes = cluster_sums(np.ones(differences.size), differences.codes)
    return bootstrap(sums, sizes, confidence)


def bootstrap(sums: Floats, sizes: Floats, confidence: float) -> ValueInterval:
    """The percentile interval of the mean over clusters, drawn `DRAWS` times with replacement.

    The percentiles are expanded to those at which a normal sample of as many clusters would give
    the t interval (Hesterberg 2015), because plain percentiles are too narrow for few clusters.
    """
    clusters = sums.size
    beyond = float(ndtr(-sqrt(clusters / (clusters - 1)) * t_of(confidence, clusters - 1)))
    rng = np.random.default_rng(SEED)
    step = max(1, _CELLS // clusters)
    means = []
    for first in range(0, DRAWS, step):
        drawn = rng.integers(0, clusters, size=(min(step, DRAWS - first), clusters))
        means.append(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1))
    low, high = np.quantile(np.concatenate(means), [beyond, 1 - beyond])
    return ValueInterval(float(low), float(high))
