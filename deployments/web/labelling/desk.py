"""The desk: the pages on which people label cases, settle disagreements and see how far they are."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode
from uuid import uuid4

import polars as pl
from fastapi import APIRouter, Depends
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from assizes.deployments.web import desk_data
from assizes.deployments.web.desk_data import CaseKey, Dispute, LabelScale
from assizes.deployments.web.forms import Fields, KnownName, parse_form
from assizes.deployments.web.label_routes import WritableDep, writable_reader
from assizes.deployments.web.pages import FormFields, html_response, site
from assizes.deployments.web.people_schemas import (
    MAX_SECONDS,
    ChosenName,
    DeskQuery,
    LabelBody,
    Press,
    Role,
)
from assizes.deployments.web.read_routes import StoreReader
from assizes.deployments.web.sessions import person_name, set_name
from assizes.judge.errors import StoreBusy, UnknownCase
from assizes.tasks.reports.data.case_rows import case_pages
from assizes.tasks.reports.formatting import clean
from assizes.tasks.reports.render.html import page
from assizes.tasks.runs.stored_cases import StoredExecution, stored_executions
from assizes.tasks.store import RunRecord, Store

router = APIRouter(include_in_schema=False)

PATHS: Final[Mapping[Role, str]] = {"rater": "/view/label", "adjudicator": "/view/adjudicate"}
_NOTE_CHARS: Final = 4000


@dataclass(frozen=True, slots=True)
class Place:
    """One list of cases at the desk, and who answers: what its links say."""

    role: Role
    run_id: str
    metric: str
    queue: str
    rater: str
    blind: bool

    def url(self, key: CaseKey | None = None) -> str:
        """The permalink of a case; without one, of the first that waits for an answer.

        It holds no name: whoever opens it answers under their own.
        """
        fields = {"run": self.run_id, "metric": self.metric}
        if self.queue:
            fields["queue"] = self.queue
        if not self.blind:
            fields["blind"] = "false"
        if key is not None:
            fields |= {"case": key[0], "repetition": str(key[1])}
        return f"{PATHS[self.role]}?{urlencode(fields)}"


@dataclass(frozen=True, slots=True)
class Desk:
    """What the desk knows about one list of cases."""

    place: Place
    record: RunRecord
    scale: LabelScale
    keys: Sequence[CaseKey]  # in the order of labelling
    drawn: Mapping[CaseKey, Mapping[str, Any]]  # rows of the queue, by case
    mine: Mapping[CaseKey, Mapping[str, Any]]  # current rows of this person and role
    labelled: set[CaseKey]  # by anybody, in this role
    disputes: Mapping[CaseKey, Dispute]

    @classmethod
    def of(
        cls, store: Store, reader: StoreReader, wanted: DeskQuery, name: str, role: Role
    ) -> Desk:
        """Read a list of cases, and the answers that it has so far."""
        record = store.run(wanted.run)
        scale = desk_data.label_scale(store, record.run_id, wanted.metric)
        is_asked = (pl.col("run_id") == record.run_id) & (pl.col("metric") == wanted.metric)
        current = reader.people.labels(current=True).filter(is_asked)
        disputes = desk_data.disagreements(current)
        drawn: Mapping[CaseKey, Mapping[str, Any]] = {}
        if role == "adjudicator":
            keys: Sequence[CaseKey] = list(disputes)
        elif wanted.queue:
            queue = reader.people.queues().filter(is_asked & (pl.col("queue_id") == wanted.queue))
            if queue.is_empty():
                raise UnknownCase(
                    f"run {record.run_id!r} has no queue {wanted.queue!r} of {wanted.metric}"
                )
            drawn = desk_data.queue_cases(queue)
            keys = list(drawn)
        else:
            keys = desk_data.cases_to_label(store, record.run_id, scale)
        in_role = current.filter(pl.col("role") == role)
        mine = {
            (row["case_id"], row["repetition"]): row
            for row in in_role.filter(pl.col("rater") == name).iter_rows(named=True)
            if row["kind"] in ("label", "skip")
        }
        labels = in_role.filter(pl.col("kind") == "label").select("case_id", "repetition")
        place = Place(role, record.run_id, wanted.metric, wanted.queue, name, wanted.blind)
        return cls(place, record, scale, keys, drawn, mine, set(labels.rows()), disputes)

    def first_open(self) -> CaseKey | None:
        """The first case without an answer of this person; `None` where every case has one."""
        return next((key for key in self.keys if key not in self.mine), None)

    def beside(self, key: CaseKey, step: int) -> CaseKey | None:
        """The case before (-1) or after (1) another; `None` at the ends of the list."""
        position = self.keys.index(key) + step
        return self.keys[position] if 0 <= position < len(self.keys) else None

    def after(self, key: CaseKey) -> CaseKey | None:
        """The next case; behind the last one, the first that waits; `None` if none does."""
        return self.beside(key, 1) or self.first_open()

    def undone(self, key: CaseKey) -> str:
        """The id of the answer that Undo withdraws at a case: its own, else the newest of the list.

        Empty where this person has answered no case of the list.
        """
        shown = (key,) if key in self.mine else self.keys
        rows = (self.mine[each] for each in shown if each in self.mine)
        newest = max(rows, key=lambda row: (row["at"], row["label_id"]), default=None)
        return "" if newest is None else str(newest["label_id"])


@router.get(PATHS["rater"])
def label(reader: WritableDep, form: FormFields, known: KnownName) -> Response:
    """One case to label, without what the judge said until this person has answered."""
    return _desk_page(reader, parse_form(DeskQuery, form), known, "rater")


@router.get(PATHS["adjudicator"])
def adjudicate(reader: WritableDep, form: FormFields, known: KnownName) -> Response:
    """One case about which raters disagree, with what each of them says."""
    return _desk_page(reader, parse_form(DeskQuery, form), known, "adjudicator")


@router.post("/view/name", dependencies=[Depends(writable_reader)])
def choose_name(fields: Fields) -> Response:
    """Keep the name that a person chose in a form, and show the list of cases that they wanted."""
    wanted = parse_form(ChosenName, fields)
    if not (name := person_name(wanted.rater)):
        return _ask_name(wanted, wanted.role)
    # The address of the page that follows holds no name, so a copy of it hands none on.
    url = f"{PATHS[wanted.role]}?{urlencode(_list_fields(wanted))}"
    response = RedirectResponse(url, 303)
    set_name(response, name)
    return response


@router.post(PATHS["rater"])
def press_label(reader: WritableDep, fields: Fields) -> Response:
    """Store one answer of a rater; the redirect that follows says that it is durable."""
    return _press(reader, parse_form(Press, fields), "rater")


@router.post(PATHS["adjudicator"])
def press_settled(reader: WritableDep, fields: Fields) -> Response:
    """Store one answer of an adjudicator."""
    return _press(reader, parse_form(Press, fields), "adjudicator")


def _desk_page(reader: StoreReader, wanted: DeskQuery, known: str, role: Role) -> Response:
    name = known or person_name(wanted.rater)  # a link of somebody else changes no name
    if not name:
        return _ask_name(wanted, role)

    def read(store: Store) -> tuple[Desk, CaseKey | None, list[StoredExecution]]:
        desk = Desk.of(store, reader, wanted, name, role)
        key = desk.first_open() if wanted.case is None else (wanted.case, wanted.repetition)
        if key is None:
            return desk, None, []
        if key not in desk.keys:
            raise UnknownCase(f"case {key[0]!r} is not in this list; {desk.place.url()} begins it")
        return desk, key, stored_executions(store, desk.record.run_id, *key)

    desk, key, executions = reader.read_store(read)
    data: dict[str, Any] = {
        **_list_data(desk),
        "case": None if key is None else _case_data(desk, key, executions),
    }
    response = _desk_response("desk", data, desk.record.run_id)
    if name != known:
        set_name(response, name)
    return response


def _ask_name(wanted: DeskQuery, role: Role) -> HTMLResponse:
    """The page that asks for a name, once."""
    fields = {**_list_fields(wanted), "role": role}
    return _desk_response("desk_name", {"fields": fields, "fault": bool(wanted.rater)})


def _list_fields(wanted: DeskQuery) -> dict[str, str]:
    """The fields of a link to a list of cases; what is left out has its default."""
    chosen = wanted.model_dump(exclude={"rater", "role"}, exclude_defaults=True)
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in chosen.items()
    }


def _desk_response(name: str, data: Mapping[str, Any], run_id: str | None = None) -> HTMLResponse:
    text = page(name, data, site("/view/labels", run_id), "desk.js")
    return html_response(text, script="desk.js")


def _list_data(desk: Desk) -> dict[str, Any]:
    place = desk.place
    return {
        "place": place,
        "path": PATHS[place.role],
        "progress": desk_data.progress_of(desk.keys, desk.mine, desk.labelled),
        "labels_url": f"/view/labels?{urlencode({'run': place.run_id})}",
    }


def _case_data(desk: Desk, key: CaseKey, executions: Sequence[StoredExecution]) -> dict[str, Any]:
    """What is shown of one case. While it is blind, nothing of the judge is among it."""
    place, answer = desk.place, desk.mine.get(key)
    (shown,) = case_pages(desk.record, executions)
    is_open = not place.blind or (answer is not None and answer["kind"] == "label")
    turns = shown["turns"]
    if not is_open:
        turns = [turn | {"marks": [], "failing": False} for turn in turns]
    after, before = desk.after(key), desk.beside(key, -1)
    dispute = desk.disputes.get(key) if place.role == "adjudicator" else None
    return {
        "id": key[0],
        "repetition": key[1],
        "number": list(desk.keys).index(key) + 1,
        "expected": [outcome["statement"] for outcome in shown["outcomes"]],
        "turns": turns,
        "fault": shown["fault"],
        "answer": None if answer is None else _answer_data(desk, answer),
        "labels": [_answer_data(desk, row) for row in dispute.labels] if dispute else [],
        "judge": _judge_data(desk, shown) if is_open else None,
        "reason": desk.drawn.get(key, {}).get("reason") if is_open else None,
        "choices": desk.scale.choices,
        "undoes": desk.undone(key),
        "label_id": uuid4().hex,  # the same form sent twice writes one row
        "began": f"{time.time():.3f}",
        "next_url": place.url(after),
        "previous_url": place.url(before) if before else None,
        "here_url": place.url(key),
    }


def _answer_data(desk: Desk, row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "rater": row["rater"],
        "kind": row["kind"],
        "word": "skipped" if row["kind"] == "skip" else desk.scale.word(row["value"]),
        "value": row["value"],
        "note": clean(row["note"], _NOTE_CHARS),
        "at": row["at"],
    }


def _judge_data(desk: Desk, shown: Mapping[str, Any]) -> dict[str, Any]:
    """What the judge said about the case, and its findings about what is labelled."""
    case, metric = shown["case"], desk.scale.metric
    if metric == desk_data.VERDICT_SCALE.metric:
        value = None if case["passed"] is None else float(case["passed"])
        summary, findings = case["summary"] or case["error"], shown["findings"]
    else:
        short = metric.rpartition("/")[2]
        findings = [row for row in shown["findings"] if row["metric"] in (metric, short)]
        heads = [row for row in findings if not row["part"]]
        value = heads[0]["value"] if heads else None
        summary = heads[0]["justification"] if heads else None
    return {
        "word": "no verdict" if value is None else desk.scale.word(value),
        "value": value,
        "summary": summary,
        "findings": findings,
        "score": case["overall_score"],
    }


def _press(reader: StoreReader, press: Press, role: Role) -> Response:
    """Store an answer, then show its case, or the next one after a skip."""
    query = DeskQuery(
        run=press.run, metric=press.metric, queue=press.queue, rater=press.rater, blind=press.blind
    )
    key: CaseKey | None = (press.case, press.repetition)
    if press.answer == "undo":
        key = _withdraw(reader, press, role)
    elif not _stands(reader, press, role):
        body = _label_body(press, role, press.case, press.repetition)
        reader.people.add_label(body.model_copy(update=_answer_fields(reader, press)))
    if press.answer == "skip":
        key = _next_case(reader, query, press, role)
    place = Place(role, press.run, press.metric, press.queue, press.rater, press.blind)
    response = RedirectResponse(place.url(key), 303)
    set_name(response, press.rater)
    return response


def _next_case(reader: StoreReader, query: DeskQuery, press: Press, role: Role) -> CaseKey | None:
    """The case after the one that was skipped; `None`, which opens the first, where none is known."""
    key = (press.case, press.repetition)
    try:
        return reader.read_store(
            lambda store: Desk.of(store, reader, query, press.rater, role).after(key)
        )
    except StoreBusy:
        return None


def _my_answers(rows: pl.DataFrame, press: Press, role: Role) -> pl.DataFrame:
    """This person's answers to the question, among the rows of table labels."""
    return rows.filter(
        pl.col("run_id") == press.run,
        pl.col("metric") == press.metric,
        pl.col("rater") == press.rater,
        pl.col("role") == role,
        pl.col("kind").is_in(["label", "skip"]),
    )


