"""Rows whose shard, and whose writer, can be told from each of them."""

from __future__ import annotations

import hashlib
import io

import polars as pl

from assizes.judge.rows import frame
from tests.tasks.store.rows import BEGAN, score_row

SHARDS = tuple(f"s{number:03d}" for number in range(24))
CASES = 5
METRICS = ("accuracy", "tone", "tool_routing")


def rows_of(run_id: str, shard: str, writer: str = "") -> dict[str, pl.DataFrame]:
    """The frames of one shard; each row names the writer."""
    cases = [f"{shard}-{number}" for number in range(CASES)]
    scores = [
        score_row(run_id, case_id, metric=metric, reason=f"{writer} {case_id} " + "x" * 40)
        for case_id in cases
        for metric in METRICS
    ]
    heard = [
        {
            "run_id": run_id,
            "case_id": case_id,
            "repetition": 0,
            "started_at": BEGAN,
            "overall_score": 70.0,
            "summary": writer,
        }
        for case_id in cases
    ]
    return {"scores": frame("scores", scores), "cases": _full("cases", heard)}


def _full(table: str, rows: list[dict[str, object]]) -> pl.DataFrame:
    empty = frame(table, [])
    return frame(table, [dict.fromkeys(empty.columns) | row for row in rows])


def content(rows: pl.DataFrame) -> str:
    """A hash of everything a frame holds."""
    buffer = io.BytesIO()
    rows.write_parquet(buffer)
    return hashlib.sha256(buffer.getvalue()).hexdigest()
