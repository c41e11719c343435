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

from assizes.judge.comparison.measures import CaseMeasure, whole
from assizes.judge.comparison.metrics import align_cases
from assizes.judge.comparison.runs import DISJOINT, MIN_OVERLAP
from assizes.judge.statistics.clusters import Codes, Sample
from assizes.judge.statistics.counted import CountedSample
from assizes.judge.statistics.effects import MAX_DRAWN, Effect
from assizes.judge.statistics.intervals import ValueInterval
from assizes.judge.statistics.paired import paired_effect
from assizes.judge.statistics.unpaired import (
    MeanDecomposition,
    WeightedStratum,
    strata,
    unpaired_effect,
    weighted_effect,
)
from assizes.judge.verdicts.executions import collect_rows

FILLINGS: Final = ("point", "worst", "best")
_COLUMNS: Final = {"point": ("point", "point"), "worst": ("high", "low"), "best": ("low", "high")}
"""For each filling, the column of a measure to read in the baseline and in the candidate."""

OTHERS: Final = ""
"""The stratum that holds all strata with too few clusters to stand alone."""

_LOST: Final = {"point": None, "low": 0.0, "high": 100.0, "known": 0.0}
"""The measure of a case that the candidate lacks: any value is possible."""


@dataclass(frozen=True, slots=True)
class Pairing:
    """How the cases of two runs belong together.

    Attributes:
        clusters: columns `case_id` and `cluster`, a table for each run.
        strata: columns `case_id` and `label`, a table for each run: different cases are compared
            label by label; `None` where no label was chosen.
        overlap: shared cases / cases of the larger run, 0..1.
        lost: ids of the cases that only the baseline has.
    """

    clusters: tuple[pl.DataFrame, pl.DataFrame]
    strata: tuple[pl.DataFrame, pl.DataFrame] | None
    overlap: float
    lost: pl.Series

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
        shared = baseline.height - lost.len()
        larger = max(baseline.height, candidate.height)
        clusters = tuple(side.select("case_id", "cluster") for side in (baseline, candidate))
        return cls(
            clusters=(clusters[0], clusters[1]),
            strata=labelled,
            overlap=shared / larger if larger else 0.0,
            lost=lost,
        )

    @property
    def is_paired(self) -> bool:
        """Whether the runs are compared case by case."""
        return self.overlap >= DISJOINT


@dataclass(frozen=True, slots=True)
class Contrast:
    """A measure of both runs and how it changed between them.

    Attributes:
        measure: the measure of the baseline.
        means: of the baseline and of the candidate, in points of 0..100.
        coverage: share of the numbers that are known, 0..1, of the baseline and of the candidate.
        effects: the change by filling; `None` where no case has the number.
        mix: the change split into quality and mix of the strata; `None` without strata.
        strata: the number of strata.
    """

    measure: CaseMeasure
    means: tuple[float, float]
    coverage: tuple[float, float]
    effects: Mapping[str, Effect | None]
    mix: MeanDecomposition | None = None
    strata: int = 0


def contrast(
    before: CaseMeasure, after: CaseMeasure, pairing: Pairing, alpha: float
) -> Contrast | None:
    """The contrast of a measure; `None` where no case has the measure in both runs."""
    if pairing.is_paired:
        return _paired_contrast(before, after, pairing, alpha)
    return _unpaired_contrast(whole(before), whole(after), pairing, alpha)


def differences(
    before: CaseMeasure, after: CaseMeasure, pairing: Pairing, filling: str = "point"
) -> Sample:
    """The values of the candidate minus those of the baseline, for shared cases, in points."""
    return _differences(_joined_measures(before, after, pairing), filling)


def _joined_measures(before: CaseMeasure, after: CaseMeasure, pairing: Pairing) -> pl.DataFrame:
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


def _differences(joined: pl.DataFrame, filling: str) -> Sample:
    old, new = _COLUMNS[filling]
    delta = pl.col(f"{new}_after") - pl.col(old)
    rows = joined.select("case_id", "cluster", delta=delta).drop_nulls()
    return Sample(rows["delta"].to_numpy(), _codes(rows))


