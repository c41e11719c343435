"""The statistical verdict on two runs: regressed, improved, not worse, or inconclusive.

All figures are in points of 0..100. The three rules of seed 001 (`assizes.judge.comparison.rules`)
stay as they are; this verdict stands beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Final

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.comparison.contrasts import FILLINGS, Contrast, contrast
from assizes.judge.comparison.measures import SCORE
from assizes.judge.comparison.runs import Mismatch
from assizes.judge.comparison.statistical import (
    Exploratory,
    StatisticalComparison,
    exploratory_changes,
)
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.statistics.clusters import MIN_CLUSTERS
from assizes.judge.statistics.effects import Effect, Method, Word, combined_word, decide
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.multiplicity import holm
from assizes.judge.statistics.power import minimum_detectable

LABELS: Final = {"pass_rate": "pass rate", "overall_score": "average score"}
"""The name of a measure in sentences; any other measure keeps its own name."""

SHOWN: Final = {
    "regressed": "regressed",
    "not_worse": "not worse",
    "inconclusive": "inconclusive",
    "improved": "improved",
}
"""The text of each verdict in reports."""

_INCONCLUSIVE: Final[Word] = "inconclusive"


class _VerdictPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class MetricVerdict(_VerdictPart):
    """The verdict on one gating measure, with its values in both runs and how it changed.

    `low` and `high` bound the change at the confidence 1 - alpha; both are `None` where there are
    too few clusters. `worst` and `best` are the change if every missing score had gone against the
    candidate, or in its favour.
    """

    measure: str
    verdict: Word
    baseline: float
    candidate: float
    delta: float
    low: float | None
    high: float | None
    worst: float
    best: float
    p_value: float = Field(description="two-sided, of this measure alone")
    p_adjusted: float = Field(
        description="one-sided, of a change this way; Holm over the gating measures"
    )
    method: Method
    paired: bool
    cases: int
    clusters: int
    baseline_coverage: float = Field(description="scored / due, 0..1")
    candidate_coverage: float
    mde: float | None = Field(
        description="smallest change that 4 of 5 such comparisons would see; null: not known"
    )
    severe: bool = Field(description="the whole interval lies under -margin")
    line: str


class Mix(_VerdictPart):
    """The change of a measure between different cases, split by what it is owed to."""

    measure: str
    by: str
    total: float
    quality: float = Field(description="what the strata did, at the shares of both runs averaged")
    mix: float = Field(description="what the strata's shares did")
    strata: int


class Noise(_VerdictPart):
    """How much a score moves by chance, measured on the repetitions of a case."""

    repeat_sd: float
    threshold: float = Field(description="max(5, 2 x repeat_sd): moves up to it are within noise")
    changed_within: tuple[str, ...] = Field(
        description="ids of the cases that count as changed, but within noise"
    )


class Bridge(_VerdictPart):
    """The change of a measure between runs with different judges, without the judges' difference."""

    measure: str
    judge: float = Field(description="what that judge gives more, on anchors that both judged")
    delta: float = Field(description="the change without it")
    low: float
    high: float
    anchors: int
    line: str


class StatisticalVerdict(_VerdictPart):
    """The verdict on the agent from two runs; the chance of a false alarm is at most alpha."""

    verdict: Word
    reasons: tuple[str, ...]
    margin: float
    alpha: float
    metrics: tuple[MetricVerdict, ...]
    exploratory: tuple[Exploratory, ...] = ()
    mix: tuple[Mix, ...] = ()
    critical_flips: tuple[str, ...] = ()
    bridge: tuple[Bridge, ...] = Field(
        default=(), description="where the judge differs, and both judged the same anchors"
    )
    noise: Noise | None = Field(default=None, description="null: no case was repeated")


def verdict_line(verdict: MetricVerdict, alpha: float) -> str:
    """Write the report line of a measure.

    The line holds both values, the change with its interval, the number of cases behind the change,
    and the verdict.
    """
    name = LABELS.get(verdict.measure, verdict.measure)
    unit = " %" if verdict.measure == "pass_rate" else ""
    if verdict.low is None or verdict.high is None:
        span = "no interval"
    else:
        span = f"{100 * (1 - alpha):g} % CI {verdict.low:+.1f}..{verdict.high:+.1f}"
    how = "paired" if verdict.paired else "unpaired"
    coverage = f"{100 * verdict.baseline_coverage:.1f}/{100 * verdict.candidate_coverage:.1f} %"
    mde = "unknown" if verdict.mde is None else f"{verdict.mde:.1f}"
    return (
        f"{name} {verdict.baseline:.1f}{unit} -> {verdict.candidate:.1f}{unit} ({verdict.delta:+.1f}; "
        f"{span}; {how} {verdict.cases} cases / {verdict.clusters} clusters; coverage {coverage}; "
        f"MDE {mde}) -> {SHOWN[verdict.verdict]}"
    )