def _stands(reader: StoreReader, press: Press, role: Role) -> bool:
    """Whether a press changes nothing: the very answer once more, or a skip of an answered case."""
    mine = _my_answers(reader.people.labels(current=True), press, role)
    here = mine.filter(pl.col("case_id") == press.case, pl.col("repetition") == press.repetition)
    for row in here.iter_rows(named=True):
        if press.answer == "skip" and row["kind"] == "label":
            return True
        answer = "skip" if row["kind"] == "skip" else row["value"]
        if row["note"] == press.note.strip() and answer == press.answer:
            return True
    return False


def _answer_fields(reader: StoreReader, press: Press) -> dict[str, Any]:
    """The fields of a row that say what was answered."""
    used = reader.people.labels()["label_id"].to_list()
    # The form of an earlier view, as after the browser's way back, may bring an id once more.
    label_id = uuid4().hex if press.label_id in used else press.label_id
    if press.answer == "skip":
        return {"label_id": label_id}
    return {"label_id": label_id, "kind": "label", "value": press.answer}


def _label_body(press: Press, role: Role, case_id: str, repetition: int) -> LabelBody:
    """The row of an answer without what was answered: a skip."""
    seconds = time.time() - press.began
    return LabelBody(
        run=press.run,
        case_id=case_id,
        repetition=repetition,
        metric=press.metric,
        rater=press.rater,
        role=role,
        kind="skip",
        note=press.note.strip(),
        seconds=round(seconds, 3) if 0 <= seconds <= MAX_SECONDS else None,
        blind=press.blind,
        queue_id=press.queue,
    )


def _withdraw(reader: StoreReader, press: Press, role: Role) -> CaseKey:
    """Withdraw the answer that the form names, unless it no longer counts; returns its case.

    So a form that is sent twice, or that is older than what another tab did, withdraws no other.
    """
    is_named = pl.col("label_id") == press.undoes
    named = _my_answers(reader.people.labels(), press, role).filter(is_named)
    for case_id, repetition in named.select("case_id", "repetition").iter_rows():
        if not reader.people.labels(current=True).filter(is_named).is_empty():
            # An id of its own for each answer: two requests at once write one row.
            label_id = hashlib.sha256(f"undo {press.undoes}".encode()).hexdigest()[:32]
            fields = {"kind": "withdrawn", "seconds": None, "label_id": label_id}
            body = _label_body(press, role, case_id, repetition)
            reader.people.add_label(body.model_copy(update=fields))
        return case_id, repetition
    return press.case, press.repetition
