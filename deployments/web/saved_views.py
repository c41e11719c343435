"""Saved views: filters and orders of the list of cases that people named, as permalinks.

A view is an annotation of kind `view` about the run in which it was saved: a row that is never
changed. Its text is JSON with a name and a query string, which is checked when it is written and
again when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

import polars as pl
from fastapi import APIRouter, Path
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.exceptions import HTTPException

from assizes.deployments.web.forms import MAX_FIELDS, Fields, parse_form
from assizes.deployments.web.label_routes import WritableDep
from assizes.deployments.web.people_schemas import AnnotationBody, PersonName, RowId, RunName
from assizes.deployments.web.read_routes import StoreReaderDep
from assizes.deployments.web.schemas import CaseQuery
from assizes.deployments.web.sessions import set_name
from assizes.judge.rows import as_json
from assizes.tasks.reports.formatting import clean_line

router = APIRouter(include_in_schema=False)

NAME_CHARS: Final = 80
"""Characters of the name of a view, at most."""

QUERY_CHARS: Final = 2000
"""Characters of the query string of a view, at most."""

MAX_SHOWN: Final = 50
"""Views that a page lists, the newest ones."""


class ViewForm(BaseModel):
    """What the form of a page sends: a view to save, or with `supersedes` one to withdraw."""

    model_config = ConfigDict(frozen=True, extra="forbid", str_strip_whitespace=True)

    run: RunName
    name: str = Field(default="", max_length=NAME_CHARS)
    query: str = Field(default="", max_length=QUERY_CHARS)
    author: PersonName
    supersedes: RowId | None = None


class SavedView(NamedTuple):
    """A view as pages show it."""

    view_id: str
    run_id: str  # in which it was saved
    name: str
    query: str  # of the list of cases, as it stands in an address
    author: str
    day: str

    @property
    def permalink(self) -> str:
        """The address of the view, which stays what it is."""
        return f"/view/views/{self.view_id}"


def checked_query(text: str) -> str:
    """The fields of a query string that `CaseQuery` has, without the place in the list.

    Raises:
        ValueError: a field is unknown, or a value cannot be used.
    """
    pairs = parse_qsl(text, max_num_fields=MAX_FIELDS)
    fields = {name: value for name, value in pairs if name not in ("limit", "offset")}
    CaseQuery.model_validate(fields).case_filter()
    return urlencode(fields)


def saved_views(annotations: pl.DataFrame) -> list[SavedView]:
    """The current views among annotations, the newest first; what cannot be read is left out."""
    rows = annotations.filter(pl.col("kind") == "view").sort("at", descending=True).head(MAX_SHOWN)
    views = (_saved_view(row) for row in rows.iter_rows(named=True))
    return [view for view in views if view is not None]


def _saved_view(row: Mapping[str, Any]) -> SavedView | None:
    try:
        body = json.loads(row["text"])
        name, query = clean_line(str(body["name"]), NAME_CHARS), checked_query(str(body["query"]))
    except (ValueError, TypeError, KeyError):  # sent to the API by other means
        return None
    return SavedView(
        row["annotation_id"],
        row["run_id"],
        name,
        query,
        clean_line(row["author"], NAME_CHARS),
        f"{row['at']:%Y-%m-%d}",
    )


@router.post("/view/views")
def save_view(reader: WritableDep, fields: Fields) -> Response:
    """Save the filters and the order of a list of cases under a name, or withdraw a view."""
    form = parse_form(ViewForm, {name: text for name, text in fields.items() if text})
    try:
        query = checked_query(form.query)
    except (ValidationError, ValueError) as error:
        raise HTTPException(400, f"the view cannot be saved: {first_line(error)}") from None
    about = {"run": form.run, "author": form.author}
    if form.supersedes is not None:
        body = AnnotationBody(**about, kind="withdrawn", supersedes=form.supersedes)
    elif form.name:
        text = as_json({"name": form.name, "query": query})
        body = AnnotationBody(**about, kind="view", text=text)
    else:
        raise HTTPException(400, "a view has a name; write one")
    row, _ = reader.people.add_annotation(body)
    url = f"/view/runs/{quote(row['run_id'], safe='')}/cases?{query}#views"
    response = RedirectResponse(url, 303)
    set_name(response, form.author)
    return response


def first_line(error: Exception) -> str:
    """What is wrong with a query string, in one line."""
    if isinstance(error, ValidationError):
        return "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
        )
    return str(error).split("\n", 1)[0]


@router.get("/view/views/{view_id}")
def open_view(
    reader: StoreReaderDep, view_id: Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
) -> RedirectResponse:
    """The list of cases of a saved view."""
    rows = reader.people.annotations(current=True).filter(pl.col("annotation_id") == view_id)
    views = saved_views(rows)
    if not views:
        raise HTTPException(404, "there is no such view, or it was withdrawn")
    url = f"/view/runs/{quote(views[0].run_id, safe='')}/cases?{views[0].query}"
    return RedirectResponse(url, 303)
