"""Sets the threshold of a cascade from labels, so that its decisions agree with people as promised.

The method is fixed-sequence testing of thresholds with exact binomial bounds, as in Jung, Brahman
and Choi, "Trust or Escalate: LLM Judges with Provable Guarantees for Human Agreement"
(arXiv 2407.18370, section 2), after Bauer 1991 and "Learn then Test" (arXiv 2110.01052). The
thresholds of a fixed list are tested from the strictest on, each at the level delta: the hypothesis
is that the decisions agree with people less often than asked. The last threshold before the first
one that fails this test is taken. Because the order is fixed beforehand and testing stops there, the
chance that the taken threshold breaks the promise is at most delta, without a correction for the
number of thresholds. There are two differences from the paper. All decisions are tested, those of
the first models and those of the stronger one together, for nobody is left undecided at the end. And
a threshold passes only where every metric of the judge passes its test, which keeps the level
(an intersection-union test, Berger 1982).

The bound holds for new cases from the source of the labelled ones. Where cases are clustered the
binomial bound takes the effective number of cases (Korn and Graubard 1998), which is approximate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, log
from statistics import fmean
from typing import Final

from pydantic import BaseModel, ConfigDict, Field
from scipy.special import betaincinv, stdtrit  # type: ignore[import-untyped]  # it has no types

from assizes.judge.errors import ConfigurationError
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.intervals import MIN_CLUSTERS, Sample, rate_interval

GRID: Final = tuple(round(1 - step / 20, 2) for step in range(20))
"""The thresholds in the order of their tests: 1, 0.95, ... 0.05."""


@dataclass(frozen=True, slots=True)
class LabelledDecision:
    """A labelled case on one metric: whether each side of the cascade agrees with people."""

    cluster: str  # cases that were sampled together; else the id of the case
    confidence: float  # of the first models in the whole case, the least of its metrics, 0..1
    first_agrees: bool
    senior_agrees: bool


class MetricPromise(BaseModel):
    """What the labels of one metric say about the decisions at the threshold that was taken."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    labels: int
    clusters: int
    effective_labels: float = Field(description="fewer than labels where clusters are alike")
    attained: float = Field(description="share of decisions that agree with people, 0..1")
    attained_low: float = Field(description="its exact lower bound with the chance 1 - delta")
    first_alone: float = Field(description="the agreement if nothing were escalated")
    senior_alone: float = Field(description="the agreement if everything were escalated")
    undecided: int = Field(default=0, description="labelled cases without a decision, left out")


