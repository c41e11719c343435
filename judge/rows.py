"""The public tables, column by column; the same names in Parquet and DuckDB (docs/rows.md).

Frames are built with these schemas and sorted by their keys, so that the same rows give the same
bytes, whatever the order in which the cases were judged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import polars as pl

SCHEMA_VERSION: Final = 2
"""The version of these tables. A store refuses to read tables of another version."""

COMPLETE: Final = "complete"
"""The status of a run that has nothing left to do; only complete runs are final and compared."""

_TIME: Final = pl.Datetime("us", "UTC")

SCORES: Final[dict[str, Any]] = {
    "run_id": pl.String,
    "case_id": pl.String,
    "repetition": pl.Int32,
    "judge": pl.String,
    "metric": pl.String,
    "part": pl.String,
    "value": pl.Float64,
    "raw": pl.Float64,
    "label": pl.String,
    "passed": pl.Boolean,
    "weight": pl.Float64,
    "tier": pl.String,
    "status": pl.String,
    "reason": pl.String,
    "failure_code": pl.String,
    "turns": pl.List(pl.Int32),
    "details": pl.String,
    "judge_version": pl.String,
    "rubric_hash": pl.String,
}

ASKS: Final[dict[str, Any]] = {
    "run_id": pl.String,
    "case_id": pl.String,
    "repetition": pl.Int32,
    "judge": pl.String,
    "round": pl.Int32,
    "index": pl.Int32,
    "model": pl.String,
    "provider": pl.String,
    "answered_by": pl.String,
    "prompt_hash": pl.String,
    "cached": pl.Boolean,
    "attempts": pl.Int32,
    "input_tokens": pl.Int64,
    "output_tokens": pl.Int64,
    "cost_usd": pl.Float64,
    "latency_ms": pl.Float64,
    "error": pl.String,
    "reply": pl.String,
    "sample": pl.Int32,
    "fingerprint": pl.String,
    "cost_source": pl.String,
    "waited_ms": pl.Float64,
    "flags": pl.List(pl.String),
    "trail": pl.String,
}

CASES: Final[dict[str, Any]] = {
    "run_id": pl.String,
    "case_id": pl.String,
    "repetition": pl.Int32,
    "transcript_uri": pl.String,
    "position": pl.Int64,
    "transcript_hash": pl.String,
    "agent": pl.String,
    "agent_version": pl.String,
    "tags": pl.String,
    "cluster": pl.String,
    "started_at": _TIME,
    "overall_score": pl.Float64,
    "score_passed": pl.Boolean,
    "passed": pl.Boolean,
    "gate": pl.String,
    "root_cause": pl.String,
    "summary": pl.String,
    "status": pl.String,
    "error": pl.String,
    "turn_count": pl.Int32,
    "agent_latency_ms": pl.Float64,
    "duration_ms": pl.Float64,
    "agent_tokens": pl.Int64,
    "agent_input_tokens": pl.Int64,
    "agent_output_tokens": pl.Int64,
    "agent_cost_usd": pl.Float64,
    "tools": pl.List(pl.String),
    "flags": pl.List(pl.String),
}

RUNS: Final[dict[str, Any]] = {
    "run_id": pl.String,
    "name": pl.String,
    "trigger": pl.String,
    "status": pl.String,
    "config": pl.String,
    "config_hash": pl.String,
    "judge_model": pl.String,
    "started_at": _TIME,
    "finished_at": _TIME,
    "counts": pl.String,
    "summary": pl.String,
}

RUN_METRICS: Final[dict[str, Any]] = {
    "run_id": pl.String,
    "name": pl.String,
    "value": pl.Float64,
}

REJECTS: Final[dict[str, Any]] = {
    "run_id": pl.String,
    "uri": pl.String,
    "position": pl.Int64,
    "byte_offset": pl.Int64,
    "reason": pl.String,
    "detail": pl.String,
    "sha256": pl.String,
    "excerpt": pl.String,
}

COMPARISONS: Final[dict[str, Any]] = {
    "baseline": pl.String,
    "candidate": pl.String,
    "at": _TIME,
    "verdict": pl.String,
    "thresholds": pl.String,
}

CALIBRATIONS: Final[dict[str, Any]] = {
    "fingerprint": pl.String,
    "metric": pl.String,
    "labels_hash": pl.String,
    "run_id": pl.String,
    "at": _TIME,
    "record": pl.String,
}

TABLES: Final[dict[str, dict[str, Any]]] = {
    "scores": SCORES,
    "asks": ASKS,
    "cases": CASES,
    "runs": RUNS,
    "run_metrics": RUN_METRICS,
    "rejects": REJECTS,
    "comparisons": COMPARISONS,
    "calibrations": CALIBRATIONS,
}

KEYS: Final[dict[str, tuple[str, ...]]] = {
    "scores": ("run_id", "case_id", "repetition", "judge", "metric", "part"),
    "asks": ("run_id", "case_id", "repetition", "judge", "round", "index"),
    "cases": ("run_id", "case_id", "repetition"),
    "runs": ("run_id",),
    "run_metrics": ("run_id", "name"),
    "rejects": ("run_id", "uri", "position"),
    "comparisons": ("baseline", "candidate", "at"),
    "calibrations": ("at", "fingerprint", "metric", "labels_hash"),
}

LATER_COLUMNS: Final[dict[str, tuple[str, ...]]] = {"cases": ("tools", "flags")}
"""Columns added later, at the end of their table; in older rows they are read as NULL."""

SHARD_TABLES: Final = ("scores", "asks", "cases", "rejects")
"""The tables to which each shard writes; the others are written once per run."""


def frame(table: str, rows: Iterable[Mapping[str, Any]]) -> pl.DataFrame:
    """The rows of a public table as a frame with the schema of the table, sorted by its keys.

    Raises:
        KeyError: for a name that is not among `TABLES`.
    """
    schema = TABLES[table]
    return pl.DataFrame(list(rows), schema=schema, orient="row").sort(KEYS[table])


def missing_columns(table: str, columns: Iterable[str]) -> dict[str, Any]:
    """The later columns of a table that `columns` lacks, with their types."""
    held = set(columns)
    return {name: TABLES[table][name] for name in LATER_COLUMNS.get(table, ()) if name not in held}


def add_later_columns(table: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Stored rows with all later columns of their table; a column that was missing holds NULL."""
    nulls = [
        pl.lit(None, dtype).alias(name)
        for name, dtype in missing_columns(table, rows.columns).items()
    ]
    return rows.with_columns(nulls)


def as_json(value: object) -> str:
    """Canonical JSON, as every JSON column holds it: sorted keys, no spaces, no NaN."""
    return json.dumps(
        value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
