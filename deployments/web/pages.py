"""The web pages: runs, a run, its cases, a case, the explanation of a score, comparison, trends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final
from urllib.parse import quote, unquote, urlencode

import polars as pl
from fastapi import APIRouter, Cookie, Depends, Query, Request
from fastapi.responses import HTMLResponse

from assizes.deployments.web.forms import parse_form
from assizes.deployments.web.guard import Problem
from assizes.deployments.web.people_view import annotate_case, notes_of_runs
from assizes.deployments.web.read_routes import (
    CASE_ID,
    RunId,
    StoreReaderDep,
    configured_thresholds,
)
from assizes.deployments.web.saved_views import saved_views
from assizes.deployments.web.schemas import (
    CaseQuery,
    ComparePageQuery,
    ExecutionQuery,
    Page,
    RunQuery,
    TrendsPageQuery,
)
from assizes.deployments.web.sessions import NAME_COOKIE, person_name
from assizes.judge.config.gates import ComparisonConfig, SeriesConfig
from assizes.judge.errors import ConfigurationError, StoreError
from assizes.judge.score import LABELS
from assizes.tasks.finding.search_index import MARK_BEGIN, MARK_END
from assizes.tasks.reports.data.case_rows import EXCERPT_CHARS, MAX_OBJECT_BYTES, case_pages
from assizes.tasks.reports.data.comparison import comparison_part
from assizes.tasks.reports.data.explain_page import explain_page, metric_explanation
from assizes.tasks.reports.data.first_look import first_look
from assizes.tasks.reports.data.report import COMPARISON_ENDINGS
from assizes.tasks.reports.formatting import clean
from assizes.tasks.reports.render.html import (
    NavigationLink,
    Site,
    html_report,
    page,
    policy_of,
    with_interval_bars,
)
from assizes.tasks.reports.stored import StoredReport, read_report
from assizes.tasks.runs.corrected_rows import trends_with_corrections
from assizes.tasks.runs.history import RunRange, stored_trends
from assizes.tasks.runs.stored_causes import causes_of_case
from assizes.tasks.runs.stored_comparison import stored_comparison
from assizes.tasks.store import Store

router = APIRouter(include_in_schema=False)  # pages are no part of the API

_TRIGGERS: Final = ("", "nightly", "deployment", "backfill", "adhoc")  # "": any
_STATUSES: Final = ("", "running", "interrupted", "complete", "incomplete", "failed")  # "": any
_SORTS: Final = (  # (`sort` of `CaseQuery`, words for it)
    ("overall_score", "lowest score first"),
    ("-overall_score", "highest score first"),
    ("case_id", "by id"),
    ("-agent_latency_ms", "slowest first"),
    ("-agent_cost_usd", "dearest first"),
    ("-turn_count", "longest first"),
    ("started_at", "oldest first"),
    ("-started_at", "newest first"),
)
_LEVELS: Final = (
    ("", "below acceptable"),
    *((label, label.replace("_", " ")) for label in (*LABELS, "pass", "yes", "no")),
)
_LABEL_WORDS: Final = (
    *(("", "any or none"), ("any", "some"), ("none", "none"), ("pass", "pass"), ("fail", "fail")),
    *(("agrees", "agrees with the judge"), ("differs", "differs from the judge")),
)
_RUNS_OFFERED: Final = 200
"""Newest complete runs that a person can choose from on the page of comparisons."""


def filled_fields(request: Request) -> dict[str, str]:
    """The query parameters that are not empty: a browser also sends the empty fields of a form.

    Who takes them must parse them by a model that allows no others (`parse_form`).
    """
    return {name: value for name, value in request.query_params.items() if value}


def page_response(
    name: str, data: Mapping[str, Any], here: str, run_id: str | None = None
) -> HTMLResponse:
    """Render the template of a name with its variables, and the navigation of `site`."""
    return html_response(page(name, data, site(here, run_id)))


def site(here: str, run_id: str | None = None) -> Site:
    """The navigation of a page: `here` is the path of its entry, or empty; it links to `run_id`."""
    entries = (
        *(("Runs", "/"), ("Compare", "/view/compare"), ("Trends", "/view/trends")),
        *(("Search", "/view/search"), ("Labels", "/view/labels")),
        ("Calibration", "/view/calibration"),
    )
    return Site(tuple(NavigationLink(name, url, url == here) for name, url in entries), run_id)


def problem_page(request: Request, problem: Problem) -> HTMLResponse | None:
    """Render an error as a page; `None` where the request was for the API."""
    path = request.url.path
    if path != "/" and not path.startswith("/view"):
        return None
    data = {"problem_title": problem.title, "detail": problem.detail}
    return html_response(page("problem", data, site("")), problem.status)


def html_response(text: str, status: int = 200, script: str = "page.js") -> HTMLResponse:
    """A page with its content security policy, which allows one script."""
    policy = f"{policy_of(served=True, script=script)}; frame-ancestors 'none'"  # in a header only
    headers = {
        "Content-Security-Policy": policy,
        # With `no-referrer` a browser sends a form without its origin, and forms need theirs.
        "Referrer-Policy": "same-origin",
    }
    return HTMLResponse(text, status, headers=headers)


FormFields = Annotated[dict[str, str], Depends(filled_fields)]
NameCookie = Annotated[str, Cookie(alias=NAME_COOKIE)]


@router.get("/")
def runs(reader: StoreReaderDep, form: FormFields, known: NameCookie = "") -> HTMLResponse:
    """Every run, those about the newest day first."""
    wanted = parse_form(RunQuery, form)
    matches = reader.runs(wanted)
    data = {
        "page": matches,
        "store": reader.config.uri,
        "chosen": wanted,
        "triggers": _TRIGGERS,
        "statuses": _STATUSES,
        # Run id -> earlier run to compare with.
        "before": reader.previous_runs(item.run_id for item in matches.data),
        "versions": reader.agent_versions(matches.data),
        "notes": notes_of_runs(reader.people.annotations(current=True)),
        "labelling": reader.labelling,
        "author": person_name(unquote(known)),
        "pager": _pager("/", form, matches),
    }
    return page_response("runs", data, "/")


@router.get("/view/runs/{run_id}")
def run(reader: StoreReaderDep, run_id: RunId) -> HTMLResponse:
    """The report of a run, or its progress while it has no summary."""
    detail = reader.run(run_id)
    if detail.summary is None:  # not ended: the page reloads itself
        return page_response("progress", {"run": detail}, "", detail.run_id)

    def read(store: Store) -> StoredReport:
        record = store.run(detail.run_id)
        return read_report(store, record, stored_comparison(store, record))

    # The transcripts are fetched after the store is closed, so that a run may write meanwhile.
    data = reader.read_store(read).with_conversations()
    return html_response(html_report(data, site("", detail.run_id)))


@router.get("/view/runs/{run_id}/cases")
def cases(
    reader: StoreReaderDep, run_id: RunId, form: FormFields, known: NameCookie = ""
) -> HTMLResponse:
    """Cases of a run, the worst first."""
    wanted = parse_form(CaseQuery, form)
    full_id = reader.read_store(lambda store: store.full_id(run_id))  # it may be a beginning
    matches = reader.cases(full_id, wanted)
    data = {
        "run_id": full_id,
        "page": matches,
        "chosen": wanted,
        "passed": form.get("passed", ""),
        "sorts": _SORTS,
        "levels": _LEVELS,
        "labels": _LABEL_WORDS,
        "excerpts": [excerpt_parts(text) for text in matches.excerpts or ()],
        "query": urlencode({key: form[key] for key in form if key not in ("limit", "offset")}),
        "views": saved_views(reader.people.annotations(current=True)),
        "labelling": reader.labelling,
        "author": person_name(unquote(known)),
        "pager": _pager(f"/view/runs/{quote(full_id)}/cases", form, matches),
    }
    return page_response("case_list", data, "", full_id)


@router.get(f"/view/runs/{{run_id}}/cases/{CASE_ID}")
def case(
    reader: StoreReaderDep,
    run_id: RunId,
    case_id: str,
    wanted: Annotated[ExecutionQuery, Query()],
    known: NameCookie = "",
) -> HTMLResponse:
    """One case: its scores, and its conversation with the scores beside the turns they name."""
    record, stored_executions = reader.case(run_id, case_id, wanted.repetition)
    said = reader.people.annotations(current=True).filter(
        (pl.col("run_id") == record.run_id) & (pl.col("case_id") == case_id)
    )
    executions = case_pages(record, stored_executions)
    for execution in executions:
        for finding in execution["findings"]:
            row = execution["case"]
            query = {"run": record.run_id, "case": row["case_id"], "metric": finding["metric"]}
            query["repetition"] = row["repetition"]
            finding["url"] = f"/view/explain?{urlencode(query)}"  # a query, as ids may hold slashes
    annotate_case(executions, said)
    causes = reader.read_store(lambda store: causes_of_case(store, record.run_id, case_id))
    data = {
        "run_id": record.run_id,
        "case_id": case_id,
        "executions": executions,
        "causes": causes,
        "labelling": reader.labelling,
        "author": person_name(unquote(known)),
    }
    return page_response("case", data, "", record.run_id)


@router.get("/view/case")
def case_by_query(
    reader: StoreReaderDep,
    run: str,
    case_id: Annotated[str, Query(alias="case")],
    known: NameCookie = "",
) -> HTMLResponse:
    """The page of a case whose id cannot stand in a path, as it holds `..` between slashes."""
    return case(reader, run, case_id, ExecutionQuery(), known)


@router.get("/view/explain")
def explain(
    reader: StoreReaderDep, run: str, case: str, metric: str, repetition: int = 0
) -> HTMLResponse:
    """The explanation of a score: the exact prompt, the reply, its cost and versions."""
    record, (execution,) = reader.case(run, case, repetition)  # one, as a repetition is given
    document = explain_page(metric_explanation(record, execution, metric, MAX_OBJECT_BYTES))
    url = site("", record.run_id).case_url(case)
    return page_response("explain", {**document, "case_url": url}, "", record.run_id)


@router.get("/view/compare")
def compare(
    reader: StoreReaderDep,
    form: FormFields,
    base: Annotated[ComparisonConfig, Depends(configured_thresholds)],
) -> HTMLResponse:
    """Two runs side by side."""
    listed = reader.runs(RunQuery(status="complete", limit=_RUNS_OFFERED)).data
    chosen = parse_form(ComparePageQuery, form).model_dump()
    data: dict[str, Any] = {"runs": listed, "chosen": chosen, "comparison": None, "verdict": None}
    if all(chosen.values()):
        thresholds = base.model_copy(update={"baseline": None})  # the form names the runs
        compared = reader.comparison(**chosen, thresholds=thresholds)
        chosen = {"baseline": compared.baseline_run_id, "candidate": compared.candidate_run_id}
        comparison = comparison_part(compared)
        assert comparison is not None, "there is a comparison"
        outcome, word = COMPARISON_ENDINGS[comparison.ending]
        data |= {"comparison": comparison, "verdict": {"outcome": outcome, "word": word}}
        data["corrected"] = compared.corrected
        data["first_look"] = with_interval_bars(first_look(comparison.why, comparison).model_dump())
    return page_response("compare", data, "/view/compare", chosen["candidate"] or None)


@router.get("/view/trends")
def trends(request: Request, reader: StoreReaderDep, form: FormFields) -> HTMLResponse:
    """The page of all runs of one name: a chart of each number over time, and its incidents."""
    from assizes.tasks.reports.render.trend_chart import trend_charts  # altair loads slowly

    series: SeriesConfig = request.app.state.series
    names = reader.run_names()
    wanted = parse_form(TrendsPageQuery, form)
    name = wanted.name or (names[0] if names else None)
    data: dict[str, Any] = {"names": names, "name": name, "found": None, "fault": None}
    try:
        history = reader.read_store(
            lambda store: trends_with_corrections(
                store, stored_trends(store, RunRange(name=name), series)
            )
        )
    except (StoreError, ConfigurationError) as error:  # shown beside the form
        data["fault"] = str(error)
    else:
        known = sorted({trend.series for trend in history.series})
        if wanted.series:
            shown = tuple(trend for trend in history.series if trend.series == wanted.series)
            history = history.model_copy(update={"series": shown})
        data |= {"found": history, "charts": trend_charts(history)}
        data |= {"known": known, "chosen": wanted.series}
    return page_response("trends", data, "/view/trends")


def excerpt_parts(text: str) -> list[tuple[str, bool]]:
    """The pieces of an excerpt, and whether each was searched for; the template escapes them."""
    pieces = []
    for place, piece in enumerate(text.split(MARK_BEGIN)):
        marked, end, rest = piece.partition(MARK_END)
        if end and place:
            pieces.append((clean(marked, EXCERPT_CHARS), True))
            marked = rest
        if marked:
            pieces.append((clean(marked, EXCERPT_CHARS), False))
    return pieces


def _pager(base: str, fields: Mapping[str, str], part: Page[Any]) -> dict[str, str | None]:
    """The links to the previous and the next part of a list, and a text about the part shown."""

    def link(offset: int) -> str:
        return f"{base}?{urlencode({**fields, 'offset': offset})}"

    last = min(part.offset + part.limit, part.count)
    return {
        "before": link(max(0, part.offset - part.limit)) if part.offset else None,
        "after": link(last) if last < part.count else None,
        "shown": f"{part.offset + 1:,} to {last:,} of {part.count:,}",
        "start": link(0) if 0 < part.count <= part.offset else None,  # behind the end
    }
