"""What is left of a change between two judges, once that of anchors that both judged is taken off."""

from __future__ import annotations

from collections.abc import Iterator
from math import hypot

from assizes.judge.comparison.contrasts import contrast
from assizes.judge.comparison.statistical import Compared
from assizes.judge.comparison.statistical_verdict import (
    LABELS,
    Bridge,
    MetricVerdict,
    StatisticalVerdict,
)
from assizes.judge.statistics.clusters import MIN_CLUSTERS
from assizes.judge.statistics.effects import Effect
from assizes.judge.statistics.exact import rounded
from assizes.judge.statistics.intervals import Span, t_of


def bridged(found: StatisticalVerdict, runs: Compared, anchors: Compared) -> StatisticalVerdict:
    """The verdict with a bridge for every gating measure that has one; the word stays as it is:
    anchors stand for the traffic only as far as they are like it.

    Args:
        found: the verdict on two runs that were judged differently.
        runs: those runs.
        anchors: the same golden transcripts, judged by the judge of each.
    """
    bridges = tuple(_bridges(found, runs, anchors))
    lines = [one.line for one in bridges]
    return found.model_copy(update={"bridge": bridges, "reasons": (*found.reasons, *lines)})


def _bridges(found: StatisticalVerdict, runs: Compared, anchors: Compared) -> Iterator[Bridge]:
    for measure in found.metrics:
        effects = [_effect(both, measure.measure) for both in (runs, anchors)]
        moved, judge = effects
        if moved is None or judge is None or judge.method == "welch":
            continue
        clusters = min(moved.clusters, judge.clusters)
        if clusters < MIN_CLUSTERS:
            continue
        half = t_of(1 - found.alpha, clusters - 1) * hypot(moved.error, judge.error)
        left = moved.delta - judge.delta
        yield _bridge(measure, judge, Span(left - half, left + half), found.alpha)


def _effect(both: Compared, name: str) -> Effect | None:
    before, after = (side.measure(name) for side in (both.before, both.after))
    if before is None or after is None:
        return None
    one = contrast(before, after, both.pairing, both.limits.alpha)
    return None if one is None else one.effects["point"]


def _bridge(measure: MetricVerdict, judge: Effect, span: Span, alpha: float) -> Bridge:
    left = measure.delta - judge.delta
    name = LABELS.get(measure.measure, measure.measure)
    line = (
        f"bridge, {name}: on {judge.cases} anchors that both judges judged the later one gives "
        f"{judge.delta:+.1f}; without that {measure.delta:+.1f} is {left:+.1f} "
        f"({100 * (1 - alpha):g} % CI {span.low:+.1f}..{span.high:+.1f})"
    )
    return Bridge(
        measure=measure.measure,
        judge=rounded(judge.delta),
        delta=rounded(left),
        low=rounded(span.low),
        high=rounded(span.high),
        anchors=judge.cases,
        line=line,
    )
