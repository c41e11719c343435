"""Stores of thousands of runs: the rows of one real run, stored again and again under other names.

The template is a run of the bundled transcripts by the offline judge, so that configuration, summary,
metrics and rows have the size of real ones. The numbers of each run move a little.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import polars as pl

import assizes
from assizes.deployments.samples import sample_cases
from assizes.judge.case import Case
from assizes.judge.config.run import StoreConfig
from assizes.judge.rows import SHARD_TABLES, as_json
from assizes.tasks.store import RunRecord, Store, open_store
from assizes.tasks.store.duckdb_file import Journal
from assizes.tasks.store.record import DAY
from assizes.tasks.store.warehouse import DuckDBStore

FIRST_DAY = datetime(2026, 1, 1, 3, tzinfo=UTC)
"""The start of the first night."""


class Template(NamedTuple):
    """A real run of a few dozen cases."""

    record: RunRecord
    frames: dict[str, pl.DataFrame]  # by table of a shard
    metrics: pl.DataFrame


def template(folder: Path, cases: int) -> Template:
    """Judge so many cases offline, and read the run back."""
    uri = str(folder / "template")
    assizes.evaluate(_cases(cases), name="nightly", store=uri)
    with open_store(StoreConfig(uri=uri)) as store:
        record = store.run("latest")
        frames = {table: store.table(record.run_id, table) for table in SHARD_TABLES}
        return Template(record, frames, store.table(record.run_id, "run_metrics"))


def _cases(count: int) -> list[Case]:
    known = sample_cases()
    return [replace_id(known[number % len(known)], f"case-{number:06d}") for number in range(count)]


def replace_id(case: Case, case_id: str) -> Case:
    """The same conversation under another id."""
    return case.model_copy(update={"case_id": case_id})


def fill(store: Store, of: Template, names: int, nights: int) -> None:
    """Store a run of each name for each night, the oldest first, and its comparison with the last."""
    verdict = as_json({"ending": "not_worse", "regression_detected": False, "why": "w" * 3000})
    for run, frames, metrics in _runs(of, names, nights):
        _store_run(store, run, frames, metrics)
        if run.config["sequence"] > names:
            before = f"{run.config['sequence'] - 1 - names:012x}"
            row = {
                "baseline": f"{run.name}-{before}",
                "candidate": run.run_id,
                "at": run.finished_at,
            }
            store.add_comparison({**row, "verdict": verdict, "thresholds": "{}"})


def _store_run(
    store: Store, run: RunRecord, frames: dict[str, pl.DataFrame], metrics: pl.DataFrame
) -> None:
    counts = {"s00000": {"judged": frames["cases"].height}}
    if isinstance(store, DuckDBStore):  # one transaction in place of three
        store.adopt_run(run, [*frames.items(), ("run_metrics", metrics)], counts)
    else:
        store.begin(replace(run, status="running", finished_at=None, counts={}, summary=None))
        store.commit_shard(run.run_id, "s00000", frames, counts["s00000"])
        store.finish(run, metrics)


def uri_of(folder: Path, kind: str) -> str:
    """The URI of the store of a kind in a folder."""
    return f"{folder}/lake" if kind == "lake" else f"duckdb:///{folder}/store.duckdb"


def made(folder: Path, kind: str, of: Template, names: int, nights: int) -> str:
    """The URI of a store with these runs; nothing is synced to disk, as the store is thrown away."""
    uri = uri_of(folder, kind)
    with (
        patch.object(os, "fsync", lambda _handle: None),
        # It reads all commits each time; opening the file for writing catches up, too.
        patch.object(Journal, "catch_up", lambda _journal, _state: None),
        open_store(StoreConfig(uri=uri), writing=True) as store,
    ):
        fill(store, of, names, nights)
    open_store(StoreConfig(uri=uri), writing=True).close()
    return uri


def _runs(
    of: Template, names: int, nights: int
) -> Iterator[tuple[RunRecord, dict[str, pl.DataFrame], pl.DataFrame]]:
    for night in range(nights):
        began = FIRST_DAY + timedelta(days=night)
        for number in range(names):
            moved = ((night * 31 + number * 17) % 11 - 5) / 100  # of the scores
            run_id = f"agent-{number:03d}-{night * names + number:012x}"
            run = _record(of.record, run_id, f"agent-{number:03d}", began, night * names + number)
            yield (
                replace(run, summary=_moved(run.summary or {}, moved)),
                {table: _frame(rows, run_id, moved) for table, rows in of.frames.items()},
                of.metrics.with_columns(run_id=pl.lit(run_id)),
            )


def _record(run: RunRecord, run_id: str, name: str, began: datetime, number: int) -> RunRecord:
    config = {**run.config, "name": name, DAY: f"{began:%Y-%m-%d}", "sequence": number + 1}
    return replace(
        run,
        run_id=run_id,
        name=name,
        trigger="nightly",
        config=config,
        started_at=began,
        finished_at=began + timedelta(minutes=7),
    )


def _moved(summary: Mapping[str, Any], by: float) -> dict[str, Any]:
    score = summary["weighted_metrics_score_pct"]
    return {**summary, "weighted_metrics_score_pct": round(score * (1 + by), 2)}


def _frame(rows: pl.DataFrame, run_id: str, by: float) -> pl.DataFrame:
    moved = [pl.lit(run_id).alias("run_id")]
    if "overall_score" in rows.columns:
        moved.append((pl.col("overall_score") * (1 + by)).clip(0, 100))
    return rows.with_columns(moved)
