"""The API operations that read, and the reader of the store that they share with the pages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Annotated, Any, Final, TypeVar

import polars as pl
from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.convertors import PathConvertor, register_url_convertor

from assizes.deployments.options import RUN_NAMES
from assizes.deployments.web import schemas
from assizes.deployments.web.finding import CaseFinder
from assizes.deployments.web.guard import problem_responses
from assizes.deployments.web.people import PeopleRows
from assizes.judge.catalog import metrics_listing
from assizes.judge.comparison.compare import RunComparison
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreError
from assizes.judge.rows import COMPLETE
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.reports.formatting import name_of
from assizes.tasks.reports.stored import corrected_detail
from assizes.tasks.runs.anchor_runs import anchor_attribution, anchors_id
from assizes.tasks.runs.corrected import trust_lines
from assizes.tasks.runs.corrected_comparison import comparison_with_labels
from assizes.tasks.runs.corrected_rows import run_metrics_with_corrections
from assizes.tasks.runs.run_progress import RUNNING, run_progress
from assizes.tasks.runs.stored_cases import StoredExecution, stored_executions
from assizes.tasks.runs.stored_comparison import kept_comparison
from assizes.tasks.runs.stored_runs import with_displayed_status
from assizes.tasks.store import RunRecord, Store, open_store

T = TypeVar("T")

router = APIRouter()

_VERSIONS: Final = 3  # versions of the agent that are named for a run, at most


class StoreReader:
    """Reads one store; each method opens the store, reads, and closes it.

    A run that writes to a DuckDB file lends the file to them. They raise `StoreBusy` where a process
    writes that does not, `StoreError` where the
    store cannot be read, and `UnknownRun` where they are about a run that is not there.
    """

    # Never kept open: a DuckDB file has one writer or several readers, and a run may want to write.
    def __init__(self, config: StoreConfig, *, labelling: bool = False) -> None:
        self.config = config
        self.people = PeopleRows(config)
        self.finder = CaseFinder(config)
        self.labelling = labelling  # whether people may write
        self._versions: dict[str, str] = {}  # of the agent, by the id of a complete run

    def runs(self, wanted: schemas.RunQuery) -> schemas.Page[schemas.Run]:
        """One page of the runs that match a query, those about the newest day first."""
        with open_store(self.config) as store:
            index = store.run_index()
            matches = _matching(store, index, wanted)
            part = matches.slice(wanted.offset, wanted.limit)
            anchors = _anchor_runs(index, part)
            data = [_list_item(store, row, anchors) for row in _whole_rows(store, part)]
        return schemas.Page[schemas.Run](
            data=data, count=matches.height, limit=wanted.limit, offset=wanted.offset
        )

    def run_names(self) -> list[str]:
        """The names of the complete runs, sorted."""
        with open_store(self.config) as store:
            return store.run_index().filter(status=COMPLETE)["name"].unique().sort().to_list()

    def previous_runs(self, run_ids: Iterable[str]) -> dict[str, str]:
        """For each of some runs, the complete run of the same name before it, if there is one."""
        with open_store(self.config) as store:
            complete = store.run_index().filter(status=COMPLETE)  # the newest first
        before = complete.with_columns(before=pl.col("run_id").shift(-1).over("name"))
        known = before.filter(pl.col("run_id").is_in(list(run_ids))).drop_nulls("before")
        return dict(known.select("run_id", "before").iter_rows())

    def run(self, run_id: str) -> schemas.RunDetail:
        """One run with all its numbers."""
        return self.read_store(lambda store: _detail(store, store.run(run_id)))

    def cases(self, run_id: str, wanted: schemas.CaseQuery) -> schemas.CasePage:
        """One page of the cases of a run that match a query."""
        return self.finder.cases(run_id, wanted)

    def case(
        self, run_id: str, case_id: str, repetition: int | None
    ) -> tuple[RunRecord, list[StoredExecution]]:
        """The record of a run and the executions of a case, all or one `repetition` (from 0).

        Raises:
            UnknownCase: the run has no such case.
        """
        with open_store(self.config) as store:
            record = store.run(run_id)
            return record, stored_executions(store, record.run_id, case_id, repetition)

    def agent_versions(self, runs: Iterable[schemas.Run]) -> dict[str, str]:
        """The versions of the agent in the cases of each complete run, by run id."""
        new = [
            run.run_id
            for run in runs
            if run.status == COMPLETE and run.run_id not in self._versions
        ]
        if new:
            with open_store(self.config) as store:
                self._versions |= {run_id: _agent_versions(store, run_id) for run_id in new}
        return self._versions

    def comparison(
        self, baseline: str, candidate: str, thresholds: ComparisonConfig
    ) -> RunComparison:
        """Compare two runs, writing nothing; `NotComparable` if one of them is not complete."""

        def read(store: Store) -> RunComparison:
            compared = kept_comparison(store, baseline, candidate, thresholds)
            return comparison_with_labels(store, compared, thresholds)

        return self.read_store(read)

    def read_store(self, read: Callable[[Store], T]) -> T:
        """Call a function with the open store and return its result."""
        with open_store(self.config) as store:
            return read(store)


def _set_fields(wanted: Any, names: tuple[str, ...]) -> dict[str, Any]:
    values = {name: getattr(wanted, name) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def _agent_versions(store: Store, run_id: str) -> str:
    versions = store.scan(run_id, "cases").select(pl.col("agent_version").drop_nulls().unique())
    names = sorted(collect_rows(versions)["agent_version"])
    more = f" and {len(names) - _VERSIONS:,} more" if len(names) > _VERSIONS else ""
    return ", ".join(name_of(name) for name in names[:_VERSIONS]) + more


def _matching(store: Store, index: pl.DataFrame, wanted: schemas.RunQuery) -> pl.DataFrame:
    """The rows of the index that match a query, with the statuses to show."""
    rows = index
    for field, value in _set_fields(wanted, ("name", "trigger")).items():
        rows = rows.filter(pl.col(field) == value)
    # Status is filtered last: nobody stores `interrupted`, it depends on the time.
    rows = with_displayed_status(store, rows)
    return rows if wanted.status is None else rows.filter(status=wanted.status)


def _whole_rows(store: Store, part: pl.DataFrame) -> Iterator[dict[str, Any]]:
    """The rows of table runs for rows of the index, each with `shown` and `compared`.

    `shown` is the status to show, `compared` the last row of table comparisons about the run as a candidate, or None.
    """
    statuses = dict(part.select("run_id", "status").iter_rows())
    compared = _last_comparisons(store, statuses)
    rows = store.rows_of_runs(statuses)
    for row in rows.iter_rows(named=True):
        run_id = row["run_id"]
        yield {**row, "shown": statuses[run_id], "compared": compared.get(run_id)}


def _anchor_runs(index: pl.DataFrame, part: pl.DataFrame) -> frozenset[str]:
    """The ids of the anchor runs that the runs of a part of the index have."""
    wanted = [anchors_id(run_id) for run_id in part["run_id"]]
    # Of all runs: a filter by name would drop the anchor runs.
    return frozenset(index.filter(pl.col("run_id").is_in(wanted))["run_id"])


def _list_item(store: Store, row: Mapping[str, Any], anchors: frozenset[str]) -> schemas.Run:
    """One item of the list of runs; `anchors` are the ids of the anchor runs of the list."""
    run_id, status = row["run_id"], row["shown"]
    anchored = anchors_id(run_id) in anchors
    item = _run_item(store, row, status, row["compared"], anchored=anchored)
    if status == RUNNING:
        progress = _progress(store, store.run(run_id))
        item = item.model_copy(update={"progress": progress})
    return item


def _last_comparisons(store: Store, run_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
    """The last row of table comparisons for each of some runs that was a candidate, by run id."""
    rows = store.comparisons(list(run_ids)).sort("at", "baseline", "thresholds")  # ties, too
    return {row["candidate"]: row for row in rows.iter_rows(named=True)}


def _run_item(
    store: Store,
    row: Mapping[str, Any],
    status: str,
    compared: Mapping[str, Any] | None,
    *,
    anchored: bool = True,
) -> schemas.Run:
    """One item of the list of runs, from its row, its status to show and its last comparison."""
    attribution = None  # anchors are read only after a regression, as they change only that
    if anchored and compared and json.loads(compared["verdict"]).get("ending") == "regressed":
        attribution = anchor_attribution(store, RunRecord.of_row(row, {}), compared["baseline"])
    return schemas.Run.of_row(
        row, status, compared, judge_moved=bool(attribution and attribution.judge_moved)
    )


def _detail(store: Store, record: RunRecord) -> schemas.RunDetail:
    progress = _progress(store, record)
    metrics = run_metrics_with_corrections(store, record.run_id)
    row = replace(record, status=progress.status).row()
    compared = _last_comparisons(store, [record.run_id]).get(record.run_id)
    item = _run_item(store, row, progress.status, compared).model_dump(exclude={"progress"})
    return schemas.RunDetail(
        **item | {"started_at": record.started_at, "finished_at": record.finished_at},
        config=record.config,
        config_hash=record.config_hash,
        counts=record.counts,
        summary=record.summary,
        metrics=dict(metrics.select("name", "value").iter_rows()),
        calibration=trust_lines(store, record),
        corrected=corrected_detail(store, record),
        progress=progress,
    )


def _progress(store: Store, record: RunRecord) -> schemas.Progress:
    return schemas.Progress.of_run(run_progress(store, record))


CASE_ID: Final = "{case_id:text}"
"""The rest of a path as a case id, which is any text, slashes and line ends included."""


class _TextConvertor(PathConvertor):
    """A convertor that also matches line ends, which Starlette's own `path` does not."""

    regex = "(?s:.*)"


