"""Two runs as the statistics compare them, and everything exploratory that moved between them.

What moved most among metrics that do not gate, slices of the cases and failure codes is
exploratory: nothing is decided by it, and the p-values of all of it are corrected together
(Benjamini and Hochberg).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import sqrt
from typing import Final, Literal, NamedTuple

import polars as pl
from pydantic import Field

from assizes.judge.comparison import contrasts, metrics, runs
from assizes.judge.comparison.cases import PairedCases
from assizes.judge.comparison.contrasts import Pairing
from assizes.judge.comparison.metrics import CountedMetric, MetricAggregate, Names, PairedMetric
from assizes.judge.comparison.runs import PASS_RATE, SCORE, CaseMeasure, CaseTable, RunData
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.statistics import effects
from assizes.judge.statistics.effects import Effect
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.intervals import MIN_CLUSTERS, Sample
from assizes.judge.summary.headlines import FrozenModel
from assizes.judge.verdicts.executions import collect_rows

MAX_KEPT: Final = 200
"""The most exploratory changes that are stored: those with the smallest q-values."""

MAX_CODES: Final = 20
"""The most failure codes that are looked at: the most frequent ones."""

CASES_OF_A_CODE: Final = 5
"""A failure code that occurs on fewer cases of both runs together is left out."""

Kind = Literal["metric", "slice", "failure_code"]
Sides = tuple[CaseMeasure, CaseMeasure]
"""A measure of the baseline and of the candidate."""

Tables = tuple[pl.DataFrame, pl.DataFrame]
"""The case tables of the baseline and of the candidate."""


class Exploratory(FrozenModel):
    """The change of a metric, of a slice or of a failure code; nothing is decided by it."""

    kind: Kind
    name: str  # as in `MeasuredChange`
    measure: str
    baseline: float  # points of 0..100, as all values and bounds below
    candidate: float
    delta: float
    low: float | None
    high: float | None
    p_value: float  # two-sided, not corrected
    q_value: float = Field(description="Benjamini-Hochberg, over everything exploratory")
    cases: int  # of an unpaired change: of the smaller run
    clusters: int
    moved: bool = Field(description="q_value is at most alpha")


class MeasuredChange(NamedTuple):
    """The change of one measure, in points, before the p-values are corrected."""

    kind: Kind
    name: str  # of the metric or the code; `field=value` of a slice
    measure: str
    means: tuple[float, float]  # (baseline, candidate)
    effect: Effect


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run as the statistics look at it."""

    table: CaseTable
    measures: dict[str, CaseMeasure]  # gating metrics by published name; empty at first
    scores: pl.LazyFrame  # rows of table `scores`
    inconclusive: bool  # the outcome of the run by itself

    def measure(self, name: str) -> CaseMeasure | None:
        """The measure of this name; `None` where the run has none."""
        # Computed at each call and not kept: each takes 40 MB for a million cases.
        if name in (PASS_RATE, SCORE):
            return runs.case_measure(name, self.table.cases)
        return self.measures.get(name)


