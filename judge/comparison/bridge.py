"""Takes the difference of two judges off the change between runs that they judged.

The difference is measured on anchors: golden transcripts that both judges judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import hypot

from assizes.judge.comparison.contrasts import contrast
from assizes.judge.comparison.statistical import StatisticalComparison
from assizes.judge.comparison.statistical_verdict import (
    LABELS,
    Bridge,
    MetricVerdict,
    StatisticalVerdict,
)
from assizes.judge.statistics.clusters import MIN_CLUSTERS
from assizes.judge.statistics.effects import Effect
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.intervals import ValueInterval, t_of


def verdict_with_bridges(
    verdict: StatisticalVerdict, runs: StatisticalComparison, anchors: StatisticalComparison
) -> StatisticalVerdict:
    """Add a bridge to the verdict for every gating measure that has one.

    The verdict itself stays as it is: anchors stand for the traffic only as far as they resemble
    it.

    Args:
        verdict: the verdict on two runs that were judged differently.
        runs: these two runs.
        anchors: the same golden transcripts, judged once by the judge of each run.
    """
    bridges = tuple(_bridges(verdict, runs, anchors))
    lines = [bridge.line for bridge in bridges]
    return verdict.model_copy(update={"bridge": bridges, "reasons": (*verdict.reasons, *lines)})


def _bridges(
    verdict: StatisticalVerdict, runs: StatisticalComparison, anchors: StatisticalComparison
) -> Iterator[Bridge]:
    for measure in verdict.metrics:
        effects = [_effect(both, measure.measure) for both in (runs, anchors)]
        moved, judge = effects
        if moved is None or judge is None or judge.method == "welch":
            continue
        clusters = min(moved.clusters, judge.clusters)
        if clusters < MIN_CLUSTERS:
            continue
        half = t_of(1 - verdict.alpha, clusters - 1) * hypot(moved.error, judge.error)
        left = moved.delta - judge.delta
        yield _bridge(measure, judge, ValueInterval(left - half, left + half), verdict.alpha)


def _effect(both: StatisticalComparison, name: str) -> Effect | None:
    before, after = (side.measure(name) for side in (both.before, both.after))
    if before is None or after is None:
        return None
    measure_contrast = contrast(before, after, both.pairing, both.limits.alpha)
    return None if measure_contrast is None else measure_contrast.effects["point"]


def _bridge(measure: MetricVerdict, judge: Effect, span: ValueInterval, alpha: float) -> Bridge:
    left = measure.delta - judge.delta
    name = LABELS.get(measure.measure, measure.measure)
    line = (
        f"bridge, {name}: on {judge.cases} anchors that both judges judged the later one gives "
        f"{judge.delta:+.1f}; without that {measure.delta:+.1f} is {left:+.1f} "
        f"({100 * (1 - alpha):g} % CI {span.low:+.1f}..{span.high:+.1f})"
    )
    return Bridge(
        measure=measure.measure,
        judge=rounded_value(judge.delta),
        delta=rounded_value(left),
        low=rounded_value(span.low),
        high=rounded_value(span.high),
        anchors=judge.cases,
        line=line,
    )