register_url_convertor("text", _TextConvertor())

RunId = Annotated[str, Path(min_length=1, max_length=160, description=RUN_NAMES)]


def store_reader(request: Request) -> StoreReader:
    """The reader of this server's store."""
    reader: StoreReader = request.app.state.library
    return reader


def configured_thresholds(request: Request) -> ComparisonConfig:
    """The thresholds of this server's configuration."""
    thresholds: ComparisonConfig = request.app.state.comparison
    return thresholds


StoreReaderDep = Annotated[StoreReader, Depends(store_reader)]


@router.get("/health", tags=["service"])
def health(reader: StoreReaderDep) -> schemas.Health:
    """Whether the service is up, and whether it can read its store."""
    try:
        reader.read_store(lambda _store: None)  # opening is the check
        state = "readable"
    except StoreError:
        state = "not readable"
    return schemas.Health(status="ok", version=version("assizes"), store=state)


@router.get("/config/available-metrics", tags=["catalogue"])
def available_metrics(request: Request) -> schemas.Metrics:
    """Every conversation metric, opt-in ones included."""
    return schemas.Metrics.model_validate(metrics_listing(request.app.state.rubrics))


@router.get("/runs", tags=["runs"], responses=problem_responses(503))
def runs(
    reader: StoreReaderDep, wanted: Annotated[schemas.RunQuery, Query()]
) -> schemas.Page[schemas.Run]:
    """Runs, those about the newest day first."""
    return reader.runs(wanted)