class CascadeCalibration(BaseModel):
    """The threshold of one judge, and what labels say about it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    judge: str
    agreement: float
    delta: float
    confidence: float = Field(description="the threshold: below it the stronger model is asked")
    cases: int = Field(description="judged cases, labelled or not")
    escalated: float = Field(description="share of these cases below the threshold, 0..1")
    escalated_low: float | None
    escalated_high: float | None
    tested: int = Field(description="thresholds that were tested until one failed")
    metrics: tuple[MetricPromise, ...]
    first_usd: float | None = Field(
        default=None, description="of the first models for one case; null: not known"
    )
    senior_usd: float | None = Field(
        default=None, description="of the stronger model for one case; null: not known"
    )
    expected_usd: float | None = Field(
        default=None, description="of one case at this threshold; null: not known"
    )

    def sentence(self) -> str:
        """What is promised, in one line for reports."""
        least = min(self.metrics, key=lambda metric: metric.attained_low)
        return (
            f"{self.judge}: agrees with people in {least.attained:.1%} of {least.labels:,} labels "
            f"(at least {least.attained_low:.1%} with the chance {1 - self.delta:g}); "
            f"{self.escalated:.1%} of the cases are escalated"
        )


def agreement_bound(sample: Sample, delta: float) -> tuple[float, float]:
    """The lower bound of an agreement with the chance 1 - delta, and the effective number of cases.

    `sample` holds 1 for each decision that agrees and 0 for the others. Without clusters this is the
    exact bound of Clopper and Pearson; with clusters it is that bound at n / deff cases, with the
    quantiles of t for n and for the clusters (Korn and Graubard 1998). Where all or none agree, each
    cluster counts as one case.
    """
    size, clusters, rate = sample.size, sample.clusters, sample.mean
    effective = float(size)
    if clusters < size:
        if not 0 < rate < 1:
            effective = float(clusters)
        else:
            deff = max(1.0, sample.error**2 / (rate * (1 - rate) / size))
            few = stdtrit(size - 1, 1 - delta) / stdtrit(clusters - 1, 1 - delta)
            effective = size / deff * min(1.0, float(few)) ** 2
    agreeing = rate * effective
    if agreeing <= 0:
        return 0.0, effective
    return float(betaincinv(agreeing, effective - agreeing + 1, delta)), effective


def fewest_labels(agreement: float, delta: float) -> int:
    """The number of labels below which no threshold passes, even if all decisions agree."""
    return ceil(round(log(delta) / log(agreement), 9))


@dataclass(frozen=True, slots=True)
class CascadeLabels:
    """All that the threshold of a judge is set from."""

    judge: str
    decisions: Mapping[str, Sequence[LabelledDecision]]  # by metric
    judged: Sequence[tuple[str, float]]  # cluster and confidence of every case, labelled or not
    undecided: Mapping[str, int]  # metric -> labelled cases without a decision


def set_threshold(labels: CascadeLabels, agreement: float, delta: float) -> CascadeCalibration:
    """The lowest threshold at which the decisions agree with people as asked.

    Raises:
        ConfigurationError: there are too few labels, or no threshold keeps the promise.
    """
    _check_labels(labels, agreement, delta)
    taken: tuple[float, dict[str, MetricPromise]] | None = None
    tested = 0
    for threshold in GRID:
        tested += 1
        promises = {
            metric: _promise(metric, decisions, threshold, delta, labels.undecided.get(metric, 0))
            for metric, decisions in sorted(labels.decisions.items())
        }
        if any(promise.attained_low < agreement for promise in promises.values()):
            if taken is None:
                raise _refusal(labels.judge, list(promises.values()), agreement, delta)
            break
        taken = threshold, promises
    assert taken is not None  # the first failure raises
    threshold, promises = taken
    below = [float(confidence < threshold) for _, confidence in labels.judged]
    sample = Sample.of(below, [cluster for cluster, _ in labels.judged])
    span = rate_interval(sample)
    return CascadeCalibration(
        judge=labels.judge,
        agreement=agreement,
        delta=delta,
        confidence=threshold,
        cases=sample.size,
        escalated=rounded_value(sample.mean),
        escalated_low=None if span is None else rounded_value(span.low),
        escalated_high=None if span is None else rounded_value(span.high),
        tested=tested,
        metrics=tuple(promises.values()),
    )


def _promise(
    metric: str,
    decisions: Sequence[LabelledDecision],
    threshold: float,
    delta: float,
    undecided: int,
) -> MetricPromise:
    agreeing = [
        float(decision.first_agrees if decision.confidence >= threshold else decision.senior_agrees)
        for decision in decisions
    ]
    sample = Sample.of(agreeing, [decision.cluster for decision in decisions])
    low, effective = agreement_bound(sample, delta)
    return MetricPromise(
        metric=metric,
        labels=sample.size,
        clusters=sample.clusters,
        effective_labels=round(effective, 2),
        attained=rounded_value(sample.mean),
        attained_low=rounded_value(low),
        first_alone=rounded_value(fmean(decision.first_agrees for decision in decisions)),
        senior_alone=rounded_value(fmean(decision.senior_agrees for decision in decisions)),
        undecided=undecided,
    )


def _check_labels(labels: CascadeLabels, agreement: float, delta: float) -> None:
    needed = fewest_labels(agreement, delta)
    if not labels.decisions:
        raise ConfigurationError(f"{labels.judge}: no label of a metric of this judge")
    for metric, decisions in sorted(labels.decisions.items()):
        if len(decisions) < needed:
            raise ConfigurationError(
                f"{labels.judge}: {len(decisions)} labelled decisions of {metric}; agreement "
                f"{agreement:g} with delta {delta:g} takes at least {needed}, even if all agree"
            )
        clusters = len({decision.cluster for decision in decisions})
        if clusters < MIN_CLUSTERS:
            raise ConfigurationError(
                f"{labels.judge}: the {len(decisions)} labels of {metric} are from {clusters} "
                f"clusters; at least {MIN_CLUSTERS} are needed"
            )


def _refusal(
    judge: str, promises: Sequence[MetricPromise], agreement: float, delta: float
) -> ConfigurationError:
    least = min(promises, key=lambda promise: promise.attained_low)
    return ConfigurationError(
        f"{judge}: no threshold keeps agreement {agreement:g} with delta {delta:g}; at the strictest "
        f"one {least.attained:.1%} of {least.labels:,} decisions on {least.metric} agree with people, "
        f"at least {least.attained_low:.1%}; the first models alone {least.first_alone:.1%}, the "
        f"stronger one alone {least.senior_alone:.1%}: ask for less, or add labels"
    )
