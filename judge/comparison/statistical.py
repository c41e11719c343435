"""Two runs as the statistics compare them, and everything exploratory that moved between them.

`StatisticalComparison` collects the metrics of both runs one by one: it keeps the metrics that gate,
and of all others only how they changed. What moved most among metrics, slices of the cases and
failure codes is exploratory: nothing is decided by it, and the p-values of everything looked at are
corrected together after Benjamini and Hochberg.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Final, Literal, NamedTuple

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.comparison.contrasts import Pairing, differences, in_points, side_samples
from assizes.judge.comparison.measures import (
    PASS_RATE,
    SCORE,
    CaseMeasure,
    CaseTable,
    case_labels,
    case_table,
    fields_of,
    label_slices,
    metric_measure,
    pass_measure,
    score_measure,
)
from assizes.judge.comparison.metrics import (
    CountedMetric,
    MetricAggregate,
    Names,
    PairedMetric,
    Scores,
    align_cases,
    counted_aggregate,
    counted_metrics,
    counted_moves,
    metric_aggregate,
    paired_metrics,
)
from assizes.judge.comparison.rules import PairedCases
from assizes.judge.comparison.runs import RunData, RunPair
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.statistics.clusters import MIN_CLUSTERS, Sample
from assizes.judge.statistics.effects import Effect
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.multiplicity import benjamini_hochberg
from assizes.judge.statistics.paired import plain_effect
from assizes.judge.statistics.unpaired import unpaired_effect
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


class Exploratory(BaseModel):
    """The change of a metric, of a slice or of a failure code; nothing is decided by it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    name: str
    measure: str
    baseline: float
    candidate: float
    delta: float
    low: float | None
    high: float | None
    p_value: float
    q_value: float = Field(description="Benjamini-Hochberg, over everything exploratory")
    cases: int
    clusters: int
    moved: bool = Field(description="q_value is at most alpha")


class MeasuredChange(NamedTuple):
    """The change of one measure, in points, before the p-values are corrected.

    Attributes:
        kind: what was looked at.
        name: the name of the metric or code, or `field=value` of a slice.
        measure: the name of the measure.
        means: of the baseline and of the candidate.
        effect: the change.
    """

    kind: Kind
    name: str
    measure: str
    means: tuple[float, float]
    effect: Effect


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run as the statistics look at it.

    Attributes:
        table: the case table.
        measures: the gating metrics by their published names.
        scores: rows of table `scores`.
        inconclusive: whether the outcome of the run itself is inconclusive.
    """

    table: CaseTable
    measures: dict[str, CaseMeasure]
    scores: pl.LazyFrame
    inconclusive: bool

    @classmethod
    def of(cls, run: RunData) -> ComparedRun:
        """Build the case table of a run; its measures are empty at first."""
        return cls(
            table=case_table(run.cases),
            measures={},
            scores=run.scores,
            inconclusive=run.summary is not None and run.summary.outcome == "inconclusive",
        )

    def measure(self, name: str) -> CaseMeasure | None:
        """The measure of this name; `None` where the run has none.

        Pass rate and score are computed from the cases at each call, because each takes 40 MB for a
        million cases.
        """
        if name == PASS_RATE:
            return pass_measure(self.table.cases)
        return score_measure(self.table.cases) if name == SCORE else self.measures.get(name)


@dataclass(frozen=True, slots=True)
class StatisticalComparison:
    """Two runs and their metrics for the statistical verdict.

    Attributes:
        before: the baseline.
        after: the candidate.
        pairing: how the cases of the two runs belong together.
        limits: the settings of [comparison].
        changes: the changes of the metrics that do not gate, in the order in which they were added.
    """

    before: ComparedRun
    after: ComparedRun
    pairing: Pairing
    limits: ComparisonConfig
    changes: list[MeasuredChange] = field(default_factory=list)

    @classmethod
    def of(
        cls, baseline: RunData, candidate: RunData, limits: ComparisonConfig
    ) -> StatisticalComparison:
        """Pair two runs without their metrics, which are added one by one."""
        before, after = ComparedRun.of(baseline), ComparedRun.of(candidate)
        tables = (before.table.cases, after.table.cases)
        labels = None
        if limits.mix_by is not None:
            labels = (case_labels(tables[0], limits.mix_by), case_labels(tables[1], limits.mix_by))
        return cls(before, after, Pairing.of(*tables, labels), limits)

    def add(self, metric: PairedMetric) -> None:
        """Add a metric: keep its measures where it gates, else only its change."""
        gating = metric.name in self.limits.gating
        before = metric_measure(metric.name, metric.before, whole=gating)
        after = metric_measure(metric.name, metric.after, whole=gating)
        if gating:
            for side, measure in ((self.before, before), (self.after, after)):
                if measure is not None:
                    side.measures.setdefault(metric.name, measure)
        elif before is not None and after is not None:
            self._note(
                _measured_change(
                    "metric", metric.name, (before, after), self.pairing, self.limits.alpha
                )
            )

    def add_counted(self, metric: CountedMetric) -> None:
        """Add the change of a metric whose values are counted, and which does not gate."""
        self._note(_counted_change(metric, self.limits.alpha))

    @property
    def is_unclustered(self) -> bool:
        """Whether every case of both runs is its own cluster."""
        return all(bool((table["cluster"] == table["case_id"]).all()) for table in self.tables)

    @property
    def tables(self) -> Tables:
        """The case tables of both runs."""
        return self.before.table.cases, self.after.table.cases

    @property
    def repeat_sd(self) -> float | None:
        """Standard deviation of a case's score over its repetitions; `None` when none was repeated."""
        tables = (self.before.table, self.after.table)
        degrees = sum(table.degrees for table in tables)
        return sqrt(sum(table.squares for table in tables) / degrees) if degrees else None

    def _note(self, change: MeasuredChange | None) -> None:
        if change is not None:
            self.changes.append(change)


