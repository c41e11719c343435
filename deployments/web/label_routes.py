"""The API operations about labels, annotations and queues of cases to label."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

import polars as pl
from fastapi import APIRouter, Depends, Query, Response
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from assizes.deployments.web.guard import problem_responses
from assizes.deployments.web.people_schemas import (
    AnnotationBody,
    AnnotationQuery,
    AnnotationRow,
    LabelBody,
    LabelQuery,
    LabelRow,
    QueueQuery,
    QueueRow,
)
from assizes.deployments.web.read_routes import StoreReader, StoreReaderDep
from assizes.deployments.web.schemas import Page

router = APIRouter(tags=["people"])

R = TypeVar("R", bound=BaseModel)

READ_ONLY = "this server only reads; `assizes serve --labelling` lets people write"


def writable_reader(reader: StoreReaderDep) -> StoreReader:
    """The reader of this server's store, where people may write; else the request is refused."""
    if not reader.labelling:
        raise HTTPException(403, READ_ONLY)
    return reader


WritableDep = Annotated[StoreReader, Depends(writable_reader)]

_WRITE = problem_responses(400, 403, 404, 409, 503)
_READ = problem_responses(404, 503)


@router.post("/labels", status_code=201, responses={**_WRITE, 200: {"model": LabelRow}})
def add_label(reader: WritableDep, body: LabelBody, response: Response) -> LabelRow:
    """Store a label of a person; the row is durable when this answers.

    A label replaces the one that the same person gave before. The same `label_id` again writes
    nothing and is answered with 200.
    """
    row, is_new = reader.people.add_label(body)
    response.status_code = 201 if is_new else 200
    return LabelRow.model_validate(row)


@router.get("/labels", responses=_READ)
def list_labels(reader: StoreReaderDep, wanted: Annotated[LabelQuery, Query()]) -> Page[LabelRow]:
    """Labels of people in order of time; rows that were corrected or withdrawn are among them."""
    return _part(reader, reader.people.labels(current=wanted.current), wanted, LabelRow)


@router.post("/annotations", status_code=201, responses={**_WRITE, 200: {"model": AnnotationRow}})
def add_annotation(reader: WritableDep, body: AnnotationBody, response: Response) -> AnnotationRow:
    """Store a comment, an overruled verdict, a wrong finding, or the note and tags of a run."""
    row, is_new = reader.people.add_annotation(body)
    response.status_code = 201 if is_new else 200
    return AnnotationRow.model_validate(row)


@router.get("/annotations", responses=_READ)
def list_annotations(
    reader: StoreReaderDep, wanted: Annotated[AnnotationQuery, Query()]
) -> Page[AnnotationRow]:
    """Annotations of people in order of time; those that were replaced are among them."""
    return _part(reader, reader.people.annotations(current=wanted.current), wanted, AnnotationRow)


@router.get("/queues", responses=_READ)
def list_queues(reader: StoreReaderDep, wanted: Annotated[QueueQuery, Query()]) -> Page[QueueRow]:
    """The cases that `assizes labels queue` drew, by queue and position."""
    return _part(reader, reader.people.queues(), wanted, QueueRow)


def _part(reader: StoreReader, rows: pl.DataFrame, wanted: Any, model: type[R]) -> Page[R]:
    """One page of the rows that match a query."""
    if wanted.run is not None:
        run_id = reader.read_store(lambda store: store.run(wanted.run).run_id)
        rows = rows.filter(pl.col("run_id") == run_id)
    for name, value in wanted.filters().items():
        rows = rows.filter(pl.col(name) == value)
    part = rows.slice(wanted.offset, wanted.limit).to_dicts()
    data = [model.model_validate(row) for row in part]
    return Page[model](  # type: ignore[valid-type]
        data=data, count=rows.height, limit=wanted.limit, offset=wanted.offset
    )
