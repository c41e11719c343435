"""`assizes runs`: the runs of a store."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import polars as pl

from assizes.deployments.commands import output
from assizes.deployments.commands.stores import opened_store
from assizes.tasks.store import Store

_HEAD = ("run_id", "name", "trigger", "status", "judge_model")
RUN_FIELDS = (*_HEAD, "day", "started_at", "finished_at")
"""Columns of table runs that the JSON documents show."""

SHOWN: Final = 100
"""The newest runs that the table shows unless it is told how many."""

_NUMBERS: Final = ("weighted_metrics_score_pct", "cases_pass_rate_pct", "outcome", "coverage")


def show_runs(
    file: Path | None, uri: str | None, *, last: int | None = None, as_json: bool
) -> None:
    """Print the runs of a store, those about the newest day first, or the `last` of them.

    A table without `last` has the newest hundred; a JSON document has all.
    """
    with opened_store(file, uri) as store:
        store_uri, index = store.uri, store.run_index()
        part = index.head(last or (index.height if as_json else SHOWN))
        part, progress = _with_progress(store, part)
    rows = part.select(*RUN_FIELDS, *_NUMBERS).to_dicts()
    if as_json:
        output.print_json(rows)
    elif rows:
        columns = ("run", "status", "judge", "about", "started", "#score", "#pass %")
        shown = ("run_id", "status", "judge_model", "day", "started_at", *_NUMBERS[:2])
        for row in rows:
            row["started_at"] = f"{row['started_at']:%Y-%m-%d %H:%M}"
        output.print_table("", columns, [[row[field] for field in shown] for row in rows])
        output.print_lines(progress)
        if len(rows) < index.height:
            more = f"{index.height - len(rows):,} earlier runs are not shown"
            output.print_line(f"{more}; --last {index.height} shows all")
    else:
        output.print_line(f"no runs in {store_uri}")


def _with_progress(store: Store, runs: pl.DataFrame) -> tuple[pl.DataFrame, list[str]]:
    """Rows of the index with the statuses to show, and a line for each run that goes on."""
    if "running" not in runs["status"]:
        return runs, []
    # What follows takes longer to import than to list thousands of runs.
    from assizes.tasks.runs.run_progress import RUNNING, run_progress
    from assizes.tasks.runs.stored_runs import with_displayed_status

    shown = with_displayed_status(store, runs)
    going = shown.filter(status=RUNNING)["run_id"]
    return shown, [f"{run_id}: {run_progress(store, store.run(run_id)).line()}" for run_id in going]
