"""Two runs by statistics: regressed, improved, not worse, or what the data cannot tell.

The documents' rules stay as they are (`assizes.judge.comparison.rules`); this verdict stands beside them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite, sqrt
from typing import TYPE_CHECKING, Final

import polars as pl

from assizes.judge.comparison.comparability import Mismatch
from assizes.judge.comparison.contrasts import FILLINGS, Contrast, Pairing, contrast
from assizes.judge.comparison.counted_metrics import CountedMetric
from assizes.judge.comparison.exploratory import (
    MeasuredChange,
    code_changes,
    counted_change,
    metric_change,
    ranked_changes,
    slice_changes,
)
from assizes.judge.comparison.labels import case_labels, fields_of
from assizes.judge.comparison.measures import (
    PASS_RATE,
    SCORE,
    CaseMeasure,
    CaseTable,
    case_table,
    metric_measure,
    pass_measure,
    score_measure,
)
from assizes.judge.comparison.paired_metrics import PairedMetric
from assizes.judge.comparison.statistical_verdict import (
    LABELS,
    Exploratory,
    MetricVerdict,
    Mix,
    StatisticalVerdict,
    verdict_line,
)
from assizes.judge.config.run import ComparisonConfig
from assizes.judge.statistics.clusters import MIN_CLUSTERS
from assizes.judge.statistics.effects import Effect, Word, combined_word, decide
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.multiplicity import holm
from assizes.judge.statistics.power import minimum_detectable

if TYPE_CHECKING:
    from assizes.judge.comparison.compare import RunData

_INCONCLUSIVE: Final[Word] = "inconclusive"


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run as the statistics look at it."""

    table: CaseTable
    measures: dict[str, CaseMeasure]
    scores: pl.LazyFrame
    inconclusive: bool

    @classmethod
    def of(cls, run: RunData) -> ComparedRun:
        """The tables of a run, one row a case."""
        return cls(
            table=case_table(run.cases),
            measures={},
            scores=run.scores,
            inconclusive=run.summary is not None and run.summary.outcome == _INCONCLUSIVE,
        )

    def measure(self, name: str) -> CaseMeasure | None:
        """A measure by its name: two are worked out of the cases whenever they are asked for, since
        of a million cases each takes 40 MB; gating metrics are kept.
        """
        if name == PASS_RATE:
            return pass_measure(self.table.cases)
        return score_measure(self.table.cases) if name == SCORE else self.measures.get(name)


@dataclass(frozen=True, slots=True)
class StatisticalComparison:
    """Both sides and how their cases are held against each other."""

    before: ComparedRun
    after: ComparedRun
    pairing: Pairing
    limits: ComparisonConfig
    looks: list[MeasuredChange] = field(default_factory=list)

    @classmethod
    def of(
        cls, baseline: RunData, candidate: RunData, limits: ComparisonConfig
    ) -> StatisticalComparison:
        """Two runs without their metrics: those are added one by one."""
        before, after = ComparedRun.of(baseline), ComparedRun.of(candidate)
        tables = (before.table.cases, after.table.cases)
        labels = None
        if limits.mix_by is not None:
            labels = (case_labels(tables[0], limits.mix_by), case_labels(tables[1], limits.mix_by))
        return cls(before, after, Pairing.of(*tables, labels), limits)

    def add(self, metric: PairedMetric) -> None:
        """Take a metric in: a gating one is kept, of any other what it came to."""
        gating = metric.name in self.limits.gating
        before = metric_measure(metric.name, metric.before, whole=gating)
        after = metric_measure(metric.name, metric.after, whole=gating)
        if gating:
            for side, measure in ((self.before, before), (self.after, after)):
                if measure is not None:
                    side.measures.setdefault(metric.name, measure)
        elif before is not None and after is not None:
            self._note(metric_change((before, after), self.pairing, self.limits.alpha))

    def add_counted(self, metric: CountedMetric) -> None:
        """Take in a metric that does not gate, by how often its values occur."""
        self._note(counted_change(metric, self.limits.alpha))

    @property
    def is_unclustered(self) -> bool:
        """Whether every case of both runs is its own cluster."""
        return all(bool((table["cluster"] == table["case_id"]).all()) for table in self.tables)

    @property
    def tables(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The case tables of both runs."""
        return self.before.table.cases, self.after.table.cases

    @property
    def repeat_sd(self) -> float | None:
        """Standard deviation of a case's score over its repetitions; null when none was repeated."""
        tables = (self.before.table, self.after.table)
        degrees = sum(table.degrees for table in tables)
        return sqrt(sum(table.squares for table in tables) / degrees) if degrees else None

    def _note(self, look: MeasuredChange | None) -> None:
        if look is not None:
            self.looks.append(look)


def statistical_verdict(
    comparison: StatisticalComparison, differing: Sequence[Mismatch] = ()
) -> StatisticalVerdict:
    """The verdict on two runs.

    Args:
        comparison: the runs.
        differing: what was not alike; where the judge was another one the agent is not blamed.
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
        exploratory=_exploratory(comparison),
        mix=tuple(_mixes(contrasts, limits)),
        critical_flips=critical,
    )


def _contrasts(comparison: StatisticalComparison) -> tuple[list[Contrast], list[str]]:
    """The gating measures, and why one of them could not be compared."""
    contrasts, absent = [], []
    for name in dict.fromkeys(comparison.limits.gating):
        sides = [side.measure(name) for side in (comparison.before, comparison.after)]
        if name == SCORE and all(side is not None and side.cases.is_empty() for side in sides):
            continue  # judges that say yes or no give no score
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
    """Each filling of what is missing is decided on its own, then the three are held together."""
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
    """Holm's p-values, one-sided: of a drop among the drops, of a rise among the rises.

    The chance of any false regression over all measures is held at alpha, and so is that of any
    false improvement.
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
    """The listed cases that most repetitions passed and now most fail; an error is no failure."""
    if not listed:
        return ()
    ids = dict(zip(pl.Series(listed).hash(), listed, strict=True))
    passed = pl.col("passes") * 2 > pl.col("runs")
    failed = (pl.col("runs") - pl.col("passes") - pl.col("errors")) * 2 > pl.col("runs")
    old = before.filter(pl.col("case_id").is_in(list(ids)) & passed)
    turned = old.join(after.filter(failed), on="case_id", how="semi")["case_id"]
    return tuple(sorted(ids[case_hash] for case_hash in turned))


def _doubts(comparison: StatisticalComparison, differing: Sequence[Mismatch]) -> Iterator[str]:
    """Why nothing can be said of the agent, whatever the numbers."""
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
    """One word of all gating measures: any regression, then any doubt, then any improvement."""
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


def _exploratory(comparison: StatisticalComparison) -> tuple[Exploratory, ...]:
    before, after, limits = comparison.before, comparison.after, comparison.limits
    pairing, alpha = comparison.pairing, limits.alpha
    chosen = fields_of(before.table.cases) if limits.slices is None else limits.slices
    whole = (
        [
            (pass_measure(before.table.cases), pass_measure(after.table.cases)),
            (score_measure(before.table.cases), score_measure(after.table.cases)),
        ]
        if chosen
        else []
    )
    looks = [
        *comparison.looks,
        *slice_changes(whole, comparison.tables, chosen, pairing, alpha),
        *code_changes((before.scores, after.scores), comparison.tables, pairing, alpha),
    ]
    return ranked_changes(looks, alpha)


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