def compared_metrics(
    runs: RunPair, names: Names, cases: PairedCases, statistics: StatisticalComparison | None
) -> list[MetricAggregate]:
    """The averages of every metric, sorted by name; each metric is added to `statistics` as well.

    Metrics are counted where counts are enough, else joined case by case.
    """
    aggregates: list[MetricAggregate | None] = []
    counted = _countable_metrics(runs, names, cases, statistics)
    for metric in counted:
        aggregates.append(counted_aggregate(metric))
        if statistics is not None:
            statistics.add_counted(metric)
    done = {metric.name for metric in counted}
    left = {key: name for key, name in names.items() if name not in done}
    for pair in paired_metrics(runs.scores, left, repeated=cases.repeated):
        aggregates.append(metric_aggregate(pair, cases))
        if statistics is not None:
            statistics.add(pair)
    return sorted(
        (aggregate for aggregate in aggregates if aggregate is not None),
        key=lambda aggregate: aggregate.metric,
    )


def _countable_metrics(
    runs: RunPair, names: Names, cases: PairedCases, statistics: StatisticalComparison | None
) -> list[CountedMetric]:
    """The metrics for which counts are enough: none gates, and no case is repeated or clustered."""
    plain = not cases.repeated and cases.keys is None
    if not plain or (statistics is not None and not statistics.is_unclustered):
        return []
    gating = () if statistics is None else statistics.limits.gating
    wanted = {key: name for key, name in names.items() if name not in gating}
    return counted_metrics(runs.scores, wanted, sliceable=runs.is_sliceable) or []


def exploratory_changes(comparison: StatisticalComparison) -> tuple[Exploratory, ...]:
    """Everything that moved and does not gate, with corrected p-values, the surest change first."""
    tables, pairing = comparison.tables, comparison.pairing
    limits = comparison.limits
    fields = fields_of(tables[0]) if limits.slices is None else limits.slices
    scores = (comparison.before.scores, comparison.after.scores)
    changes = [
        *comparison.changes,
        *_slice_changes(tables, fields, pairing, limits.alpha),
        *_code_changes(scores, tables, pairing, limits.alpha),
    ]
    return _ranked_changes(changes, limits.alpha)


def _counted_change(metric: CountedMetric, alpha: float) -> MeasuredChange | None:
    moves = counted_moves(metric)
    if moves is None or moves.moved.clusters < MIN_CLUSTERS:
        return None
    effect = plain_effect(moves.moved, 1 - alpha, share=moves.share)
    shown = in_points(effect) if moves.share else effect
    return MeasuredChange("metric", metric.name, metric.name, moves.means, shown)


