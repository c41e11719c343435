"""What the store says of runs and their causes, without finding any."""

from __future__ import annotations

from typing import Final

import polars as pl

from assizes.judge.rows import COMPLETE
from assizes.tasks.store import Store
from assizes.tasks.store.cause_tables import RunCauses

LOOK_BACK: Final = 30
"""The most earlier runs of a name whose causes count."""


def earlier_runs(store: Store, run_id: str, most: int) -> list[str]:
    """The latest complete runs of the same name before a run (full id), the oldest first."""
    runs = store.runs()  # the newest first
    own = runs.row(by_predicate=pl.col("run_id") == run_id, named=True)
    same = runs.filter(pl.col("name") == own["name"], pl.col("status") == COMPLETE)["run_id"]
    place = same.index_of(run_id) or 0
    return same[place + 1 : place + 1 + most].reverse().to_list()


def unexplained_cases(store: Store, run_id: str, causes: RunCauses) -> int:
    """The number of failed cases of a run that show no cause."""
    failed = store.scan(run_id, "cases").filter(pl.col("passed").eq(other=False))
    failed_ids = failed.select(pl.col("case_id").unique()).collect()["case_id"]
    return int((~failed_ids.is_in(causes.case_causes["case_id"].implode())).sum())
