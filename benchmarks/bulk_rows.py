"""Made-up rows of big runs: nine metrics a case, whole levels, weights of three decimals."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import polars as pl

from assizes.judge.config.run import RunConfig
from assizes.judge.rows import CASES, SCORES
from assizes.tasks.store import RunRecord, Store

METRICS = {
    "task_completion": 0.25,
    "tool_routing": 0.125,
    "accuracy": 0.175,
    "completeness": 0.1,
    "context_retention": 0.075,
    "error_recovery": 0.075,
    "tone": 0.05,
    "conciseness": 0.05,
    "safety": 0.1,
}
LABELS = ("critical_fail", "fail", "poor", "acceptable", "good", "excellent")


def scores(run_id: str, first: int, cases: int, shift: int = 0) -> pl.DataFrame:
    """Rows of `scores` of so many cases from number `first` on; `shift` moves some levels."""
    names, weights = list(METRICS), list(METRICS.values())
    number = pl.int_range(first * len(names), (first + cases) * len(names), eager=True).alias("n")
    case, metric = pl.col("n") // len(names), pl.col("n") % len(names)
    level = (pl.col("n").hash(seed=1) % 6).cast(pl.Int64)
    moved = (pl.col("n").hash(seed=2 + shift) % 20 == 0) & pl.lit(bool(shift))
    raw = pl.when(moved).then((level - 1).clip(0)).otherwise(level).cast(pl.Float64)
    empty = {name: pl.lit(None, dtype=kind) for name, kind in SCORES.items()}
    return (
        pl.DataFrame(number)
        .lazy()
        .with_columns(
            **{
                **empty,
                "run_id": pl.lit(run_id),
                "case_id": pl.lit("case-") + case.cast(pl.String).str.zfill(8),
                "repetition": pl.lit(0, pl.Int32),
                "judge": pl.lit("conversation"),
                "metric": pl.lit(pl.Series(names)).gather(metric),
                "part": pl.lit(""),
                "weight": pl.lit(pl.Series(weights)).gather(metric),
                "tier": pl.lit("knowledge"),
                "status": pl.lit("scored"),
                "raw": raw,
                "value": raw / 5,
                "judge_version": pl.lit("1"),
                "rubric_hash": pl.lit("0123456789abcdef"),
            }
        )
        .with_columns(
            label=pl.lit(pl.Series(LABELS)).gather(pl.col("raw").cast(pl.UInt32)),
            passed=pl.col("raw") >= 3,
            details=pl.concat_str(pl.lit('{"n":'), "n", pl.lit("}")),
        )
        .select(list(SCORES))
        .collect()
    )


def cases(of: pl.DataFrame) -> pl.DataFrame:
    """Rows of `cases` to rows of `scores`: their weighted score, a verdict, a latency."""
    points = ((pl.col("value") * pl.col("weight")).sum() * 100).round(2)
    empty = {name: pl.lit(None, dtype=kind) for name, kind in CASES.items()}
    keys = ["run_id", "case_id", "repetition"]
    found = of.lazy().group_by(keys, maintain_order=True).agg(overall_score=points)
    latency = (pl.col("case_id").hash(seed=5) % 4000 + 500).cast(pl.Float64)
    return (
        found.with_columns(
            **{name: none for name, none in empty.items() if name not in (*keys, "overall_score")}
        )
        .with_columns(
            status=pl.lit("judged"),
            passed=pl.col("overall_score") >= 50,
            score_passed=pl.col("overall_score") >= 50,
            gate=pl.lit("overall_score"),
            agent_latency_ms=latency,
            agent_tokens=pl.lit(900, pl.Int64),
        )
        .select(list(CASES))
        .collect()
    )


def shards(run_id: str, count: int, size: int, shift: int = 0) -> Iterator[dict[str, pl.DataFrame]]:
    """A run of `count` cases in shards of `size`."""
    for first in range(0, count, size):
        rows = scores(run_id, first, min(size, count - first), shift)
        yield {"scores": rows, "cases": cases(rows)}


def record(run_id: str) -> RunRecord:
    """A run to hang rows on."""
    began = datetime(2026, 3, 1, tzinfo=UTC)
    config = RunConfig.model_validate({"name": "bulk", "transcripts": {"uri": "t"}})
    frozen = config.model_dump(mode="json")
    return RunRecord(run_id, "bulk", "adhoc", "running", frozen, "0", "offline/lexical", began)


def fill(store: Store, run_id: str, count: int, size: int, shift: int = 0) -> None:
    """Store a run of `count` cases in shards of `size`."""
    store.begin(record(run_id))
    for number, frames in enumerate(shards(run_id, count, size, shift)):
        store.commit_shard(run_id, f"s{number:05d}", frames, {"judged": frames["cases"].height})
