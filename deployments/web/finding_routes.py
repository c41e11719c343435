"""The API and the pages that find things: full text in many runs, CSV, two runs that are ticked."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Final
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse

from assizes.deployments.commands.sql import csv_text
from assizes.deployments.web.forms import parse_form
from assizes.deployments.web.guard import problem_responses
from assizes.deployments.web.pages import FormFields, excerpt_parts, page_response
from assizes.deployments.web.read_routes import RunId, StoreReader, StoreReaderDep
from assizes.deployments.web.schemas import (
    CaseItem,
    CaseQuery,
    RunHits,
    RunQuery,
    SearchPage,
    SearchQuery,
)
from assizes.judge.errors import ConfigurationError

router = APIRouter()

CSV_COLUMNS: Final = [*CaseItem.model_fields, "started_at", "tags", "tools", "flags"]
"""Columns of the CSV file of cases: those of the list, and what can be filtered."""

_WAIT_S: Final = 0.5  # seconds that a search of many runs waits for the index of each


@router.get("/search", tags=["cases"], responses=problem_responses(400, 503))
def search(reader: StoreReaderDep, wanted: Annotated[SearchQuery, Query()]) -> SearchPage:
    """Search the full text of the newest runs: ids, tags, summaries, reasons and conversations."""
    return _search(reader, wanted)


def _search(reader: StoreReader, wanted: SearchQuery) -> SearchPage:
    runs = reader.runs(RunQuery(limit=wanted.runs)).data
    query = CaseQuery(q=wanted.q, limit=wanted.limit)
    hits = [
        RunHits(
            run_id=run.run_id,
            day=run.day,
            page=reader.finder.cases(run.run_id, query, wait_s=_WAIT_S),
        )
        for run in runs
    ]
    unfinished = sum(not hit.page.index.is_complete for hit in hits if hit.page.index is not None)
    return SearchPage(
        data=[hit for hit in hits if hit.page.count], searched=len(hits), unfinished=unfinished
    )


@router.get(
    "/runs/{run_id}/cases.csv",
    tags=["cases"],
    response_class=Response,
    responses={**problem_responses(400, 404, 503), 200: {"content": {"text/csv": {}}}},
)
def cases_csv(
    reader: StoreReaderDep, run_id: RunId, wanted: Annotated[CaseQuery, Query()]
) -> StreamingResponse:
    """All cases that match, as CSV; `limit` and `offset` do not matter."""
    return _csv_response(reader, run_id, wanted)


@router.get("/view/runs/{run_id}/cases.csv", include_in_schema=False)
def cases_csv_of_page(reader: StoreReaderDep, run_id: RunId, form: FormFields) -> StreamingResponse:
    """The same for the form of a page, whose empty fields a browser sends too."""
    return _csv_response(reader, run_id, parse_form(CaseQuery, form))


def _csv_response(reader: StoreReader, run_id: str, wanted: CaseQuery) -> StreamingResponse:
    blocks = reader.finder.blocks(run_id, wanted, CSV_COLUMNS)
    first = next(blocks)  # errors become a problem document before the first byte is sent

    def lines() -> Iterator[str]:
        yield csv_text(CSV_COLUMNS, [])
        for block in chain([first], blocks):
            # Each block has the header, which is one line: no name of a column holds a line end.
            yield csv_text(CSV_COLUMNS, block.rows()).partition("\n")[2]

    headers = {"Content-Disposition": 'attachment; filename="cases.csv"'}
    return StreamingResponse(lines(), media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/view/search", include_in_schema=False)
def search_page(reader: StoreReaderDep, form: FormFields) -> HTMLResponse:
    """A search of full text in the newest runs."""
    data: dict[str, object] = {"q": form.get("q", ""), "result": None, "fault": None}
    if form:
        try:
            result = _search(reader, parse_form(SearchQuery, form))
        except ConfigurationError as error:  # shown beside the form
            data["fault"] = str(error)
        else:
            data["result"] = result
            data["excerpts"] = {
                hit.run_id: [excerpt_parts(text) for text in hit.page.excerpts or ()]
                for hit in result.data
            }
    return page_response("search", data, "/view/search")


@router.get("/view/compare-ticked", include_in_schema=False)
def compare_ticked(
    reader: StoreReaderDep,
    run: Annotated[list[RunId], Query(max_length=50)] = [],  # noqa: B006
) -> RedirectResponse:
    """The comparison of the two runs that were ticked in the list; the older is the baseline."""
    chosen = list(dict.fromkeys(run))
    if len(chosen) != 2:
        raise ConfigurationError(f"{len(chosen)} runs are ticked; tick two to compare them")
    records = reader.read_store(lambda store: [store.run(name) for name in chosen])
    older, newer = sorted(records, key=lambda record: (str(record.day), record.started_at))
    query = urlencode({"baseline": older.run_id, "candidate": newer.run_id})
    return RedirectResponse(f"/view/compare?{query}", 303)