def _slice_changes(
    tables: Tables, fields: Sequence[str], pairing: Pairing, alpha: float
) -> Iterator[MeasuredChange]:
    """Pass rate and score over the cases with one value of a field or tag.

    A paired case has the value of the baseline's case. Slices by tool overlap: a case is in the
    slice of every tool that it called.
    """
    if not fields:
        return
    before, after = tables
    measures: tuple[Sides, ...] = (
        (pass_measure(before), pass_measure(after)),
        (score_measure(before), score_measure(after)),
    )
    for field_name in fields:
        for value, ids in label_slices(tables, field_name, paired=pairing.is_paired):
            for sides in measures:
                cut = [
                    measure.cases.join(at, on="case_id", how="semi")
                    for measure, at in zip(sides, ids, strict=True)
                ]
                part = (sides[0]._replace(cases=cut[0]), sides[1]._replace(cases=cut[1]))
                name = f"{field_name}={value}"
                if change := _measured_change("slice", name, part, pairing, alpha):
                    yield change


def _code_changes(
    scores: Scores, tables: Tables, pairing: Pairing, alpha: float
) -> Iterator[MeasuredChange]:
    """The share of cases that have a failure code, for each frequent code; more is worse."""
    code_cases = [_codes(side) for side in scores]
    counted = pl.concat(code_cases).group_by("failure_code").agg(cases=pl.len())
    often = counted.filter(pl.col("cases") >= CASES_OF_A_CODE)
    ranked = often.sort("cases", "failure_code", descending=[True, False])
    for code in ranked["failure_code"][:MAX_CODES]:
        sides = [_share_with(code, *pair) for pair in zip(code_cases, tables, strict=True)]
        if change := _measured_change("failure_code", code, (sides[0], sides[1]), pairing, alpha):
            yield change


def _codes(scores: pl.LazyFrame) -> pl.DataFrame:
    coded = scores.filter(pl.col("part") == "").drop_nulls("failure_code")
    return collect_rows(coded.select("failure_code", pl.col("case_id").hash()).unique())


def _share_with(code: str, code_cases: pl.DataFrame, table: pl.DataFrame) -> CaseMeasure:
    ids = code_cases.filter(pl.col("failure_code") == code)["case_id"]
    has = pl.col("case_id").is_in(ids.implode()).cast(pl.Float64) * 100
    return CaseMeasure("share of cases", share=True, cases=table.select("case_id", point=has))


def _measured_change(
    kind: Kind, name: str, sides: Sides, pairing: Pairing, alpha: float
) -> MeasuredChange | None:
    """The change of a measure; `None` where a run has fewer than `MIN_CLUSTERS` clusters."""
    share = sides[0].share
    if pairing.is_paired:
        moved = differences(*sides, pairing)
        if moved.clusters < MIN_CLUSTERS:
            return None
        shares = Sample(moved.values / 100, moved.codes) if share else moved
        effect = plain_effect(shares, 1 - alpha, share=share)
    else:
        samples = side_samples(sides, pairing, "point")
        if min(sample.clusters for sample in samples) < MIN_CLUSTERS:
            return None
        effect = unpaired_effect(*samples, 1 - alpha, share=share)
    return MeasuredChange(
        kind, name, sides[0].name, _means(sides, pairing), in_points(effect) if share else effect
    )


def _means(sides: Sides, pairing: Pairing) -> tuple[float, float]:
    before, after = (side.cases.select("case_id", "point").drop_nulls() for side in sides)
    if pairing.is_paired:
        both = align_cases(before, after)
        return float(both["point"].to_numpy().mean()), float(both["point_after"].to_numpy().mean())
    return float(before["point"].to_numpy().mean()), float(after["point"].to_numpy().mean())


def _ranked_changes(changes: Sequence[MeasuredChange], alpha: float) -> tuple[Exploratory, ...]:
    """The changes with corrected p-values: the surest first, and of equally sure ones the largest."""
    corrected = benjamini_hochberg([change.effect.p_value for change in changes])
    results = [
        _exploratory_row(change, q, alpha) for change, q in zip(changes, corrected, strict=True)
    ]
    results.sort(
        key=lambda result: (
            result.q_value,
            -abs(result.delta),
            result.kind,
            result.name,
            result.measure,
        )
    )
    return tuple(results[:MAX_KEPT])


def _exploratory_row(change: MeasuredChange, q_value: float, alpha: float) -> Exploratory:
    effect = change.effect
    return Exploratory(
        kind=change.kind,
        name=change.name,
        measure=change.measure,
        baseline=rounded_value(change.means[0]),
        candidate=rounded_value(change.means[1]),
        delta=rounded_value(effect.delta),
        low=rounded_value(effect.span.low),
        high=rounded_value(effect.span.high),
        p_value=rounded_value(effect.p_value),
        q_value=rounded_value(q_value),
        cases=effect.cases,
        clusters=effect.clusters,
        moved=q_value <= alpha,
    )
