"""The causes of the failures of stored runs: found once, after those of earlier runs, and stored."""

from __future__ import annotations

import logging
from collections.abc import Collection

import polars as pl

from assizes.judge.causes.described import RunWithCauses, cause_rows
from assizes.judge.causes.edited_identity import find_edited_causes
from assizes.judge.causes.failures import FAILURES, failures
from assizes.judge.causes.identity import REMEMBERED
from assizes.judge.causes.origins import LABEL_COLUMNS, circumstances, related
from assizes.judge.errors import ConfigurationError, StoreError
from assizes.judge.rows import CAUSE_TABLES, COMPLETE, as_json
from assizes.tasks.embedding.sentence_encoder import encoder_of_run
from assizes.tasks.runs.edited_causes import ALPHA, EditedCauses, judged_cases
from assizes.tasks.runs.stored_causes import LOOK_BACK, earlier_runs
from assizes.tasks.store import Store
from assizes.tasks.store.cause_tables import RunCauses

log = logging.getLogger(__name__)


def causes_of_run(store: Store, run_id: str) -> RunCauses:
    """The causes of a complete run (its id or another name); they are found where they are not yet.

    Earlier runs of the same name come first, up to `LOOK_BACK` of them: a cause keeps its id and
    its name from run to run. The baseline of a run is the one before it.

    Raises:
        UnknownRun: no run is named so.
        ConfigurationError: the run is not complete, or its `[causes] space` needs a package that is
            not installed.
        StoreError: the store cannot be reached.
    """
    run = store.run(run_id)
    if run.status != COMPLETE:
        raise ConfigurationError(
            f"run {run.run_id} is {run.status}; causes are found in complete runs"
        )
    edited = EditedCauses(store)
    found: RunCauses | None = None
    before: tuple[str, RunCauses] | None = None
    stored = store.causes.run_ids()
    for each in [*_runs_before(store, run.run_id, stored), run.run_id]:
        found = store.causes.read(each) if each in stored else None
        if found is None:
            log.info("finding the causes of run %s", each)
            found = _find(store, each, before, edited)
            _keep(store, each, found)
        before = each, found
    assert found is not None  # the last run is the one that was asked for
    return edited.edited(run.run_id, found)


def _keep(store: Store, run_id: str, found: RunCauses) -> None:
    """Store the causes of a run; who may only read gets them without."""
    try:
        store.causes.write(run_id, found)
    except StoreError as error:
        log.warning("the causes of run %s are not stored: %s", run_id, error)


def _runs_before(store: Store, run_id: str, stored: Collection[str]) -> list[str]:
    """The complete runs of the same name from which causes are known, the oldest first.

    They begin with the newest one whose causes are stored. Of those after it, or of all where none
    is stored, the last `LOOK_BACK` are among them.
    """
    earlier = earlier_runs(store, run_id)[::-1]  # the newest first
    known = next((place for place, each in enumerate(earlier) if each in stored), len(earlier))
    return [*earlier[known : known + 1], *reversed(earlier[: min(known, LOOK_BACK)])]


def _find(
    store: Store, run_id: str, before: tuple[str, RunCauses] | None, edited: EditedCauses
) -> RunCauses:
    encoder = encoder_of_run(store.run(run_id).config)
    columns = {**FAILURES, "cause_id": pl.String}
    memory = pl.DataFrame()
    old = pl.DataFrame(schema=columns)
    if before is not None:
        memory = edited.memory(before[1])
        old = memory.with_columns(cause_id="found_as").select(list(columns))
    own = failures(store.scan(run_id, "scores"))
    found = find_edited_causes(own, old, run_id, edited.edits, encoder)
    run = RunWithCauses(run_id, judged_cases(store, run_id), found.failures)
    baseline = None if before is None else edited.with_causes(*before)
    rows = cause_rows(run, found, baseline, edited.known(memory), ALPHA)
    rows = rows.with_columns(_related(store, run))
    shown = found.failures.drop_nulls("cause_id").with_columns(pl.lit(run_id).alias("run_id"))
    case_causes = shown.select(list(CAUSE_TABLES["case_causes"])).unique(maintain_order=True)
    return RunCauses(rows, case_causes, _remember(memory, shown, rows))


def _related(store: Store, run: RunWithCauses) -> pl.Expr:
    """The column `related` of the causes of a run."""
    judged = store.scan(run.run_id, "cases").filter(pl.col("status") == "judged")
    cases = judged.select("case_id", *LABEL_COLUMNS).collect()
    origins = related(run.cases, run.failures, circumstances(cases, run.cases.ids), ALPHA)
    texts = {cause_id: as_json(rows) for cause_id, rows in origins.items()}
    text = pl.col("cause_id").replace_strict(texts, default=None, return_dtype=pl.String)
    return text.alias("related")


def _remember(memory: pl.DataFrame, shown: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The latest failures of each cause, as it was before merges of people.

    A cause that the program merged is remembered as the older one.
    """
    own = shown.join(rows.select("cause_id", "name", "first_run"), on="cause_id", how="left")
    own = own.with_columns(cause_id="found_as").drop("found_as")
    both = own
    if memory.height:
        merged = rows["cause_id"].filter(rows["merged_into"].is_not_null())
        older = memory.filter(~pl.col("cause_id").is_in(merged.implode()))
        older = older.with_columns(cause_id="found_as").drop("found_as")
        both = pl.concat([older, own.select(older.columns)])
    # A cause keeps the name and the first run with which it is remembered.
    both = both.with_columns(pl.col("name", "first_run").first().over("cause_id"))
    return both.group_by("cause_id", maintain_order=True).tail(REMEMBERED)