def statistical_verdict(
    comparison: StatisticalComparison, differing: Sequence[Mismatch] = ()
) -> StatisticalVerdict:
    """Decide on two runs.

    Args:
        comparison: the runs with their gating metrics.
        differing: the differences between the runs; where the judges differ, the verdict is
            inconclusive, because a change need not be the agent's.
    """
    limits = comparison.limits
    contrasts, absent = _contrasts(comparison)
    metrics = _metric_verdicts(contrasts, limits)
    doubts = list(_doubts(comparison, differing))
    critical = () if doubts else critical_flips(*comparison.tables, limits.critical_cases)
    notes = [*absent, *_too_few(comparison)]
    words = [metric.verdict for metric in metrics] + [_INCONCLUSIVE for _ in notes]
    word = _INCONCLUSIVE if doubts else "regressed" if critical else worst_of(words)
    return StatisticalVerdict(
        verdict=word,
        reasons=(*doubts, *notes, *_reasons(word, metrics, critical)),
        margin=limits.margin,
        alpha=limits.alpha,
        metrics=metrics,
        exploratory=exploratory_changes(comparison),
        mix=tuple(_mixes(contrasts, limits)),
        critical_flips=critical,
    )


def _contrasts(comparison: StatisticalComparison) -> tuple[list[Contrast], list[str]]:
    """The contrasts of the gating measures, and a sentence for each that could not be compared."""
    contrasts, absent = [], []
    for name in dict.fromkeys(comparison.limits.gating):
        sides = [side.measure(name) for side in (comparison.before, comparison.after)]
        if name == SCORE and all(side is not None and side.cases.is_empty() for side in sides):
            continue  # judges that only say yes or no give no score
        before, after = sides
        measure_contrast = None
        if before is not None and after is not None:
            measure_contrast = contrast(before, after, comparison.pairing, comparison.limits.alpha)
        if measure_contrast is None or measure_contrast.effects["point"] is None:
            absent.append(f"{LABELS.get(name, name)}: no case has it in both runs")
        else:
            contrasts.append(measure_contrast)
    return contrasts, absent


def _metric_verdicts(
    contrasts: Sequence[Contrast], limits: ComparisonConfig
) -> tuple[MetricVerdict, ...]:
    """The verdict on each measure: decided for each filling by itself, then combined into one."""
    words: list[list[Word]] = [[] for _ in contrasts]
    adjusted: dict[str, list[float]] = {}
    for filling in FILLINGS:
        effects = [_effect(measure_contrast, filling) for measure_contrast in contrasts]
        adjusted[filling] = _adjusted_p_values(effects)
        for place, (effect, p_value) in enumerate(zip(effects, adjusted[filling], strict=True)):
            words[place].append(decide(effect, p_value, limits.margin, limits.alpha))
    return tuple(
        _metric_verdict(measure_contrast, combined_word(*three), p_value, limits)
        for measure_contrast, three, p_value in zip(
            contrasts, words, adjusted["point"], strict=True
        )
    )


def _adjusted_p_values(effects: Sequence[Effect]) -> list[float]:
    """One-sided p-values after Holm: those of drops corrected among drops, of rises among rises.

    The chance of any false regression over all measures is at most alpha, and so is the chance of
    any false improvement.
    """
    halves = [effect.p_value / 2 for effect in effects]
    fell = [effect.delta < 0 for effect in effects]
    drops = holm([p if down else 1 - p for p, down in zip(halves, fell, strict=True)])
    rises = holm([1 - p if down else p for p, down in zip(halves, fell, strict=True)])
    return [drop if down else rise for drop, rise, down in zip(drops, rises, fell, strict=True)]


def _effect(measure_contrast: Contrast, filling: str) -> Effect:
    effect = measure_contrast.effects[filling] or measure_contrast.effects["point"]
    assert effect is not None
    return effect


