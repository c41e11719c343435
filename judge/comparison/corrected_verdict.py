"""The verdict on two runs by the numbers that labels of people correct, beside that of the judge.

The corrected change of a measure takes the place of the judge's, with the same margin, alpha and
limits. What labels do not correct stays as the judge says it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from scipy.special import ndtr  # type: ignore[import-untyped]  # it has no types

from assizes.judge.comparison.compare import ComparisonVerdict, RunComparison
from assizes.judge.comparison.corrected_change import (
    CorrectedChange,
    CorrectedEnding,
    CorrectedVerdict,
)
from assizes.judge.comparison.statistical_verdict import LABELS, ORDER, SHOWN
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.statistics.effects import Effect, Word, decide
from assizes.judge.statistics.exact import exceeds, rounded_value
from assizes.judge.statistics.intervals import CONFIDENCE, MIN_CLUSTERS, ValueInterval, z_of
from assizes.judge.statistics.prediction_powered import CorrectedEstimate

PASS_RATE: Final = "pass_rate"
PASS_RATE_REASON: Final = "pass rate fell"  # how the sentence of the rule about it begins


class MeasuredLabels(NamedTuple):
    """One measure of two runs: the change by the judge, the change by labels, and the labels."""

    measure: str  # `PASS_RATE` or a metric
    raw: float | None  # judge, candidate minus baseline, -1..1
    estimate: CorrectedEstimate | None  # the same, corrected; None: too few labels
    labels: tuple[int, int]  # of baseline and candidate
    paired: int  # cases with a label in both runs
    why_not: str | None = None


def corrected_comparison(
    comparison: RunComparison,
    measured: Sequence[MeasuredLabels],
    labels: Sequence[str],
    limits: ComparisonConfig,
) -> RunComparison:
    """Add the corrected verdict to a comparison; with `verdict = "corrected"` it decides.

    `labels` are lines that say where the labels come from.
    """
    if not measured:
        return comparison
    verdict = comparison.verdict
    changes = tuple(_change(item, verdict, limits) for item in measured)
    known = {change.measure: change for change in changes if change.word is not None}
    ending = _ending(verdict, known, limits)
    wanted, decides = limits.verdict == "corrected", False
    fell_back = None
    if wanted and ending is None:
        fell_back = _why_not(verdict, changes)
    elif wanted:
        decides = True
    sentence = _sentence(verdict, changes, ending)
    corrected = CorrectedVerdict(
        ending=ending,
        raw_ending=verdict.ending,
        decides=decides,
        fell_back=fell_back,
        differs=sentence is not None,
        sentence=sentence,
        changes=changes,
        labels=tuple(labels),
    )
    update: dict[str, object] = {"corrected": corrected}
    if decides and ending is not None:
        update["verdict"] = _decided(verdict, known[PASS_RATE].line, ending)
    return comparison.model_copy(update=update)


def _change(
    item: MeasuredLabels, verdict: ComparisonVerdict, limits: ComparisonConfig
) -> CorrectedChange:
    gating = () if verdict.statistics is None else verdict.statistics.metrics
    raw_word = next((each.verdict for each in gating if each.measure == item.measure), None)
    estimate = item.estimate
    word = None if estimate is None else _word(estimate, limits, item.labels)
    value, low, high = (
        (None, None, None)
        if estimate is None
        else (rounded_value(100 * n) for n in (estimate.value, estimate.low, estimate.high))
    )
    raw = None if item.raw is None else rounded_value(100 * item.raw)
    name = LABELS.get(item.measure, item.measure)
    by_judge = f"by the judge {_points(raw)}" if raw is not None else "the judge gives no change"
    if word is None:
        line = f"{name}: {by_judge}, not corrected: {item.why_not}"
    else:
        counts = f"{item.labels[0]} and {item.labels[1]} labels, {item.paired} cases with both"
        line = (
            f"{name}: {by_judge}, corrected {_points(value)} points "
            f"(95 % CI {_points(low)}..{_points(high)}; {counts}) -> {SHOWN[word]}"
        )
    return CorrectedChange(
        measure=item.measure,
        raw=raw,
        value=value,
        low=low,
        high=high,
        baseline_labels=item.labels[0],
        candidate_labels=item.labels[1],
        paired_labels=item.paired,
        raw_word=raw_word,
        word=word,
        why_not=item.why_not if word is None else None,
        line=line,
    )


def _points(value: float | None) -> str:
    return "unknown" if value is None else f"{value:+.1f}"


def _word(estimate: CorrectedEstimate, limits: ComparisonConfig, labels: tuple[int, int]) -> Word:
    """The word of the statistics for a corrected change, in points, by the same margin and alpha.

    The p-value is one-sided and that of the shown interval, so that the two never contradict each
    other; Bonferroni over the gating measures, as the others have no corrected p-value.
    """
    value, low, high = (100 * n for n in (estimate.value, estimate.low, estimate.high))
    error = (high - low) / 2 / z_of(CONFIDENCE)
    center = (high + low) / 2
    two_sided = float(2 * ndtr(-abs(center) / error)) if error > 0 else 1.0
    adjusted = min(1.0, two_sided / 2 * len(set(limits.gating)))
    if limits.alpha < 1 - CONFIDENCE:  # the interval at 1 - alpha is wider than that at 95 %
        half = z_of(1 - limits.alpha) * error
        low, high = center - half, center + half
    clusters = max(MIN_CLUSTERS, min(labels))  # fewer clusters give no estimate
    effect = Effect(value, error, ValueInterval(low, high), two_sided, "t", min(labels), clusters)
    return decide(effect, adjusted, limits.margin, limits.alpha)


def _ending(
    verdict: ComparisonVerdict, known: Mapping[str, CorrectedChange], limits: ComparisonConfig
) -> CorrectedEnding | None:
    """How the comparison ends with the corrected pass rate; `None` where that cannot be said."""
    pass_rate = known.get(PASS_RATE)
    if pass_rate is None or verdict.ending == "not_comparable":
        return None
    # A run under its coverage says nothing about the agent, whatever its labels are.
    if verdict.doubts and verdict.ending != "regressed":
        return "inconclusive"
    if verdict.mode == "statistics" and verdict.statistics is not None:
        statistics = verdict.statistics
        by_judge = {each.measure: each.verdict for each in statistics.metrics}
        words: list[Word] = [
            known[name].word or word if name in known else word for name, word in by_judge.items()
        ]
        # Labels of a measure settle neither a critical case that turned nor a doubt about the runs,
        # and each of them counts even where the judge's word for a measure is the same.
        lines = {measure.line for measure in statistics.metrics}
        lines |= {bridge.line for bridge in statistics.bridge}
        if statistics.critical_flips:
            words.append("regressed")
        elif not lines.issuperset(statistics.reasons):  # the other reasons are doubts
            words.append("inconclusive")
        word = min(words, key=ORDER.index, default="inconclusive")
        return (
            "regressed"
            if word == "regressed"
            else "inconclusive"
            if word == "inconclusive"
            else "fine"
        )
    others = [reason for reason in verdict.reasons if not reason.startswith(PASS_RATE_REASON)]
    return "regressed" if others or _fell(pass_rate, limits) else "fine"


def _fell(change: CorrectedChange, limits: ComparisonConfig) -> bool:
    """Whether the rule about the pass rate fires: over its limit, and the interval is below 0."""
    if change.value is None or change.high is None:
        return False
    return change.high < 0 and exceeds(-change.value / 100, limits.max_pass_rate_drop)


def _why_not(verdict: ComparisonVerdict, changes: Sequence[CorrectedChange]) -> str:
    if verdict.ending == "not_comparable":
        return "the runs were judged differently; labels are compared only where that is allowed"
    reasons = [change.why_not for change in changes if change.measure == PASS_RATE]
    return reasons[0] or "unknown" if reasons else "no label of the verdict counts for these runs"


def _sentence(
    verdict: ComparisonVerdict,
    changes: Sequence[CorrectedChange],
    ending: CorrectedEnding | None,
) -> str | None:
    """What the labels say against the judge, with numbers; `None` where nothing differs.

    An uncertain corrected change contradicts a sure change by the judge, but not a `not worse`:
    few labels alone are no contradiction.
    """
    sure = ("regressed", "improved")
    against = [
        change
        for change in changes
        if change.word is not None
        and change.raw_word is not None
        and change.word != change.raw_word
        and (change.raw_word in sure or change.word in sure)
    ]
    turned = ending is not None and ending not in (verdict.ending, "inconclusive")
    if turned and not against:
        against = [change for change in changes if change.measure == PASS_RATE]
    if not against:
        return None
    lines = "; ".join(
        change.line
        if change.raw_word is None
        else f"{change.line} (judge: {SHOWN[change.raw_word]})"
        for change in against
    )
    end = f" By the labels the comparison ends {ending}, " if turned else ""
    end += f"by the judge {verdict.ending.replace('_', ' ')}." if turned else ""
    return f"Labels of people say something else than the judge: {lines}.{end}"


def _decided(verdict: ComparisonVerdict, line: str, ending: CorrectedEnding) -> ComparisonVerdict:
    """The verdict that ends by the corrected numbers, with these as its first reason."""
    others = tuple(r for r in verdict.reasons if not r.startswith(PASS_RATE_REASON))
    reason = f"by labels of people: {line}"
    statistics = verdict.statistics
    if statistics is not None:
        update = {"reasons": (reason, *statistics.reasons)}
        statistics = statistics.model_copy(update=update)
    reasons = (reason, *others) if ending == "regressed" else others
    return verdict.model_copy(
        update={"ending": ending, "reasons": reasons, "statistics": statistics}
    )
