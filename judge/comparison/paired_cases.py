"""The cases of two runs held against each other, as counts, figures and the few that are listed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import polars as pl

from assizes.judge.comparison.cases import joined_cases
from assizes.judge.comparison.rules import RuleFigures, figures
from assizes.judge.verdicts.executions import collect_rows, quantile

MAX_LISTED: Final = 1_000
"""So many cases of each status are listed, and so many that only one run holds; all are counted."""

_FLIPPED: Final = pl.col("baseline_passed").ne_missing(pl.col("candidate_passed"))


@dataclass(frozen=True, slots=True, eq=False)
class PairedCases:
    """Two runs joined by case. Rows are kept of the cases that are listed, and of `changed` ones
    where repetitions say how much a case moves by itself; of all others counts.

    `keys` are the matched cases as numbers; null where both runs hold the same cases and every
    one of them was executed. `latency_p95_ms` of both runs over the matched cases; null where
    repetitions were averaged.
    """

    matched: int
    statuses: Mapping[str, int]
    flipped: Mapping[str, int]
    uneven: int
    unscored: int
    listed: pl.DataFrame
    changed: pl.DataFrame | None
    baseline_only: tuple[str, ...]
    candidate_only: tuple[str, ...]
    alone: tuple[int, int]
    keys: pl.DataFrame | None
    repeated: bool
    baseline: RuleFigures
    candidate: RuleFigures
    latency_p95_ms: tuple[float | None, float | None] | None

    @classmethod
    def of(cls, baseline: pl.LazyFrame, candidate: pl.LazyFrame) -> PairedCases:
        """Rows of `cases` of two runs, joined."""
        both = joined_cases(baseline, candidate)
        in_both = pl.col("baseline_runs").is_not_null() & pl.col("candidate_runs").is_not_null()
        matched = both.rows.filter(in_both) if both.lone else both.rows
        paired = not matched.is_empty()
        shared = matched if paired else both.rows
        lone = [
            both.rows.filter(pl.col(f"{other}_runs").is_null())["case_id"]
            for other in ("candidate", "baseline")
        ]
        counted = matched.lazy().group_by("status").agg(cases=pl.len(), flipped=_FLIPPED.sum())
        by_status = collect_rows(counted).rows()
        return cls(
            matched=matched.height,
            statuses={status: cases for status, cases, _ in by_status},
            flipped={status: flips for status, _, flips in by_status},
            uneven=_count(matched, pl.col("baseline_runs") != pl.col("candidate_runs")),
            unscored=_count(
                matched,
                pl.col("baseline_score").is_null() != pl.col("candidate_score").is_null(),
            ),
            listed=_listed_cases(matched),
            changed=_changed_cases(matched) if both.repeated else None,
            baseline_only=tuple(lone[0].sort()[:MAX_LISTED]),
            candidate_only=tuple(lone[1].sort()[:MAX_LISTED]),
            alone=(lone[0].len(), lone[1].len()),
            keys=matched.select(pl.col("case_id").hash()) if both.lone or both.skipped else None,
            repeated=both.repeated,
            baseline=figures(shared, "baseline", paired=paired),
            candidate=figures(shared, "candidate", paired=paired),
            latency_p95_ms=None if both.repeated else _latencies_p95(shared),
        )

    @property
    def overlap(self) -> float:
        """Shared cases / cases of the larger run, 0..1."""
        return self.matched / (self.matched + max(self.alone)) if self.matched else 0.0

    @property
    def has_same_cases(self) -> bool:
        """Whether each run executed the cases of the other."""
        return not any(self.alone)


def _latencies_p95(shared: pl.DataFrame) -> tuple[float | None, float | None]:
    return (
        quantile(shared["baseline_agent_latency"], 0.95),
        quantile(shared["candidate_agent_latency"], 0.95),
    )


def _count(rows: pl.DataFrame, where: pl.Expr) -> int:
    return int(rows.select(where.sum()).item() or 0)


def _listed_cases(matched: pl.DataFrame) -> pl.DataFrame:
    """Of each status the first: flips of the verdict, then the largest moves; sorted by case."""
    parts = []
    for status in ("error", "regression", "improvement", "unchanged"):
        own = pl.col("status") == status
        if status == "unchanged" and _count(matched, own) > MAX_LISTED:
            first = matched.lazy().filter(own).select("case_id").bottom_k(MAX_LISTED, by="case_id")
            own = pl.col("case_id").is_in(first.collect()["case_id"].implode())
        rows = matched.filter(own)
        if rows.height > MAX_LISTED and status in ("regression", "improvement"):
            size = pl.col("score_delta").abs().fill_null(0.0)
            order = [_FLIPPED, size, pl.col("case_id")]
            rows = rows.sort(order, descending=[True, True, False]).head(MAX_LISTED)
        elif rows.height > MAX_LISTED:
            rows = rows.bottom_k(MAX_LISTED, by="case_id")
        parts.append(rows)
    return pl.concat(parts).sort("case_id")


def _changed_cases(matched: pl.DataFrame) -> pl.DataFrame:
    rows = matched.filter(pl.col("status").is_in(["regression", "improvement"]))
    return rows.sort("case_id")
