"""The API operations about causes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from assizes.deployments.web.causes.data import cause_id_of, known_causes, write_edit
from assizes.deployments.web.causes.schemas import (
    CauseRow,
    EditAnswer,
    EditBody,
    EditsAnswer,
    RunCausesAnswer,
)
from assizes.deployments.web.guard import problem_responses
from assizes.deployments.web.label_routes import WritableDep
from assizes.deployments.web.read_routes import RunId, StoreReaderDep
from assizes.tasks.runs.edits.cause_edits import cause_history
from assizes.tasks.runs.stored_causes import unexplained_cases
from assizes.tasks.store import Store

router = APIRouter(tags=["causes"])

CauseName = Annotated[
    str, Path(min_length=1, max_length=200, description="its id, the beginning of it, or its name")
]


@router.get("/runs/{run_id}/causes", responses=problem_responses(404, 503))
def causes(reader: StoreReaderDep, run_id: RunId) -> RunCausesAnswer:
    """What the failures of a run have in common; they were found by the run or `assizes causes`."""

    def read(store: Store) -> RunCausesAnswer:
        full_id = store.full_id(run_id)
        found = known_causes(store, full_id)
        return RunCausesAnswer(
            run_id=full_id,
            baseline=found.causes["baseline"].first(),
            causes=[CauseRow.model_validate(row) for row in found.causes.iter_rows(named=True)],
            failed_cases_without_cause=unexplained_cases(store, full_id, found),
        )

    return reader.read_store(read)


@router.get("/runs/{run_id}/causes/{cause_id}/edits", responses=problem_responses(404, 503))
def edits(reader: StoreReaderDep, run_id: RunId, cause_id: CauseName) -> EditsAnswer:
    """What people decided about a cause, in order of time; what was undone is among it."""

    def read(store: Store) -> EditsAnswer:
        found = known_causes(store, store.full_id(run_id))
        return EditsAnswer.of(cause_history(store, [cause_id_of(found, cause_id)]))

    return reader.read_store(read)


@router.post(
    "/runs/{run_id}/causes/{cause_id}/edits",
    status_code=201,
    responses=problem_responses(400, 403, 404, 503),
)
def add_edit(reader: WritableDep, run_id: RunId, cause_id: CauseName, body: EditBody) -> EditAnswer:
    """Rename, describe, merge, split, mute or assign a cause, or undo such an edit (`withdrawn`)."""
    entry = reader.read_store(lambda store: write_edit(store, run_id, cause_id, body))
    return EditAnswer.model_validate(entry)
