"""A stored run whose cases are traces, with a judge that failed on one of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.tasks.reports.sample import Run, Said, run
from tests.tasks.stored_runs import put

RUN_ID = "nightly-aaaaaaaaaaaa"
TRACES = tuple(f"{n:032x}" for n in range(1, 5))
SECRET = "the user said 4111 1111 1111 1111"
"""What a judge quotes in a reason."""


def traced_run(case_ids: tuple[str, ...] = TRACES, **of_case: Any) -> Run:
    """A run over cases with these ids; on the last one the judge failed to score tool_routing."""
    said = [
        Said(case_id, (5, 4) if n % 2 else (1, 2), done=bool(n % 2), why=SECRET, **of_case)
        for n, case_id in enumerate(case_ids)
    ]
    made = run(said)
    scores = made.frames["scores"]
    is_failed = (pl.col("case_id") == case_ids[-1]) & (pl.col("metric") == "tool_routing")
    failed = scores.with_columns(
        status=pl.when(is_failed).then(pl.lit("failed")).otherwise("status"),
        value=pl.when(is_failed).then(None).otherwise("value"),
        raw=pl.when(is_failed).then(None).otherwise("raw"),
        label=pl.when(is_failed).then(None).otherwise("label"),
        passed=pl.when(is_failed).then(None).otherwise("passed"),
        details=pl.when(is_failed).then(pl.lit('{"error":"timeout"}')).otherwise("details"),
    )
    return replace(made, frames={**made.frames, "scores": failed})


def stored(folder: Path, made: Run | None = None, *, lake: bool = False) -> StoreConfig:
    """A store that holds the run."""
    config = StoreConfig(uri=str(folder / "lake") if lake else f"duckdb:///{folder}/assizes.duckdb")
    with open_store(config, writing=True) as store:
        put(store, made or traced_run())
    return config


def environment(**more: str) -> Mapping[str, str]:
    return more