def _codes(rows: pl.DataFrame) -> Codes:
    """The clusters of the rows as numbers from 0 on, in the order in which the clusters first come."""
    if (rows["cluster"] == rows["case_id"]).all():  # each case is a cluster of its own
        return np.arange(rows.height)
    names = rows["cluster"].to_numpy()
    _, first, places = np.unique(names, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[places].astype(np.int64)


def _paired_contrast(
    before: CaseMeasure, after: CaseMeasure, pairing: Pairing, alpha: float
) -> Contrast | None:
    joined = _joined_measures(before, after, pairing)
    if joined.is_empty():
        return None
    both = joined.drop_nulls(["point", "point_after"])
    coverage, missing = (1.0, 1.0), 0
    if "known" in joined.columns:
        coverage = (_mean(joined["known"]), _mean(joined["known_after"]))
        missing = joined.filter((pl.col("known") < 1) | (pl.col("known_after") < 1)).height
    effects: dict[str, Effect | None] = {}
    for filling in FILLINGS if missing else FILLINGS[:1]:
        sample = _counted_differences(joined, filling) or _differences(joined, filling)
        effects[filling] = _paired_effect(sample, alpha, share=before.share)
    return Contrast(
        measure=before,
        means=(_mean(both["point"]), _mean(both["point_after"])),
        coverage=coverage,
        effects={filling: effects.get(filling, effects["point"]) for filling in FILLINGS},
    )


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
    return counted if counted.moved_count > MAX_DRAWN else None


def _paired_effect(sample: Sample | CountedSample, alpha: float, *, share: bool) -> Effect | None:
    if not sample.size:
        return None
    if not share:
        return paired_effect(sample, 1 - alpha, share=False)
    shares = replace(sample, values=sample.values / 100)
    return in_points(paired_effect(shares, 1 - alpha, share=True))


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
    if before.cases.is_empty() or after.cases.is_empty():
        return None
    missing = _mean(before.cases["known"]) < 1 or _mean(after.cases["known"]) < 1
    effects: dict[str, Effect | None] = {}
    split: tuple[list[WeightedStratum], MeanDecomposition] | None = None
    for filling in FILLINGS if missing else FILLINGS[:1]:
        sides = side_samples((before, after), pairing, filling)
        parts = _strata((before, after), pairing, filling)
        split = split or parts
        effects[filling] = _unpaired_effect(sides, parts, alpha, share=before.share)
    scale = 100.0 if before.share else 1.0
    return Contrast(
        measure=before,
        means=(_mean(before.cases["point"]), _mean(after.cases["point"])),
        coverage=(_mean(before.cases["known"]), _mean(after.cases["known"])),
        effects={filling: effects.get(filling, effects["point"]) for filling in FILLINGS},
        mix=MeanDecomposition(split[1].quality * scale, split[1].mix * scale) if split else None,
        strata=len(split[0]) if split else 0,
    )


def _unpaired_effect(
    sides: tuple[Sample, Sample],
    split: tuple[list[WeightedStratum], MeanDecomposition] | None,
    alpha: float,
    *,
    share: bool,
) -> Effect | None:
    if not min(side.size for side in sides):
        return None
    effect = (
        weighted_effect(split[0], 1 - alpha, share=share)
        if split
        else unpaired_effect(*sides, 1 - alpha, share=share)
    )
    return in_points(effect) if share else effect


def side_samples(
    measures: tuple[CaseMeasure, CaseMeasure], pairing: Pairing, filling: str
) -> tuple[Sample, Sample]:
    """The values of both runs: 0..1 where the measure is a share, else points."""
    samples = [
        _values(measure, clusters, _COLUMNS[filling][place])
        for place, (measure, clusters) in enumerate(zip(measures, pairing.clusters, strict=True))
    ]
    return samples[0], samples[1]


def _values(measure: CaseMeasure, clusters: pl.DataFrame, column: str) -> Sample:
    rows = _in_clusters(measure.cases, clusters).drop_nulls(column)
    scale = 100.0 if measure.share else 1.0
    return Sample(rows[column].to_numpy() / scale, _codes(rows))


def _strata(
    measures: tuple[CaseMeasure, CaseMeasure], pairing: Pairing, filling: str
) -> tuple[list[WeightedStratum], MeanDecomposition] | None:
    """The strata with two clusters or more in both runs; all other strata together form one more."""
    if pairing.strata is None:
        return None
    sides = [
        _by_label(measure, pairing, place, _COLUMNS[filling][place])
        for place, measure in enumerate(measures)
    ]
    wide = {
        name
        for name in sides[0].keys() & sides[1].keys()
        if min(side[name].clusters for side in sides) >= 2
    }
    while wide and _narrow(sides, wide):
        wide.discard(min(wide, key=lambda name: (sides[0][name].size, name)))
    merged = [_merged_strata(side, wide) for side in sides]
    return strata(*merged) if wide else None


def _narrow(sides: list[dict[str, Sample]], wide: set[str]) -> bool:
    """Whether the strata that are not wide have too few clusters, together, to form a stratum."""
    left = [sum(side[name].clusters for name in side.keys() - wide) for side in sides]
    return any(left) and min(left) < 2


def _by_label(measure: CaseMeasure, pairing: Pairing, place: int, column: str) -> dict[str, Sample]:
    assert pairing.strata is not None
    rows = measure.cases.join(pairing.strata[place], on="case_id", how="left")
    return {
        str(name): _values(
            measure._replace(cases=part.drop("label")), pairing.clusters[place], column
        )
        for (name,), part in rows.partition_by("label", as_dict=True).items()
    }


def _merged_strata(side: Mapping[str, Sample], wide: set[str]) -> dict[str, Sample]:
    wide_samples = {name: sample for name, sample in side.items() if name in wide and sample.size}
    rest = [sample for name, sample in side.items() if name not in wide and sample.size]
    return wide_samples | ({OTHERS: joined_samples(rest)} if rest else {})


def joined_samples(samples: list[Sample]) -> Sample:
    """Join samples into one; clusters of different samples stay apart."""
    values, names = [], []
    for place, sample in enumerate(samples):
        values += list(sample.values)
        names += [(place, int(code)) for code in sample.codes]
    return Sample.of(values, names)
