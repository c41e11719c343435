"""Contrasts a measure of two runs: case by case where they share cases, else as two samples.

Every contrast is computed with three fillings: missing numbers are left out (`point`), all count
against the candidate (`worst`), or all count in its favour (`best`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import polars as pl

from assizes.judge.comparison.metrics import align_cases
from assizes.judge.comparison.runs import DISJOINT, MIN_OVERLAP, CaseMeasure, whole
from assizes.judge.statistics import effects as effect_sizes
from assizes.judge.statistics.effects import MAX_DRAWN, Effect, MeanDecomposition, WeightedStratum
from assizes.judge.statistics.intervals import Codes, CountedSample, Sample, ValueInterval
from assizes.judge.verdicts.executions import collect_rows

FILLINGS: Final = ("point", "worst", "best")  # ways to treat missing numbers
_COLUMNS: Final = {"point": ("point", "point"), "worst": ("high", "low"), "best": ("low", "high")}
"""For each filling, the column of a measure to read in the baseline and in the candidate."""

OTHERS: Final = ""
"""The stratum that holds all strata with too few clusters to stand alone."""

_LOST: Final = {"point": None, "low": 0.0, "high": 100.0, "known": 0.0}
"""The measure of a case that the candidate lacks: any value is possible."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """How the cases of two runs belong together."""

    clusters: tuple[pl.DataFrame, pl.DataFrame]  # columns case_id, cluster: a table for each run
    strata: tuple[pl.DataFrame, pl.DataFrame] | None  # columns case_id, label; None: no label
    overlap: float  # shared cases / cases of the larger run, 0..1
    is_paired: bool  # compared case by case, else as two samples
    lost: pl.Series  # hashed ids of the cases that only the baseline has

    @classmethod
    def of(
        cls,
        baseline: pl.DataFrame,
        candidate: pl.DataFrame,
        labelled: tuple[pl.DataFrame, pl.DataFrame] | None = None,
    ) -> Pairing:
        """The pairing of two case tables."""
        ids, other_ids = baseline["case_id"], candidate["case_id"]
        # Runs over the same transcripts have equal columns, which saves the set of ids.
        lost = ids.clear() if ids.equals(other_ids) else ids.filter(~ids.is_in(other_ids.implode()))
        larger = max(baseline.height, candidate.height)
        overlap = (baseline.height - lost.len()) / larger if larger else 0.0
        columns = ("case_id", "cluster")
        return cls(
            clusters=(baseline.select(columns), candidate.select(columns)),
            strata=labelled,
            overlap=overlap,
            is_paired=overlap >= DISJOINT,
            lost=lost,
        )


@dataclass(frozen=True, slots=True)
class Contrast:
    """A measure of both runs and how it changed between them."""

    measure: CaseMeasure  # that of the baseline
    means: tuple[float, float]  # (baseline, candidate), points of 0..100
    coverage: tuple[float, float]  # share of the numbers that are known, 0..1
    effects: Mapping[str, Effect]  # by filling, in points
    mix: MeanDecomposition | None = None  # the change split in two, in points; None: no strata
    strata: int = 0  # those that the mix counts


def contrast(
    before: CaseMeasure | None, after: CaseMeasure | None, pairing: Pairing, alpha: float
) -> Contrast | None:
    """The contrast of a measure; `None` where a run lacks it, or no case has it in both runs."""
    if before is None or after is None:
        return None
    before, after = on_one_scale((before, after))
    if not pairing.is_paired:
        return _unpaired_contrast(whole(before), whole(after), pairing, alpha)
    joined = joined_measures(before, after, pairing)
    both = joined.drop_nulls(["point", "point_after"])
    coverage, missing = (1.0, 1.0), 0
    if "known" in joined.columns:
        coverage = (_mean(joined["known"]), _mean(joined["known_after"]))
        missing = joined.filter((pl.col("known") < 1) | (pl.col("known_after") < 1)).height
    # The tests for shares take passes as 0 and 1, so their differences run -1..1 instead of points.
    share, scale = before.share, 100.0 if before.share else 1.0
    effects: dict[str, Effect | None] = {}
    for filling in FILLINGS if missing else FILLINGS[:1]:  # nothing missing: all three are one
        sample = _counted_differences(joined, filling) or differences(joined, filling)
        scaled = replace(sample, values=sample.values / scale)
        effect = effect_sizes.paired_effect(scaled, 1 - alpha, share=share) if sample.size else None
        effects[filling] = in_points(effect) if effect and share else effect
    if (point := effects["point"]) is None:
        return None
    return Contrast(
        measure=before,
        means=(_mean(both["point"]), _mean(both["point_after"])),
        coverage=coverage,
        effects={filling: effects.get(filling) or point for filling in FILLINGS},
    )


def on_one_scale(measures: tuple[CaseMeasure, CaseMeasure]) -> tuple[CaseMeasure, CaseMeasure]:
    """The measures of both runs: a share where each run has one, else points on both sides."""
    # A rubric may change under the same name: a metric then has two values in one run only.
    before, after = measures
    share = before.share and after.share
    return before._replace(share=share), after._replace(share=share)


def joined_measures(before: CaseMeasure, after: CaseMeasure, pairing: Pairing) -> pl.DataFrame:
    """The columns of a measure of both runs side by side, for shared cases, with their clusters."""
    # A case that the candidate lost counts as missing (docs/decisions.md, decision 49); below
    # MIN_OVERLAP the runs are not over the same suite.
    counting_lost = pairing.lost.len() > 0 and pairing.overlap >= MIN_OVERLAP
    if counting_lost or any("known" in side.cases.columns for side in (before, after)):
        before, after = whole(before), whole(after)
    rows = after.cases
    if counting_lost:
        lost = pl.DataFrame({"case_id": pairing.lost}).with_columns(
            **{name: pl.lit(value, dtype=pl.Float64) for name, value in _LOST.items()}
        )
        rows = pl.concat([rows, lost.select(rows.columns)])
    return _in_clusters(align_cases(before.cases, rows), pairing.clusters[0])


def _in_clusters(rows: pl.DataFrame, clusters: pl.DataFrame) -> pl.DataFrame:
    """Add column `cluster` to the rows, in the order of the cases of the run."""
    if rows.height == clusters.height and (rows["case_id"] == clusters["case_id"]).all():
        return rows.with_columns(clusters["cluster"])
    return clusters.join(rows, on="case_id", maintain_order="left")


def differences(joined: pl.DataFrame, filling: str) -> Sample:
    """The values of the candidate minus those of the baseline, for joined measures, in points."""
    old, new = _COLUMNS[filling]
    delta = pl.col(f"{new}_after") - pl.col(old)
    rows = joined.select("case_id", "cluster", delta=delta).drop_nulls()
    return Sample(rows["delta"].to_numpy(), _codes(rows))


def _codes(rows: pl.DataFrame) -> Codes:
    """The clusters of the rows as numbers from 0 on, in the order of their first rows."""
    if (rows["cluster"] == rows["case_id"]).all():  # each case is a cluster of its own
        return np.arange(rows.height)
    names = rows["cluster"].to_numpy()
    _, first, places = np.unique(names, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[places].astype(np.int64)  # rank of the first occurrence


def _counted_differences(joined: pl.DataFrame, filling: str) -> CountedSample | None:
    """The differences with how often each occurs, which takes a fraction of the memory.

    `None` where cases share clusters, and where so few cases moved that the effect is computed by
    drawing from their differences one by one.
    """
    if not (joined["cluster"] == joined["case_id"]).all():
        return None
    old, new = _COLUMNS[filling]
    moved = joined.lazy().select(delta=pl.col(f"{new}_after") - pl.col(old)).drop_nulls()
    frequencies = collect_rows(
        moved.group_by("delta").agg(times=pl.len().cast(pl.Float64)).sort("delta")
    )
    counted = CountedSample(frequencies["delta"].to_numpy(), frequencies["times"].to_numpy())
    return counted if sum(counted.sides) > MAX_DRAWN else None


def in_points(effect: Effect) -> Effect:
    """Convert an effect on shares (-1..1) to points (-100..100)."""
    return effect._replace(
        delta=effect.delta * 100,
        error=effect.error * 100,
        span=ValueInterval(effect.span.low * 100, effect.span.high * 100),
    )


def _mean(values: pl.Series) -> float:
    mean = values.mean()
    return float(mean) if isinstance(mean, int | float) else 0.0


def _unpaired_contrast(
    before: CaseMeasure, after: CaseMeasure, pairing: Pairing, alpha: float
) -> Contrast | None:
    coverage = (_mean(before.cases["known"]), _mean(after.cases["known"]))
    share = before.share
    effects: dict[str, Effect | None] = {}
    split: tuple[list[WeightedStratum], MeanDecomposition] | None = None
    for filling in FILLINGS if min(coverage) < 1 else FILLINGS[:1]:
        sides = side_samples((before, after), pairing, filling)
        parts = _strata((before, after), pairing, filling)
        split = split or parts  # that of the first filling, `point`
        effect: Effect | None = None
        if parts and min(side.size for side in sides):
            effect = effect_sizes.weighted_effect(parts[0], 1 - alpha, share=share)
        elif min(side.size for side in sides):
            effect = effect_sizes.unpaired_effect(*sides, 1 - alpha, share=share)
        effects[filling] = in_points(effect) if effect and share else effect
    if (point := effects["point"]) is None:
        return None
    scale = 100.0 if share else 1.0
    return Contrast(
        measure=before,
        means=(_mean(before.cases["point"]), _mean(after.cases["point"])),
        coverage=coverage,
        effects={filling: effects.get(filling) or point for filling in FILLINGS},
        mix=MeanDecomposition(split[1].quality * scale, split[1].mix * scale) if split else None,
        strata=len(split[0]) if split else 0,
    )


def side_samples(
    measures: tuple[CaseMeasure, CaseMeasure], pairing: Pairing, filling: str
) -> tuple[Sample, Sample]:
    """The values of both runs: 0..1 where the measure is a share, else points."""
    before, after = map(_values, measures, pairing.clusters, _COLUMNS[filling])
    return before, after


def _values(measure: CaseMeasure, clusters: pl.DataFrame, column: str) -> Sample:
    rows = _in_clusters(measure.cases, clusters).drop_nulls(column)
    scale = 100.0 if measure.share else 1.0
    return Sample(rows[column].to_numpy() / scale, _codes(rows))


def _strata(
    measures: tuple[CaseMeasure, CaseMeasure], pairing: Pairing, filling: str
) -> tuple[list[WeightedStratum], MeanDecomposition] | None:
    """The strata with at least two clusters in both runs; all others together form one more."""
    if pairing.strata is None:
        return None
    sides: list[dict[str, Sample]] = []
    for measure, labels, clusters, column in zip(
        measures, pairing.strata, pairing.clusters, _COLUMNS[filling], strict=True
    ):
        labelled = measure.cases.join(labels, on="case_id", how="left")
        parts = labelled.partition_by("label", include_key=False, as_dict=True).items()
        sides.append(
            {
                str(name): _values(measure._replace(cases=part), clusters, column)
                for (name,), part in parts
            }
        )
    both = sides[0].keys() & sides[1].keys()
    # A single cluster has no standard error, so a stratum needs two on each side.
    wide = {name for name in both if min(side[name].clusters for side in sides) >= 2}
    while wide:
        # The other strata must have enough clusters, together, to form a stratum.
        left = [sum(side[name].clusters for name in side.keys() - wide) for side in sides]
        if not any(left) or min(left) >= 2:
            break
        # The smallest stratum gives way, and at equal size the first by name.
        wide.discard(min(wide, key=lambda name: (sides[0][name].size, name)))
    merged = [_merged_strata(side, wide) for side in sides]
    return effect_sizes.strata(*merged) if wide else None


def _merged_strata(side: Mapping[str, Sample], wide: set[str]) -> dict[str, Sample]:
    merged = {name: sample for name, sample in side.items() if sample.size and name in wide}
    rest = [sample for name, sample in side.items() if sample.size and name not in wide]
    if rest:
        # Clusters of different strata stay apart.
        values = np.concatenate([sample.values for sample in rest])
        names = [(place, int(code)) for place, each in enumerate(rest) for code in each.codes]
        merged[OTHERS] = Sample.of(values, names)
    return merged
