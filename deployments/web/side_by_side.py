"""One case of two runs side by side: a page with keys, forms to label and to comment, and JSON."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlencode
from uuid import uuid4

import polars as pl
from fastapi import APIRouter, Query
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, ConfigDict, Field

from assizes.deployments.web import desk_data
from assizes.deployments.web.desk_data import LabelScale
from assizes.deployments.web.forms import Fields, KnownName, parse_form
from assizes.deployments.web.guard import problem_responses
from assizes.deployments.web.label_routes import WritableDep
from assizes.deployments.web.pages import FormFields, html_response, site
from assizes.deployments.web.people_schemas import (
    MAX_SECONDS,
    AnnotationBody,
    CaseName,
    LabelBody,
    MetricName,
    PersonName,
    PersonText,
    Repetition,
    RowId,
    RunName,
)
from assizes.deployments.web.people_view import comments_of, said_label
from assizes.deployments.web.read_routes import StoreReader, StoreReaderDep
from assizes.deployments.web.sessions import set_name
from assizes.judge.config.gates import VERDICT
from assizes.judge.errors import ConfigurationError
from assizes.tasks.reports.data.side_by_side import side_by_side
from assizes.tasks.reports.render.html import page
from assizes.tasks.reports.schema.side_by_side import SideBySide, TurnRow
from assizes.tasks.runs.case_pairs import StoredPair, StoredSide, stored_pair
from assizes.tasks.store import Store

router = APIRouter()

PATH: Final = "/view/compare/case"
FOLD: Final = 3
"""Equal turns in a row, without a finding or a comment, from which on they are folded."""

SideName = Literal["baseline", "candidate"]
SIDES: Final[tuple[SideName, SideName]] = ("baseline", "candidate")


class _PairModel(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    baseline: RunName
    candidate: RunName
    repetition: Repetition = 0


class PairQuery(_PairModel):
    """A case of two runs, for the API."""

    case_id: CaseName


class PairPageQuery(_PairModel):
    """A case of two runs, and the metric that people label on its page."""

    case: CaseName
    metric: MetricName = VERDICT

    def url(self, **fields: str) -> str:
        """The permalink of the page, with some fields replaced."""
        query = self.model_dump(exclude={"metric", "repetition"}, mode="json")
        if self.repetition:
            query["repetition"] = self.repetition
        if self.metric != VERDICT:
            query["metric"] = self.metric
        return f"{PATH}?{urlencode(query | fields)}"


class PairPress(PairPageQuery):
    """What a person says on the page about the case in one of the runs."""

    side: SideName
    name: PersonName
    text: PersonText = ""
    answer: Literal["comment", "undo"] | Annotated[float, Field(ge=0, le=1)]
    turn: int | None = Field(default=None, ge=0, le=2**31 - 1)
    began: float = 0.0
    row_id: RowId


@router.get("/runs/compare/case", tags=["comparisons"], responses=problem_responses(404, 503))
def compare_case(reader: StoreReaderDep, wanted: Annotated[PairQuery, Query()]) -> SideBySide:
    """Compare one case of two runs: turns aligned, findings at their turns, scores that moved."""
    return side_by_side(_read_pair(reader, wanted, wanted.case_id))


@router.get(PATH, include_in_schema=False)
def case_side_by_side(reader: StoreReaderDep, form: FormFields, known: KnownName) -> Response:
    """The page of one case of two runs."""
    wanted = parse_form(PairPageQuery, form)
    pair = _read_pair(reader, wanted, wanted.case)
    # Forms and links name the runs that are shown, while `latest` soon is another one.
    wanted = wanted.model_copy(update={side: getattr(pair, side).record.run_id for side in SIDES})
    shown = side_by_side(pair)
    metrics = sorted({row.metric for row in shown.scores if not row.part})
    rows = (reader.people.annotations(current=True), reader.people.labels(current=True))
    people: dict[str, dict[str, Any]] = {
        side: _people_data(reader, getattr(pair, side), wanted, known, rows) for side in SIDES
    }
    comments = {side: people[side]["by_turn"] for side in people}
    data = {
        "pair": shown,
        "here": wanted,
        "path": PATH,
        "links": _links(wanted, pair),
        "stretches": _stretches(shown.turns, comments),
        "metrics": [VERDICT, *metrics],
        "labelling": reader.labelling,
        "name": known,
        "people": people,
        "began": f"{time.time():.3f}",
    }
    text = page("side_by_side", data, site("", pair.candidate.record.run_id), "side_by_side.js")
    return html_response(text, script="side_by_side.js")


def _read_pair(reader: StoreReader, wanted: _PairModel, case_id: str) -> StoredPair:
    """The stored rows; the transcripts are read after the store is closed."""
    return reader.read_store(
        lambda store: stored_pair(
            store, wanted.baseline, wanted.candidate, case_id, wanted.repetition
        )
    )


def _links(wanted: PairPageQuery, pair: StoredPair) -> dict[str, Any]:
    """The permalinks of the flips around this case, of its repetitions and of the comparison."""
    numbers = sorted(
        {row.case["repetition"] for side in SIDES for row in getattr(pair, side).executions}
    )
    place = pair.flips.index(pair.case_id) if pair.case_id in pair.flips else None
    after = 0 if place is None else place + 1
    runs: dict[str, str] = {side: getattr(pair, side).record.run_id for side in SIDES}
    first = wanted.model_copy(update={"repetition": 0})
    return {
        "previous": first.url(case=pair.flips[place - 1]) if place else None,
        "next": first.url(case=pair.flips[after]) if after < len(pair.flips) else None,
        "repetitions": [
            (number, first.url(repetition=str(number))) for number in numbers if len(numbers) > 1
        ],
        "comparison": f"/view/compare?{urlencode(runs)}",
        "cases": {side: site("", runs[side]).case_url(pair.case_id) for side in SIDES},
    }


def _stretches(
    rows: Sequence[TurnRow], comments: Mapping[str, Mapping[int, Any]]
) -> list[dict[str, Any]]:
    """The rows in stretches; a long one of equal turns that say nothing new is `folded`.

    Its `findings` counts the findings at its turns, which are the same in both runs.
    """
    stretches: list[dict[str, Any]] = []
    for row in rows:
        is_plain = _says_nothing_new(row, comments)
        if not stretches or stretches[-1]["folded"] != is_plain:
            stretches.append({"folded": is_plain, "rows": [], "findings": 0})
        stretches[-1]["rows"].append(row)
        stretches[-1]["findings"] += len(row.candidate.marks) if row.candidate else 0
    return [
        stretch | {"folded": stretch["folded"] and len(stretch["rows"]) >= FOLD}
        for stretch in stretches
    ]


def _says_nothing_new(row: TurnRow, comments: Mapping[str, Mapping[int, Any]]) -> bool:
    """Whether both runs have the turn with the same findings, and nobody commented on it."""
    before, after = row.baseline, row.candidate
    if row.kind != "same" or before is None or after is None or before.marks != after.marks:
        return False
    return before.number not in comments["baseline"] and after.number not in comments["candidate"]


def _people_data(
    reader: StoreReader,
    side: StoredSide,
    wanted: PairPageQuery,
    known: str,
    rows: tuple[pl.DataFrame, pl.DataFrame],
) -> dict[str, Any]:
    """The labels and comments of people about the case in one run, and the answers there are.

    `rows` are the current annotations and labels of the store.
    """
    run_id = side.record.run_id
    about = (
        (pl.col("run_id") == run_id)
        & (pl.col("case_id") == wanted.case)
        & (pl.col("repetition") == wanted.repetition)
    )
    said = rows[0].filter(about)
    labels = rows[1].filter(
        about & (pl.col("metric") == wanted.metric) & (pl.col("kind") == "label")
    )
    comments = comments_of(said)
    by_turn: dict[int, list[dict[str, Any]]] = {}
    for entry in comments:
        if entry["turn"] is not None:
            by_turn.setdefault(entry["turn"], []).append(entry)
    scale = _scale(reader, side, wanted.metric)
    given = labels.sort("at", "label_id").to_dicts()
    mine = [row["value"] for row in given if row["rater"] == known and row["role"] == "rater"]
    return {
        "comments": comments,
        "by_turn": by_turn,
        "labels": [said_label(row, scale.word(row["value"])) for row in given],
        "mine": mine[-1] if mine else None,
        "choices": scale.choices if side.shown is not None else (),
        "row_ids": (uuid4().hex, uuid4().hex),  # the same form sent twice writes one row
    }


def _scale(reader: StoreReader, side: StoredSide, metric: str) -> LabelScale:
    """The answers about a metric in a run; none where the run has no such metric."""
    if metric == VERDICT:
        return desk_data.VERDICT_SCALE

    def read(store: Store) -> LabelScale:
        try:
            return desk_data.label_scale(store, side.record.run_id, metric)
        except ConfigurationError:
            return LabelScale(metric, (), pl.lit(value=False))

    return reader.read_store(read)


@router.post(PATH, include_in_schema=False)
def press_side_by_side(reader: WritableDep, fields: Fields) -> Response:
    """Store a label or a comment about the case in one run, and show the page again."""
    # A browser sends the empty fields of a form too.
    press = parse_form(PairPress, {name: text for name, text in fields.items() if text})
    if press.answer == "comment":
        reader.people.add_annotation(_comment(press))
        place = "people" if press.turn is None else f"{press.side}-{press.turn}"
    else:
        reader.people.add_label(_label(press))
        place = "people"
    page_query = PairPageQuery.model_validate(
        press.model_dump(include=set(PairPageQuery.model_fields))
    )
    response = RedirectResponse(f"{page_query.url()}#{place}", 303)
    set_name(response, press.name)
    return response


def _comment(press: PairPress) -> AnnotationBody:
    fields = {
        "run": getattr(press, press.side),
        "case_id": press.case,
        "repetition": press.repetition,
        "kind": "comment",
        "turn": press.turn,
        "text": press.text,
        "author": press.name,
        "annotation_id": press.row_id,
    }
    return parse_form(AnnotationBody, fields)


def _label(press: PairPress) -> LabelBody:
    """The row of a label; it is never blind, as the page shows what the judge said."""
    seconds = time.time() - press.began
    is_label = press.answer != "undo"
    return LabelBody(
        run=getattr(press, press.side),
        case_id=press.case,
        repetition=press.repetition,
        metric=press.metric,
        rater=press.name,
        kind="label" if is_label else "withdrawn",
        value=press.answer if isinstance(press.answer, float) else None,
        note=press.text.strip(),
        seconds=round(seconds, 3) if is_label and 0 <= seconds <= MAX_SECONDS else None,
        blind=False,
        label_id=press.row_id,
    )