@dataclass(frozen=True, slots=True)
class StatisticalComparison:
    """Two runs, the baseline and the candidate, and their metrics for the statistical verdict."""

    before: ComparedRun
    after: ComparedRun
    tables: Tables
    is_unclustered: bool  # every case is its own cluster
    pairing: Pairing
    limits: ComparisonConfig  # settings of [comparison]
    changes: list[MeasuredChange] = field(default_factory=list)  # of metrics that do not gate

    @classmethod
    def of(
        cls, baseline: RunData, candidate: RunData, limits: ComparisonConfig
    ) -> StatisticalComparison:
        """Pair two runs without their metrics, which are added one by one."""
        before, after = (
            ComparedRun(
                table=runs.case_table(run.cases),
                measures={},
                scores=run.scores,
                inconclusive=run.summary is not None and run.summary.outcome == "inconclusive",
            )
            for run in (baseline, candidate)
        )
        tables = (before.table.cases, after.table.cases)
        alone = all(bool((table["cluster"] == table["case_id"]).all()) for table in tables)
        labels = None
        if (mix_by := limits.mix_by) is not None:
            labels = (runs.case_labels(tables[0], mix_by), runs.case_labels(tables[1], mix_by))
        return cls(before, after, tables, alone, Pairing.of(*tables, labels), limits)

    def add(self, metric: PairedMetric) -> None:
        """Add a metric: keep its measures where it gates, else only its change."""
        gating = metric.name in self.limits.gating
        before = runs.metric_measure(metric.name, metric.before, whole=gating)
        after = runs.metric_measure(metric.name, metric.after, whole=gating)
        if gating:
            for side, measure in ((self.before, before), (self.after, after)):
                if measure is not None:
                    side.measures.setdefault(metric.name, measure)
        elif before is not None and after is not None:
            sides, alpha = (before, after), self.limits.alpha
            self.changes.extend(_changes("metric", metric.name, sides, self.pairing, alpha))

    def add_counted(self, metric: CountedMetric) -> None:
        """Add the change of a metric whose values are counted, and which does not gate."""
        if (moves := metrics.counted_moves(metric)) is None:
            return
        share, means, moved = moves
        if moved.clusters >= MIN_CLUSTERS:
            effect = effects.plain_effect(moved, 1 - self.limits.alpha, share=share)
            shown = contrasts.in_points(effect) if share else effect
            self.changes.append(MeasuredChange("metric", metric.name, metric.name, means, shown))

    @property
    def repeat_sd(self) -> float | None:
        """Standard deviation of a case's score over its repetitions; `None` without repetitions."""
        tables = (self.before.table, self.after.table)
        degrees = sum(table.degrees for table in tables)
        return sqrt(sum(table.squares for table in tables) / degrees) if degrees else None


def compared_metrics(
    both_runs: tuple[RunData, RunData],
    names: Names,
    cases: PairedCases,
    statistics: StatisticalComparison | None,
) -> list[MetricAggregate]:
    """The averages of every metric, sorted by name; each metric is also added to `statistics`."""
    scores = (both_runs[0].scores, both_runs[1].scores)
    counted: list[CountedMetric] = []
    # Counts are enough where no case is repeated or clustered, and for a metric that does not gate.
    unclustered = statistics is None or statistics.is_unclustered
    if not cases.repeated and cases.keys is None and unclustered:
        gating = () if statistics is None else statistics.limits.gating
        wanted = {key: name for key, name in names.items() if name not in gating}
        sliceable = all(run.sliceable for run in both_runs)
        counted = metrics.counted_metrics(scores, wanted, sliceable=sliceable) or []
    aggregates: list[MetricAggregate | None] = []
    for metric in counted:
        aggregates.append(metrics.counted_aggregate(metric))
        if statistics is not None:
            statistics.add_counted(metric)
    done = {metric.name for metric in counted}
    left = {key: name for key, name in names.items() if name not in done}
    for pair in metrics.paired_metrics(scores, left, repeated=cases.repeated):
        aggregates.append(metrics.metric_aggregate(pair, cases))
        if statistics is not None:
            statistics.add(pair)
    known = (aggregate for aggregate in aggregates if aggregate is not None)
    return sorted(known, key=lambda aggregate: aggregate.metric)


def exploratory_changes(comparison: StatisticalComparison) -> tuple[Exploratory, ...]:
    """Everything that moved and does not gate, p-values corrected, the surest change first."""
    alpha, changes = comparison.limits.alpha, list(comparison.changes)
    for kind, name, sides in _slices_and_codes(comparison):
        changes += _changes(kind, name, sides, comparison.pairing, alpha)
    corrected = effects.benjamini_hochberg([change.effect.p_value for change in changes])
    results = [
        Exploratory(
            kind=change.kind,
            name=change.name,
            measure=change.measure,
            baseline=rounded_value(change.means[0]),
            candidate=rounded_value(change.means[1]),
            delta=rounded_value(change.effect.delta),
            low=rounded_value(change.effect.span.low),
            high=rounded_value(change.effect.span.high),
            p_value=rounded_value(change.effect.p_value),
            q_value=rounded_value(q_value),
            cases=change.effect.cases,
            clusters=change.effect.clusters,
            moved=q_value <= alpha,
        )
        for change, q_value in zip(changes, corrected, strict=True)
    ]
    # Of equally sure changes the largest comes first; names settle ties.
    results.sort(key=lambda row: (row.q_value, -abs(row.delta), row.kind, row.name, row.measure))
    return tuple(results[:MAX_KEPT])


