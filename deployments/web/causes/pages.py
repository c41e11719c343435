"""The pages of causes: those of a run, and one over the runs, where people decide about it."""

from __future__ import annotations

from typing import Annotated, Any, Final
from urllib.parse import quote

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from assizes.deployments.web.causes.data import (
    CASES_SHOWN,
    CausePoint,
    cases_of_cause,
    cause_id_of,
    cause_points,
    known_causes,
    shown_row,
    write_edit,
)
from assizes.deployments.web.causes.schemas import EditBody
from assizes.deployments.web.forms import KnownName, form_pairs, parse_form
from assizes.deployments.web.label_routes import WritableDep
from assizes.deployments.web.pages import page_response
from assizes.deployments.web.read_routes import RunId, StoreReaderDep
from assizes.deployments.web.sessions import set_name
from assizes.tasks.runs.edits.cause_edits import cause_history
from assizes.tasks.runs.stored_causes import stored_causes, unexplained_cases
from assizes.tasks.store import Store

router = APIRouter(include_in_schema=False)

_LINE_WIDTH: Final = 96  # of the small line of a cause, in pixels
_LINE_HEIGHT: Final = 24


@router.get("/view/runs/{run_id}/causes")
def causes(reader: StoreReaderDep, run_id: RunId) -> HTMLResponse:
    """What the failures of a run have in common."""

    def read(store: Store) -> dict[str, Any]:
        full_id = store.full_id(run_id)
        found = stored_causes(store, full_id)
        if found is None:
            return {"run_id": full_id, "causes": None, "unexplained": 0}
        points = cause_points(store, full_id)
        return {
            "run_id": full_id,
            "baseline": found.causes["baseline"].first(),
            "causes": [
                shown_row(row) | {"line": _small_line(points[row["cause_id"]])}
                for row in found.causes.iter_rows(named=True)
            ],
            "unexplained": unexplained_cases(store, full_id, found),
        }

    data = reader.read_store(read)
    return page_response("cause_list", data, "", data["run_id"])


@router.get("/view/runs/{run_id}/causes/{cause_id}")
def cause(reader: StoreReaderDep, run_id: RunId, cause_id: str, known: KnownName) -> HTMLResponse:
    """One cause: its share run by run, its cases in this run, and what people decided about it."""
    from assizes.tasks.reports.render.cause_chart import cause_chart  # altair loads slowly

    def read(store: Store) -> dict[str, Any]:
        full_id = store.full_id(run_id)
        found = known_causes(store, full_id)
        own_id = cause_id_of(found, cause_id)
        rows = {row["cause_id"]: shown_row(row) for row in found.causes.iter_rows(named=True)}
        cases = cases_of_cause(store, full_id, found, own_id)
        return {
            "run_id": full_id,
            "cause_id": own_id,
            "row": rows.get(own_id),
            "others": [row for name, row in rows.items() if name != own_id],
            "points": cause_points(store, full_id).get(own_id, []),
            "cases": cases.to_dicts(),
            "case_ids": cases["case_id"].unique(maintain_order=True).to_list(),
            "edits": cause_history(store, [own_id]),
        }

    data = reader.read_store(read)
    points, row = data["points"], data["row"]
    chart = cause_chart(row["name"], points) if row is not None and len(points) > 1 else None
    more = {"chart": chart, "author": known, "labelling": reader.labelling, "most": CASES_SHOWN}
    return page_response("cause", data | more, "", data["run_id"])


async def _edit_form(request: Request) -> EditBody:
    pairs = await form_pairs(request, CASES_SHOWN + 10)
    cases = [text for name, text in pairs if name == "case"]
    fields = {name: text for name, text in pairs if name != "case" and text}
    return parse_form(EditBody, fields | ({"case_ids": cases} if cases else {}))


@router.post("/view/runs/{run_id}/causes/{cause_id}")
def edit_cause(
    reader: WritableDep,
    run_id: RunId,
    cause_id: str,
    body: Annotated[EditBody, Depends(_edit_form)],
) -> Response:
    """Store what the form of a cause says, and show the cause, or the one into which it went."""
    entry = reader.read_store(lambda store: write_edit(store, run_id, cause_id, body))
    shown = entry["value"] if entry["kind"] == "merge" and not entry["undone"] else cause_id
    url = f"/view/runs/{quote(run_id, safe='')}/causes/{quote(shown, safe='')}"
    response = RedirectResponse(url, 303)
    set_name(response, body.author)
    return response


def _small_line(points: list[CausePoint]) -> dict[str, Any]:
    """The share of a cause over runs as the points of an SVG line from 0 up, and in words."""
    highest = max(0.01, *(point.share for point in points))
    step = _LINE_WIDTH / max(1, len(points) - 1)
    places = [
        f"{place * step:.1f},{_LINE_HEIGHT - 2 - (_LINE_HEIGHT - 4) * point.share / highest:.1f}"
        for place, point in enumerate(points)
    ]
    words = ", ".join(f"{100 * point.share:.1f} %" for point in points)
    return {
        "points": " ".join(places) if len(points) > 1 else "",
        "words": f"Share in the last {len(points)} runs: {words}",
        "width": _LINE_WIDTH,
        "height": _LINE_HEIGHT,
    }
