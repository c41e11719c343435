"""What moved most between two runs: metrics, slices of the cases, failure codes.

Nothing is decided by it. The p-values of everything looked at are corrected together after
Benjamini and Hochberg.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Literal, NamedTuple

import polars as pl

from assizes.judge.comparison.contrasts import Pairing, differences, in_points, sampled
from assizes.judge.comparison.counted_metrics import CountedMetric, counted_moves
from assizes.judge.comparison.labels import TOOL, by_tool, labelled
from assizes.judge.comparison.measures import Measure
from assizes.judge.comparison.paired_metrics import aligned
from assizes.judge.comparison.statistical_verdict import Exploratory
from assizes.judge.statistics.clusters import MIN_CLUSTERS, Sample
from assizes.judge.statistics.effects import Effect
from assizes.judge.statistics.exact import rounded
from assizes.judge.statistics.multiplicity import benjamini_hochberg
from assizes.judge.statistics.paired import plain_effect
from assizes.judge.statistics.unpaired import unpaired_effect
from assizes.judge.verdicts.executions import collected

MAX_KEPT: Final = 200
MAX_CODES: Final = 20
CASES_OF_A_CODE: Final = 5
"""A failure code seen on fewer cases of both runs together is left out."""

Kind = Literal["metric", "slice", "failure_code"]
Sides = tuple[Measure, Measure]
Tables = tuple[pl.DataFrame, pl.DataFrame]


class Look(NamedTuple):
    """What one measure, slice or code came to."""

    kind: Kind
    name: str
    measure: str
    means: tuple[float, float]
    effect: Effect


def metric_look(sides: Sides, pairing: Pairing, alpha: float) -> Look | None:
    """A metric that does not gate; null where it says nothing."""
    return _look("metric", sides[0].name, sides, pairing, alpha)


def counted_look(metric: CountedMetric, alpha: float) -> Look | None:
    """The same of a metric whose values are counted."""
    found = counted_moves(metric)
    if found is None or found.moved.clusters < MIN_CLUSTERS:
        return None
    effect = plain_effect(found.moved, 1 - alpha, share=found.share)
    shown = in_points(effect) if found.share else effect
    return Look("metric", metric.name, metric.name, found.means, shown)


def slice_looks(
    measures: Sequence[Sides], tables: Tables, fields: Sequence[str], pairing: Pairing, alpha: float
) -> Iterator[Look]:
    """Measures over the cases with one value of a field or tag, by that of the baseline's case.

    Slices by tool overlap: a case is in that of every tool it called.
    """
    for field in fields:
        for value, ids in _slices(tables, field, paired=pairing.paired):
            for sides in measures:
                cut = [
                    one.cases.join(at, on="case_id", how="semi")
                    for one, at in zip(sides, ids, strict=True)
                ]
                part = (sides[0]._replace(cases=cut[0]), sides[1]._replace(cases=cut[1]))
                if found := _look("slice", f"{field}={value}", part, pairing, alpha):
                    yield found


def _slices(
    tables: Tables, field: str, *, paired: bool
) -> Iterator[tuple[str, Sequence[pl.DataFrame]]]:
    """The values that both runs have, each with its cases on both sides."""
    if field == TOOL:
        yield from by_tool(tables, paired=paired)
        return
    labels = [labelled(table, field).drop_nulls() for table in tables]
    if paired:
        labels[1] = labels[0]
    for value in sorted(set(labels[0]["label"]) & set(labels[1]["label"])):
        yield value, [side.filter(pl.col("label") == value) for side in labels]


def code_looks(
    scores: tuple[pl.LazyFrame, pl.LazyFrame], tables: Tables, pairing: Pairing, alpha: float
) -> Iterator[Look]:
    """The share of cases on which a failure code was given; more is worse."""
    found = [_codes(side) for side in scores]
    counted = pl.concat(found).group_by("failure_code").agg(cases=pl.len())
    often = counted.filter(pl.col("cases") >= CASES_OF_A_CODE)
    ranked = often.sort("cases", "failure_code", descending=[True, False])
    for code in ranked["failure_code"][:MAX_CODES]:
        sides = [_share_with(code, *pair) for pair in zip(found, tables, strict=True)]
        if look := _look("failure_code", code, (sides[0], sides[1]), pairing, alpha):
            yield look


def _codes(scores: pl.LazyFrame) -> pl.DataFrame:
    coded = scores.filter(pl.col("part") == "").drop_nulls("failure_code")
    return collected(coded.select("failure_code", pl.col("case_id").hash()).unique())


def _share_with(code: str, found: pl.DataFrame, table: pl.DataFrame) -> Measure:
    ids = found.filter(pl.col("failure_code") == code)["case_id"]
    has = pl.col("case_id").is_in(ids.implode()).cast(pl.Float64) * 100
    return Measure("share of cases", share=True, cases=table.select("case_id", point=has))


def _look(kind: Kind, name: str, sides: Sides, pairing: Pairing, alpha: float) -> Look | None:
    """One look; null where either side has too few clusters to say anything."""
    share = sides[0].share
    if pairing.paired:
        moved = differences(*sides, pairing)
        if moved.clusters < MIN_CLUSTERS:
            return None
        shares = Sample(moved.values / 100, moved.codes) if share else moved
        effect = plain_effect(shares, 1 - alpha, share=share)
    else:
        samples = sampled(sides, pairing, "point")
        if min(sample.clusters for sample in samples) < MIN_CLUSTERS:
            return None
        effect = unpaired_effect(*samples, 1 - alpha, share=share)
    return Look(
        kind, name, sides[0].name, _means(sides, pairing), in_points(effect) if share else effect
    )


def _means(sides: Sides, pairing: Pairing) -> tuple[float, float]:
    before, after = (side.cases.select("case_id", "point").drop_nulls() for side in sides)
    if pairing.paired:
        both = aligned(before, after)
        return float(both["point"].to_numpy().mean()), float(both["point_after"].to_numpy().mean())
    return float(before["point"].to_numpy().mean()), float(after["point"].to_numpy().mean())


def explored(looks: Sequence[Look], alpha: float) -> tuple[Exploratory, ...]:
    """The looks with their corrected p-values: the surest first, of equal ones the largest."""
    corrected = benjamini_hochberg([look.effect.p_value for look in looks])
    found = [_shown(look, q, alpha) for look, q in zip(looks, corrected, strict=True)]
    found.sort(key=lambda one: (one.q_value, -abs(one.delta), one.kind, one.name, one.measure))
    return tuple(found[:MAX_KEPT])


def _shown(look: Look, q_value: float, alpha: float) -> Exploratory:
    effect = look.effect
    return Exploratory(
        kind=look.kind,
        name=look.name,
        measure=look.measure,
        baseline=rounded(look.means[0]),
        candidate=rounded(look.means[1]),
        delta=rounded(effect.delta),
        low=rounded(effect.span.low),
        high=rounded(effect.span.high),
        p_value=rounded(effect.p_value),
        q_value=rounded(q_value),
        cases=effect.cases,
        clusters=effect.clusters,
        moved=q_value <= alpha,
    )