def _slices_and_codes(comparison: StatisticalComparison) -> Iterator[tuple[Kind, str, Sides]]:
    """The share of cases with each failure code, and pass rate and score of each slice."""
    tables, slices = comparison.tables, comparison.limits.slices
    code_cases = []
    for run in (comparison.before, comparison.after):
        coded = run.scores.filter(pl.col("part") == "").drop_nulls("failure_code")
        ids_by_code = coded.select("failure_code", pl.col("case_id").hash()).unique()
        code_cases.append(collect_rows(ids_by_code))
    counted = pl.concat(code_cases).group_by("failure_code").agg(cases=pl.len())
    often = counted.filter(pl.col("cases") >= CASES_OF_A_CODE)
    ranked = often.sort("cases", "failure_code", descending=[True, False])
    for code in ranked["failure_code"][:MAX_CODES]:
        before, after = (_share_with(code, *pair) for pair in zip(code_cases, tables, strict=True))
        yield "failure_code", code, (before, after)
    fields = runs.fields_of(tables[0]) if slices is None else slices
    names = (PASS_RATE, SCORE) if fields else ()
    measures = [[runs.case_measure(name, table) for table in tables] for name in names]
    for field_name in fields:
        paired = comparison.pairing.is_paired
        for value, ids in runs.label_slices(tables, field_name, paired=paired):
            for sides in measures:
                before, after = (
                    side._replace(cases=side.cases.join(at, on="case_id", how="semi"))
                    for side, at in zip(sides, ids, strict=True)
                )
                yield "slice", f"{field_name}={value}", (before, after)


def _share_with(code: str, code_cases: pl.DataFrame, table: pl.DataFrame) -> CaseMeasure:
    ids = code_cases.filter(pl.col("failure_code") == code)["case_id"]
    # 100 or 0: the mean over cases is the share in points.
    has = pl.col("case_id").is_in(ids.implode()).cast(pl.Float64) * 100
    return CaseMeasure("share of cases", share=True, cases=table.select("case_id", point=has))


def _changes(
    kind: Kind, name: str, sides: Sides, pairing: Pairing, alpha: float
) -> Iterator[MeasuredChange]:
    """The change of a measure; none where a run has fewer than `MIN_CLUSTERS` clusters."""
    sides = contrasts.on_one_scale(sides)
    share = sides[0].share
    if pairing.is_paired:
        moved = contrasts.differences(contrasts.joined_measures(*sides, pairing), "point")
        if moved.clusters < MIN_CLUSTERS:
            return
        shares = Sample(moved.values / 100, moved.codes) if share else moved
        effect = effects.plain_effect(shares, 1 - alpha, share=share)
    else:
        samples = contrasts.side_samples(sides, pairing, "point")
        if min(sample.clusters for sample in samples) < MIN_CLUSTERS:
            return
        effect = effects.unpaired_effect(*samples, 1 - alpha, share=share)
    before, after = (side.cases.select("case_id", "point").drop_nulls() for side in sides)
    known = (before["point"], after["point"])
    if pairing.is_paired:
        # The means shown are over the cases that the change is about: those with both numbers.
        both = metrics.align_cases(before, after)
        known = (both["point"], both["point_after"])
    means = (float(known[0].to_numpy().mean()), float(known[1].to_numpy().mean()))
    shown = contrasts.in_points(effect) if share else effect
    yield MeasuredChange(kind, name, sides[0].name, means, shown)
