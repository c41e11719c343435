"""The causes of the failures of stored runs: found once, after those of earlier runs, and stored."""

from __future__ import annotations

import logging
from typing import Final

import polars as pl

from assizes.judge.causes.described import KnownCause, RunWithCauses, cause_rows
from assizes.judge.causes.failures import FAILURES, failures
from assizes.judge.causes.identity import REMEMBERED, find_causes
from assizes.judge.causes.presence import JudgedCases
from assizes.judge.errors import ConfigurationError
from assizes.judge.rows import CAUSE_TABLES, COMPLETE
from assizes.tasks.runs.stored_causes import LOOK_BACK, earlier_runs
from assizes.tasks.store import Store
from assizes.tasks.store.cause_tables import RunCauses

ALPHA: Final = 0.05
"""The share of runs of an unchanged agent in which some cause is called new, worse, better or gone."""

log = logging.getLogger(__name__)


def causes_of_run(store: Store, run_id: str) -> RunCauses:
    """The causes of a complete run (its id or another name); they are found where they are not yet.

    Earlier runs of the same name come first, up to `LOOK_BACK` of them: a cause keeps its id and
    its name from run to run. The baseline of a run is the one before it.

    Raises:
        UnknownRun: no run is named so.
        ConfigurationError: the run is not complete.
        StoreError: the store cannot be reached.
    """
    run = store.run(run_id)
    if run.status != COMPLETE:
        raise ConfigurationError(
            f"run {run.run_id} is {run.status}; causes are found in complete runs"
        )
    before: str | None = None
    for each in [*earlier_runs(store, run.run_id, LOOK_BACK), run.run_id]:
        if store.causes.read(each) is None:
            log.info("finding the causes of run %s", each)
            store.causes.write(each, _find(store, each, before))
        before = each
    found = store.causes.read(run.run_id)
    assert found is not None  # it was written above
    return found


def _find(store: Store, run_id: str, before: str | None) -> RunCauses:
    earlier = store.causes.read(before) if before is not None else None
    remembered = pl.DataFrame() if earlier is None else earlier.remembered
    known = _known(remembered)
    columns = {**FAILURES, "cause_id": pl.String}
    old = remembered.select(list(columns)) if known else pl.DataFrame(schema=columns)
    found = find_causes(failures(store.scan(run_id, "scores")), old, run_id)
    run = RunWithCauses(run_id, _judged(store, run_id), found.failures)
    baseline = None if before is None else _stored(store, before)
    rows = cause_rows(run, found, baseline, known, ALPHA)
    shown = found.failures.drop_nulls("cause_id").with_columns(pl.lit(run_id).alias("run_id"))
    case_causes = shown.select(list(CAUSE_TABLES["case_causes"])).unique(maintain_order=True)
    return RunCauses(rows, case_causes, _remember(remembered, shown, rows))


def _known(remembered: pl.DataFrame) -> dict[str, KnownCause]:
    if not remembered.height:
        return {}
    rows = remembered.unique("cause_id").select("cause_id", "name", "first_run").iter_rows()
    return {cause_id: KnownCause(name, first_run) for cause_id, name, first_run in rows}


def _judged(store: Store, run_id: str) -> JudgedCases:
    judged = store.scan(run_id, "cases").filter(pl.col("status") == "judged")
    return JudgedCases(judged.select("case_id", "repetition", "cluster").collect())


def _stored(store: Store, run_id: str) -> RunWithCauses:
    stored = store.causes.rows("case_causes", [run_id])
    return RunWithCauses(run_id, _judged(store, run_id), stored)


def _remember(remembered: pl.DataFrame, shown: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The latest failures of each cause; a cause that was merged is remembered as the older one."""
    own = shown.join(rows.select("cause_id", "name", "first_run"), on="cause_id", how="left")
    both = own
    if remembered.height:
        merged = dict(rows.drop_nulls("merged_into").select("cause_id", "merged_into").iter_rows())
        older = remembered.filter(~pl.col("cause_id").is_in(list(merged)))
        both = pl.concat([older, own.select(remembered.columns)])
    return both.group_by("cause_id", maintain_order=True).tail(REMEMBERED)
