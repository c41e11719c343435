"""Reads a store for the API and the pages; the store is open only during a request.

Between requests a run may write: a DuckDB file has one writer or several readers at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import polars as pl

from assizes.deployments.web.queries import CaseQuery, RunQuery
from assizes.deployments.web.responses import CaseItem, Page, Progress, Run, RunDetail
from assizes.judge.comparison.compare import RunComparison, compare
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.config.places import StoreConfig
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runs.anchor_runs import anchor_attribution, anchors_id
from assizes.tasks.runs.calibrations import citation_lines, citations
from assizes.tasks.runs.run_lock import displayed_status
from assizes.tasks.runs.stored_cases import StoredExecution, stored_executions
from assizes.tasks.runs.stored_comparison import run_data
from assizes.tasks.store import RunRecord, Store, open_store

T = TypeVar("T")

_DONE_COUNTS = ("judged", "errored", "skipped")
"""Counts of a shard that together are its finished cases."""


class StoreReader:
    """Reads one store; each method opens the store, reads, and closes it.

    Each method raises `StoreBusy` while another process writes to a DuckDB file, and `StoreError`
    when the store cannot be read.
    """

    def __init__(self, config: StoreConfig) -> None:
        self.config = config

    def runs(self, wanted: RunQuery) -> Page[Run]:
        """One page of the runs that match a query, newest first."""
        with open_store(self.config) as store:
            rows, compared = store.runs(), _last_comparisons(store)
            ids = set(rows["run_id"])
            for field, value in _set_fields(wanted, ("name", "trigger")).items():
                rows = rows.filter(pl.col(field) == value)
            shown = [
                (row, displayed_status(store, row["run_id"], row["status"]))
                for row in rows.iter_rows(named=True)
            ]
            matches = [(row, status) for row, status in shown if wanted.status in (None, status)]
            part = matches[wanted.offset : wanted.offset + wanted.limit]
            data = [
                _run_item(
                    store,
                    (row, status),
                    compared.get(row["run_id"]),
                    anchored=anchors_id(row["run_id"]) in ids,
                )
                for row, status in part
            ]
        return Page[Run](data=data, count=len(matches), limit=wanted.limit, offset=wanted.offset)

    def run(self, run_id: str) -> RunDetail:
        """One run with all its numbers.

        Raises:
            UnknownRun: there is no such run.
        """
        return self.read_store(lambda store: _detail(store, store.run(run_id)))

    def run_id(self, prefix: str) -> str:
        """The full id of the only run whose id begins with a prefix.

        Raises:
            UnknownRun: there is no such run.
        """
        return self.read_store(lambda store: store.run(prefix).run_id)

    def progress(self, run_id: str) -> Progress:
        """How many cases and shards of a run are done.

        Raises:
            UnknownRun: there is no such run.
        """
        return self.read_store(lambda store: _progress(store, store.run(run_id)))

    def cases(self, run_id: str, wanted: CaseQuery) -> Page[CaseItem]:
        """One page of the cases of a run that match a query.

        Raises:
            UnknownRun: there is no such run.
        """
        key = wanted.sort.removeprefix("-")
        with open_store(self.config) as store:
            full_id = store.run(run_id).run_id
            rows = _matching_cases(store, full_id, wanted)
            count = collect_rows(rows.select(pl.len())).item()
            part = rows.select(list(CaseItem.model_fields)).sort(
                [key, "case_id", "repetition"],
                descending=[wanted.sort.startswith("-"), False, False],
                nulls_last=True,
            )
            shown = collect_rows(part.slice(wanted.offset, wanted.limit)).to_dicts()
        data = [CaseItem.model_validate(row) for row in shown]
        return Page[CaseItem](data=data, count=count, limit=wanted.limit, offset=wanted.offset)

    def case(
        self, run_id: str, case_id: str, repetition: int | None
    ) -> tuple[RunRecord, list[StoredExecution]]:
        """The record of a run, and the executions of one of its cases.

        Args:
            run_id: the run id, or a unique beginning of it.
            case_id: the case id.
            repetition: number of the repetition, from 0; `None`: all repetitions.

        Raises:
            UnknownRun: there is no such run.
            UnknownCase: the run has no such case.
        """
        with open_store(self.config) as store:
            record = store.run(run_id)
            return record, stored_executions(store, record.run_id, case_id, repetition)

    def comparison(
        self, baseline: str, candidate: str, thresholds: ComparisonConfig
    ) -> RunComparison:
        """Compare two runs; nothing is written.

        Raises:
            UnknownRun: one of the runs does not exist.
            NotComparable: one of the runs is not complete.
        """
        return self.read_store(
            lambda store: compare(run_data(store, baseline), run_data(store, candidate), thresholds)
        )

    def read_store(self, read: Callable[[Store], T]) -> T:
        """Call a function with the open store and return its result."""
        with open_store(self.config) as store:
            return read(store)


def _set_fields(wanted: Any, names: tuple[str, ...]) -> dict[str, Any]:
    values = {name: getattr(wanted, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _matching_cases(store: Store, run_id: str, wanted: CaseQuery) -> pl.LazyFrame:
    rows = store.scan(run_id, "cases")
    same = ("passed", "status", "agent", "agent_version", "root_cause")
    for field, value in _set_fields(wanted, same).items():
        rows = rows.filter(pl.col(field) == value)
    if wanted.search:
        rows = rows.filter(pl.col("case_id").str.contains(wanted.search, literal=True))
    if wanted.failure_code:
        scores = store.scan(run_id, "scores").filter(pl.col("failure_code") == wanted.failure_code)
        rows = rows.join(
            scores.select("case_id", "repetition").unique(), on=["case_id", "repetition"]
        )
    return rows


def _last_comparisons(store: Store) -> dict[str, dict[str, Any]]:
    """The last row of table comparisons for each run that was a candidate, by run id."""
    rows = store.comparisons().sort("at", "baseline", "thresholds")
    return {row["candidate"]: row for row in rows.iter_rows(named=True)}


def _run_item(
    store: Store,
    run: tuple[Mapping[str, Any], str],
    compared: Mapping[str, Any] | None,
    *,
    anchored: bool = True,
) -> Run:
    """One item of the list of runs.

    Anchors are read only after a regression: only there can they change the verdict, from
    "regression" to "undecided".

    Args:
        store: the open store.
        run: the row of table runs, and the status to show.
        compared: the run's last row of table comparisons, or `None`.
        anchored: whether the anchors were judged with the run.
    """
    row, status = run
    attribution = None
    if anchored and compared and json.loads(compared["verdict"]).get("ending") == "regressed":
        attribution = anchor_attribution(store, RunRecord.of_row(row, {}), compared["baseline"])
    return Run.of_row(
        row, status, compared, judge_moved=bool(attribution and attribution.judge_moved)
    )


def _detail(store: Store, record: RunRecord) -> RunDetail:
    progress = _progress(store, record)
    metrics = store.table(record.run_id, "run_metrics")
    row = replace(record, status=progress.status).row()
    compared = _last_comparisons(store).get(record.run_id)
    item = _run_item(store, (row, progress.status), compared).model_dump()
    return RunDetail(
        **item | {"started_at": record.started_at, "finished_at": record.finished_at},
        config=record.config,
        config_hash=record.config_hash,
        counts=record.counts,
        summary=record.summary,
        metrics=dict(metrics.select("name", "value").iter_rows()),
        calibration=citation_lines(citations(store, record)),
        progress=progress,
    )


def _progress(store: Store, record: RunRecord) -> Progress:
    committed = store.shard_counts(record.run_id)
    counts: dict[str, int] = {}
    for shard in committed.values():
        for name, count in shard.items():
            counts[name] = counts.get(name, 0) + count
    return Progress(
        status=displayed_status(store, record.run_id, record.status),
        due=record.plan.get("due", 0),
        done=sum(counts.get(name, 0) for name in _DONE_COUNTS),
        shards=len(record.plan.get("shards", ())),
        shards_done=len(committed),
        counts=counts,
    )


def rows_of(execution: StoredExecution) -> dict[str, Any]:
    """The rows of an execution, with their JSON columns parsed."""
    return {
        "case": execution.case | {"tags": _parse_json(execution.case["tags"])},
        "scores": [row | {"details": _parse_json(row["details"])} for row in execution.scores],
        "asks": [row | {"trail": _parse_json(row["trail"])} for row in execution.asks],
    }


def _parse_json(text: str | None) -> Any:
    return None if text is None else json.loads(text)
