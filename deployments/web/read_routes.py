"""The API operations that read: runs, a run, its cases, a case, a comparison, the metrics."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated, Final

from fastapi import APIRouter, Depends, Path, Query, Request
from starlette.convertors import PathConvertor, register_url_convertor

from assizes.deployments.web.library import StoreReader, rows_of
from assizes.deployments.web.problems import problem_responses
from assizes.deployments.web.queries import CaseQuery, CompareQuery, ExecutionQuery, RunQuery
from assizes.deployments.web.responses import (
    CaseDetail,
    CaseItem,
    CaseRows,
    Health,
    Metrics,
    Page,
    Progress,
    Run,
    RunDetail,
)
from assizes.judge.catalog import metrics_listing
from assizes.judge.comparison.compare import RunComparison
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.errors import StoreError

router = APIRouter()

CASE_ID: Final = "{case_id:text}"
"""The rest of a path as a case id, which is any text, slashes and line ends included."""


class _TextConvertor(PathConvertor):
    """A convertor that also matches line ends, which Starlette's own `path` does not."""

    regex = "(?s:.*)"


register_url_convertor("text", _TextConvertor())

RunId = Annotated[
    str, Path(max_length=128, description="a run id; a unique beginning of it will do")
]


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
def health(reader: StoreReaderDep) -> Health:
    """Whether the service is up, and whether it can read its store."""
    try:
        reader.read_store(lambda _store: None)
        state = "readable"
    except StoreError:
        state = "not readable"
    return Health(status="ok", version=version("assizes"), store=state)


@router.get("/config/available-metrics", tags=["catalogue"])
def available_metrics(request: Request) -> Metrics:
    """Every conversation metric, opt-in ones included (seed 000)."""
    return Metrics.model_validate(metrics_listing(request.app.state.rubrics))


@router.get("/runs", tags=["runs"], responses=problem_responses(503))
def runs(reader: StoreReaderDep, wanted: Annotated[RunQuery, Query()]) -> Page[Run]:
    """Runs, newest first."""
    return reader.runs(wanted)


@router.get("/runs/compare", tags=["comparisons"], responses=problem_responses(400, 404, 503))
def compare(
    reader: StoreReaderDep,
    base: Annotated[ComparisonConfig, Depends(configured_thresholds)],
    wanted: Annotated[CompareQuery, Query()],
) -> RunComparison:
    """Two complete runs by the documents' rules (seed 001), and by the statistics beside them."""
    return reader.comparison(wanted.baseline, wanted.candidate, wanted.thresholds(base))


@router.get("/runs/{run_id}", tags=["runs"], responses=problem_responses(404, 503))
def run(reader: StoreReaderDep, run_id: RunId) -> RunDetail:
    """A run: its frozen configuration, its summary, its published numbers."""
    return reader.run(run_id)


@router.get("/runs/{run_id}/progress", tags=["runs"], responses=problem_responses(404, 503))
def progress(reader: StoreReaderDep, run_id: RunId) -> Progress:
    """How far a run is."""
    return reader.progress(run_id)


@router.get("/runs/{run_id}/cases", tags=["cases"], responses=problem_responses(404, 503))
def cases(
    reader: StoreReaderDep, run_id: RunId, wanted: Annotated[CaseQuery, Query()]
) -> Page[CaseItem]:
    """Cases of a run, the worst first."""
    return reader.cases(run_id, wanted)


@router.get(
    f"/runs/{{run_id}}/cases/{CASE_ID}", tags=["cases"], responses=problem_responses(404, 503)
)
def case(
    reader: StoreReaderDep,
    run_id: RunId,
    case_id: Annotated[str, Path(max_length=512)],
    wanted: Annotated[ExecutionQuery, Query()],
) -> CaseDetail:
    """A case of a run: its rows, the scores and the asks of every execution."""
    _, executions = reader.case(run_id, case_id, wanted.repetition)
    data = [CaseRows.model_validate(rows_of(execution)) for execution in executions]
    return CaseDetail(data=data, count=len(data))