@router.get("/runs/compare", tags=["comparisons"], responses=problem_responses(400, 404, 503))
def compare(
    reader: StoreReaderDep,
    base: Annotated[ComparisonConfig, Depends(configured_thresholds)],
    wanted: Annotated[schemas.CompareQuery, Query()],
) -> RunComparison:
    """Compare two complete runs by the three rules, and by the statistics beside them."""
    return reader.comparison(wanted.baseline, wanted.candidate, wanted.thresholds(base))


@router.get("/runs/{run_id}", tags=["runs"], responses=problem_responses(404, 503))
def run(reader: StoreReaderDep, run_id: RunId) -> schemas.RunDetail:
    """A run: its frozen configuration, its summary, its published numbers."""
    return reader.run(run_id)


@router.get("/runs/{run_id}/progress", tags=["runs"], responses=problem_responses(404, 503))
def progress(reader: StoreReaderDep, run_id: RunId) -> schemas.Progress:
    """How far a run is."""
    return reader.read_store(lambda store: _progress(store, store.run(run_id)))


@router.get("/runs/{run_id}/cases", tags=["cases"], responses=problem_responses(400, 404, 503))
def cases(
    reader: StoreReaderDep, run_id: RunId, wanted: Annotated[schemas.CaseQuery, Query()]
) -> schemas.CasePage:
    """Cases of a run, the worst first."""
    return reader.cases(run_id, wanted)


@router.get(
    f"/runs/{{run_id}}/cases/{CASE_ID}", tags=["cases"], responses=problem_responses(404, 503)
)
def case(
    reader: StoreReaderDep,
    run_id: RunId,
    case_id: Annotated[str, Path(max_length=512)],
    wanted: Annotated[schemas.ExecutionQuery, Query()],
) -> schemas.CaseDetail:
    """A case of a run: its rows, the scores and the asks of every execution."""
    _, executions = reader.case(run_id, case_id, wanted.repetition)
    data = [
        schemas.CaseRows(
            case=_parsed_row(execution.case, "tags"),
            scores=[_parsed_row(row, "details") for row in execution.scores],
            asks=[_parsed_row(row, "trail") for row in execution.asks],
        )
        for execution in executions
    ]
    return schemas.CaseDetail(data=data, count=len(data))


def _parsed_row(row: Mapping[str, Any], column: str) -> dict[str, Any]:
    """A stored row with one JSON column parsed, unless that is `None`."""
    text = row[column]
    return {**row, column: None if text is None else json.loads(text)}
