"""What moved most between two runs: metrics, slices of the cases, failure codes.

Nothing is decided by it. The p-values of everything looked at are corrected together after
Benjamini and Hochberg.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

import polars as pl

from assizes.judge.comparison.contrasts import Pairing, differences, in_points, side_samples
from assizes.judge.comparison.counted_metrics import CountedMetric, counted_moves
from assizes.judge.comparison.labels import TOOL, by_tool, case_labels
from assizes.judge.comparison.measures import CaseMeasure
from assizes.judge.comparison.paired_metrics import align_cases
from assizes.judge.comparison.statistical_verdict import Exploratory
from assizes.judge.statistics.clusters import MIN_CLUSTERS, Sample
from assizes.judge.statistics.effects import Effect
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.multiplicity import benjamini_hochberg
from assizes.judge.statistics.paired import plain_effect
from assizes.judge.statistics.unpaired import unpaired_effect
from assizes.judge.verdicts.executions import collect_rows

MAX_KEPT: Final = 200
MAX_CODES: Final = 20
CASES_OF_A_CODE: Final = 5
"""A failure code seen on fewer cases of both runs together is left out."""

Kind = Literal["metric", "slice", "failure_code"]
Sides = tuple[CaseMeasure, CaseMeasure]
Tables = tuple[pl.DataFrame, pl.DataFrame]


class MeasuredChange(NamedTuple):
    """What one measure, slice or code came to."""

    kind: Kind
    name: str
    measure: str
    means: tuple[float, float]
    effect: Effect


def metric_change(sides: Sides, pairing: Pairing, alpha: float) -> MeasuredChange | None:
    """A metric that does not gate; null where it says nothing."""
    return _measured_change("metric", sides[0].name, sides, pairing, alpha)


def counted_change(metric: CountedMetric, alpha: float) -> MeasuredChange | None:
    """The same of a metric whose values are counted."""
    moves = counted_moves(metric)
    if moves is None or moves.moved.clusters < MIN_CLUSTERS:
        return None
    effect = plain_effect(moves.moved, 1 - alpha, share=moves.share)
    shown = in_points(effect) if moves.share else effect
    return MeasuredChange("metric", metric.name, metric.name, moves.means, shown)


def slice_changes(
    measures: Sequence[Sides], tables: Tables, fields: Sequence[str], pairing: Pairing, alpha: float
) -> Iterator[MeasuredChange]:
    """Measures over the cases with one value of a field or tag, by that of the baseline's case.

    Slices by tool overlap: a case is in that of every tool it called.
    """
    for field in fields:
        for value, ids in _slices(tables, field, paired=pairing.is_paired):
            for sides in measures:
                cut = [
                    measure.cases.join(at, on="case_id", how="semi")
                    for measure, at in zip(sides, ids, strict=True)
                ]
                part = (sides[0]._replace(cases=cut[0]), sides[1]._replace(cases=cut[1]))
                if change := _measured_change("slice", f"{field}={value}", part, pairing, alpha):
                    yield change


def _slices(
    tables: Tables, field: str, *, paired: bool
) -> Iterator[tuple[str, Sequence[pl.DataFrame]]]:
    """The values that both runs have, each with its cases on both sides."""
    if field == TOOL:
        yield from by_tool(tables, paired=paired)
        return
    labels = [case_labels(table, field).drop_nulls() for table in tables]
    if paired:
        labels[1] = labels[0]
    for value in sorted(set(labels[0]["label"]) & set(labels[1]["label"])):
        yield value, [side.filter(pl.col("label") == value) for side in labels]


def code_changes(
    scores: tuple[pl.LazyFrame, pl.LazyFrame], tables: Tables, pairing: Pairing, alpha: float
) -> Iterator[MeasuredChange]:
    """The share of cases on which a failure code was given; more is worse."""
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
    """One look; null where either side has too few clusters to say anything."""
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


def ranked_changes(changes: Sequence[MeasuredChange], alpha: float) -> tuple[Exploratory, ...]:
    """The looks with their corrected p-values: the surest first, of equal ones the largest."""
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
