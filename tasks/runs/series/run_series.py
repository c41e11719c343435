"""The means of a run's series, kept beside the store: trends over thousands of runs read no rows.

A kept mean holds for as long as the rows of its run are the same. Means of slices are not kept, as
their names may be those of people.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, NamedTuple

import polars as pl

from assizes.tasks.store import RunRecord, Store

_TABLE: Final = "series"
_SCHEMA: Final[dict[str, Any]] = {
    "run_id": pl.String,
    "revision": pl.String,  # of the rows of the run
    "judge": pl.String,  # fingerprint
    "series": pl.String,  # None: in the one row of a run without a judged case
    "mean": pl.Float64,
    "se": pl.Float64,
    "values": pl.Int64,  # `items` in tables whose pass rates left out flagged passes: made again
}
_BATCH: Final = 64  # runs whose settings are read together


class Mean(NamedTuple):
    """The mean of a series over the cases of a run that share a value of a slice."""

    series: str
    of: str  # the value of the slice; empty: of all cases
    mean: float
    se: float  # standard error of the mean, clustered
    items: int  # number of values


class RunSeries(NamedTuple):
    """The series of one run over all of its cases."""

    judge: str  # fingerprint of the judge that decides its verdicts
    means: Sequence[Mean]


def run_series(
    store: Store, run_ids: Collection[str], read: Callable[[RunRecord], RunSeries]
) -> dict[str, RunSeries]:
    """The series of some complete runs (full ids); those that are not kept are `read` and kept."""
    revisions = store.row_revisions(run_ids)
    stored = store.derived.read(_TABLE, _SCHEMA)
    current = pl.DataFrame(
        list(revisions.items()), schema={"run_id": pl.String, "revision": pl.String}, orient="row"
    )
    valid = stored.join(current, on=["run_id", "revision"], how="semi", maintain_order="left")
    kept = set(valid["run_id"])
    missing = [run_id for run_id in run_ids if run_id not in kept]
    if missing:
        added = _read(store, missing, revisions, read)
        others = stored.filter(~pl.col("run_id").is_in(missing))
        store.derived.write(_TABLE, pl.concat([others, added]))
        valid = pl.concat([valid, added])
    return _by_run(valid)


def _read(
    store: Store,
    run_ids: Sequence[str],
    revisions: dict[str, str],
    read: Callable[[RunRecord], RunSeries],
) -> pl.DataFrame:
    rows: list[tuple[Any, ...]] = []
    for first in range(0, len(run_ids), _BATCH):
        for row in store.rows_of_runs(run_ids[first : first + _BATCH]).iter_rows(named=True):
            series, run_id = read(RunRecord.of_row(row, {})), row["run_id"]
            head = (run_id, revisions[run_id], series.judge)
            values: Iterable[Any] = [(m.series, m.mean, m.se, m.items) for m in series.means]
            rows += [(*head, *value) for value in values or [(None, None, None, 0)]]
    return pl.DataFrame(rows, schema=_SCHEMA, orient="row")


def _by_run(rows: pl.DataFrame) -> dict[str, RunSeries]:
    series: dict[str, RunSeries] = {}
    means: dict[str, list[Mean]] = {}
    for run_id, _, judge, name, mean, se, items in rows.iter_rows():
        if run_id not in series:
            means[run_id] = []
            series[run_id] = RunSeries(judge, means[run_id])
        if name is not None:
            means[run_id].append(Mean(name, "", mean, se, items))
    return series