def _metric_verdict(
    measure_contrast: Contrast, word: Word, p_adjusted: float, limits: ComparisonConfig
) -> MetricVerdict:
    effect = _effect(measure_contrast, "point")
    verdict = MetricVerdict(
        measure=measure_contrast.measure.name,
        verdict=word,
        baseline=rounded_value(measure_contrast.means[0]),
        candidate=rounded_value(measure_contrast.means[1]),
        delta=rounded_value(effect.delta),
        low=_finite(effect.span.low),
        high=_finite(effect.span.high),
        worst=rounded_value(_effect(measure_contrast, "worst").delta),
        best=rounded_value(_effect(measure_contrast, "best").delta),
        p_value=rounded_value(effect.p_value),
        p_adjusted=rounded_value(p_adjusted),
        method=effect.method,
        paired=effect.method != "welch",
        cases=effect.cases,
        clusters=effect.clusters,
        baseline_coverage=rounded_value(measure_contrast.coverage[0]),
        candidate_coverage=rounded_value(measure_contrast.coverage[1]),
        mde=_finite(minimum_detectable(effect.error, limits.alpha)),
        severe=word == "regressed" and effect.span.high < -limits.margin,
        line="",
    )
    return verdict.model_copy(update={"line": verdict_line(verdict, limits.alpha)})


def _finite(value: float) -> float | None:
    return rounded_value(value) if isfinite(value) else None


def critical_flips(
    before: pl.DataFrame, after: pl.DataFrame, listed: Sequence[str]
) -> tuple[str, ...]:
    """Ids of listed cases that most repetitions passed in the baseline and most now fail.

    An execution with an error did not fail.

    Args:
        before: the case table of the baseline.
        after: the case table of the candidate.
        listed: ids of the critical cases.
    """
    if not listed:
        return ()
    ids = dict(zip(pl.Series(listed).hash(), listed, strict=True))
    passed = pl.col("passes") * 2 > pl.col("runs")
    failed = (pl.col("runs") - pl.col("passes") - pl.col("errors")) * 2 > pl.col("runs")
    old = before.filter(pl.col("case_id").is_in(list(ids)) & passed)
    turned = old.join(after.filter(failed), on="case_id", how="semi")["case_id"]
    return tuple(sorted(ids[case_hash] for case_hash in turned))


def _doubts(comparison: StatisticalComparison, differing: Sequence[Mismatch]) -> Iterator[str]:
    """The reasons why the runs say nothing about the agent, whatever the numbers are."""
    if names := [mismatch.field for mismatch in differing if mismatch.of_judge]:
        yield (
            f"the runs were judged differently ({', '.join(names)}): "
            "a change need not be the agent's"
        )
    for role, side in (("baseline", comparison.before), ("candidate", comparison.after)):
        if side.inconclusive:
            yield f"the {role} run is inconclusive by itself"


def _too_few(comparison: StatisticalComparison) -> Iterator[str]:
    fewest = min(
        table.height if comparison.is_unclustered else table["cluster"].n_unique()
        for table in comparison.tables
    )
    if fewest < MIN_CLUSTERS:
        yield f"too few independent cases: {fewest}, and a verdict takes {MIN_CLUSTERS}"


def worst_of(words: Sequence[Word]) -> Word:
    """Combine the verdicts on all gating measures: the first of regressed, inconclusive, improved.

    The result is `not_worse` where no measure has any of these, and `inconclusive` where there is
    no measure.
    """
    if "regressed" in words:
        return "regressed"
    if not words or _INCONCLUSIVE in words:
        return _INCONCLUSIVE
    return "improved" if "improved" in words else "not_worse"


def _reasons(
    word: Word, metrics: Sequence[MetricVerdict], critical: Sequence[str]
) -> tuple[str, ...]:
    flips = [f"critical case {case_id} turned from pass to fail" for case_id in critical]
    return (*flips, *(metric.line for metric in metrics if metric.verdict == word))


def _mixes(contrasts: Sequence[Contrast], limits: ComparisonConfig) -> list[Mix]:
    return [
        Mix(
            measure=measure_contrast.measure.name,
            by=limits.mix_by or "",
            total=rounded_value(measure_contrast.mix.quality + measure_contrast.mix.mix),
            quality=rounded_value(measure_contrast.mix.quality),
            mix=rounded_value(measure_contrast.mix.mix),
            strata=measure_contrast.strata,
        )
        for measure_contrast in contrasts
        if measure_contrast.mix is not None
    ]
