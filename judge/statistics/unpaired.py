"""Effects between runs over different cases, and the part that is due to another mix of cases.

Sources: Welch (1947) on cluster errors; Agresti and Caffo (2000) for shares; the decomposition is
that of Kitagawa (1955).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isinf
from typing import NamedTuple

from assizes.judge.statistics.clusters import Sample
from assizes.judge.statistics.effects import Effect, t_p_value
from assizes.judge.statistics.intervals import ValueInterval, t_of


class WeightedStratum(NamedTuple):
    """One stratum, or a whole run: its weight in the difference, and the values of both runs."""

    weight: float
    baseline: Sample
    candidate: Sample


class MeanDecomposition(NamedTuple):
    """A difference of means as the sum of two parts, in the unit of the values.

    `quality` is due to changes within the strata, `mix` to changes of the strata's shares.
    """

    quality: float
    mix: float


def unpaired_effect(
    baseline: Sample, candidate: Sample, confidence: float, *, share: bool
) -> Effect:
    """The difference of two means over different cases, with clustered errors (Welch's test)."""
    return weighted_effect([WeightedStratum(1.0, baseline, candidate)], confidence, share=share)


def weighted_effect(parts: Sequence[WeightedStratum], confidence: float, *, share: bool) -> Effect:
    """The weighted difference over strata, sum w (mB - mA) with variance sum w^2 (SE_A^2 + SE_B^2).

    For shares, one pass and one fail are added to each side (Agresti and Caffo) before interval and
    p-value are computed, so that the width is never 0. The estimate itself is without them.
    """
    seen = [_add_pass_and_fail(part) for part in parts] if share else list(parts)
    center = sum(p.weight * (p.candidate.mean - p.baseline.mean) for p in seen)
    error, degrees = _welch(seen)
    half = t_of(confidence, degrees) * error
    span = ValueInterval(center - half, center + half)
    clusters = [
        sum(getattr(part, side).clusters for part in parts) for side in ("baseline", "candidate")
    ]
    return Effect(
        delta=sum(p.weight * (p.candidate.mean - p.baseline.mean) for p in parts),
        error=error,
        span=span.clip(-1.0, 1.0) if share else span,
        p_value=t_p_value(center, error, degrees),
        method="welch",
        cases=min(sum(p.baseline.size for p in parts), sum(p.candidate.size for p in parts)),
        clusters=min(clusters),
    )


def _add_pass_and_fail(part: WeightedStratum) -> WeightedStratum:
    sides = (part.baseline.with_cases(1.0, 0.0), part.candidate.with_cases(1.0, 0.0))
    return WeightedStratum(part.weight, *sides)


def _welch(parts: Sequence[WeightedStratum]) -> tuple[float, float]:
    """The error of the weighted difference and its degrees of freedom (Satterthwaite).

    The error is infinite where one side of a stratum is a single cluster.
    """
    terms = [
        (part.weight**2 * side.error**2, side.clusters - 1)
        for part in parts
        for side in (part.baseline, part.candidate)
    ]
    variance = sum(term for term, _ in terms)
    if isinf(variance):
        return variance, 1.0
    spread = sum(term**2 / degrees for term, degrees in terms if term)
    fewest = min(degrees for _, degrees in terms)
    return variance**0.5, variance**2 / spread if spread else float(max(1, fewest))


def strata(
    baseline: Mapping[str, Sample], candidate: Mapping[str, Sample]
) -> tuple[list[WeightedStratum], MeanDecomposition]:
    """The strata that both runs hold, and the decomposition of the difference of means.

    A stratum's weight is the average of its shares in the two runs. The decomposition is
    mB - mA = sum wbar (m_gB - m_gA) [quality] + sum mbar (w_gB - w_gA) [mix].

    Args:
        baseline: the values of each stratum.
        candidate: the values of each stratum; the strata are those of the baseline.
    """
    before = sum(sample.size for sample in baseline.values())
    after = sum(sample.size for sample in candidate.values())
    parts, mix = [], 0.0
    for name in sorted(baseline.keys() & candidate.keys()):
        old, new = baseline[name], candidate[name]
        shares = (old.size / before, new.size / after)
        parts.append(WeightedStratum(sum(shares) / 2, old, new))
        mix += (old.mean + new.mean) / 2 * (shares[1] - shares[0])
    quality = sum(part.weight * (part.candidate.mean - part.baseline.mean) for part in parts)
    return parts, MeanDecomposition(quality, mix)
