"""Writes what people say to the store, and reads it; a row is durable when a function returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from threading import Lock
from typing import Any, Final, NamedTuple, TypeVar
from uuid import uuid4

import polars as pl

from assizes.deployments.web.desk_data import VERDICT_SCALE, LabelScale, label_scale
from assizes.deployments.web.people_schemas import (
    FINDING_KINDS,
    AnnotationBody,
    LabelBody,
    checked_tags,
    tag_set,
)
from assizes.judge.config.gates import VERDICT
from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import ConfigurationError, StoreBusy, TakenKey, UnknownCase
from assizes.judge.labels.current import current_annotations, current_labels
from assizes.judge.rows import as_json
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.reports.formatting import line_of
from assizes.tasks.store import Store, indexed_runs, open_store
from assizes.tasks.store.people import people_tables

T = TypeVar("T")

_CASE_KEY: Final = ("run_id", "case_id", "repetition")


class JudgeWord(NamedTuple):
    """What the judge said about a case: the number in the scale of labels, and its version."""

    score: float | None
    version: str | None
    transcript_hash: str | None = None  # of the conversation; None: it could not be read
    agent_version: str | None = None


class _Target(NamedTuple):
    run_id: str  # the full id
    word: JudgeWord


class PeopleRows:
    """The tables of people in one store; it never keeps the store open."""

    def __init__(self, config: StoreConfig) -> None:
        self._config = config
        self._tables = people_tables(config)
        self._lock = Lock()

    def labels(self, *, current: bool = False) -> pl.DataFrame:
        """Table labels; `current`: without what was corrected or withdrawn."""
        rows = self._tables.rows("labels")
        return current_labels(rows) if current else rows

    def annotations(self, *, current: bool = False) -> pl.DataFrame:
        """Table annotations; `current`: without what was replaced or withdrawn."""
        rows = self._tables.rows("annotations")
        return current_annotations(rows) if current else rows

    def queues(self) -> pl.DataFrame:
        """Table queues, in the order of their positions."""
        return self._tables.rows("queues").sort("queue_id", "position")

    def add_label(self, body: LabelBody) -> tuple[dict[str, Any], bool]:
        """Store a label; returns its row, and whether it is new.

        Raises:
            UnknownRun: the store has no such run.
            UnknownCase: the run has no such case, or the queue does not hold it.
            ConfigurationError: the run has no such metric, or the value is none of its levels.
            TakenKey: the id is that of another label.
            StoreBusy: the DuckDB file is held, and the run is not given by a full id.
        """
        if body.metric == VERDICT and body.value is not None:
            VERDICT_SCALE.check(body.value)
        target = self._target(body)
        rows = self._tables.rows("labels")
        mine = _same(rows, target.run_id, body).filter(
            (pl.col("metric") == body.metric) & (pl.col("rater") == body.rater)
        )
        same_role = current_labels(mine).filter(pl.col("role") == body.role)
        is_repeated = body.label_id is not None and body.label_id in rows["label_id"]
        if body.kind == "withdrawn" and same_role.is_empty() and not is_repeated:
            raise UnknownCase(f"{body.rater} has no label of {body.metric} here to withdraw")
        # Who has answered once has seen what the judge said.
        blind = body.blind and mine.filter(pl.col("kind") == "label").is_empty()
        shown = {
            "prompt_version": target.word.version,
            "judge_score": None if blind else target.word.score,
            "transcript_hash": target.word.transcript_hash,
            "agent_version": target.word.agent_version,
        }
        row = {
            "label_id": body.label_id or uuid4().hex,
            "run_id": target.run_id,
            **body.model_dump(
                include={
                    *("case_id", "repetition", "metric", "rater", "role", "kind", "value"),
                    *("note", "seconds", "queue_id"),
                }
            ),
            "at": datetime.now(UTC),
            "blind": blind and body.kind == "label",
            "shown": as_json(shown),
            "probability": self._probability(target.run_id, body),
            "supersedes": None if same_role.is_empty() else same_role["label_id"][-1],
        }
        return self._add("labels", "label_id", row)

    def add_annotation(self, body: AnnotationBody) -> tuple[dict[str, Any], bool]:
        """Store an annotation; returns its row, and whether it is new. It changes no score.

        Raises:
            UnknownRun: the store has no such run.
            UnknownCase: the run has no such case or turn, or the annotation to replace is not there
                or is about another case.
            ConfigurationError: the case has no finding of the metric, or there are too many tags.
            TakenKey: the id is that of another annotation.
            StoreBusy: the DuckDB file is held, and the run is not given by a full id.
        """
        run_id = self._annotated_run(body)
        with self._lock:  # no edit of tags comes between reading the last one and writing its own
            return self._add_annotation(run_id, body)

    def _add_annotation(self, run_id: str, body: AnnotationBody) -> tuple[dict[str, Any], bool]:
        rows = self._tables.rows("annotations")
        if body.supersedes is not None:
            earlier = rows.filter(
                (pl.col("annotation_id") == body.supersedes) & (pl.col("run_id") == run_id)
            )
            of_case = _same(earlier, run_id, body)
            needs_no_case = body.kind == "withdrawn" and not body.case_id
            if (earlier if needs_no_case else of_case).is_empty():
                place = f"case {body.case_id!r} of " if body.case_id else ""
                raise UnknownCase(f"{place}run {run_id!r} has no annotation {body.supersedes!r}")
        fields = {*("case_id", "repetition", "kind", "turn", "metric", "text", "author")}
        row: dict[str, Any] = {
            "annotation_id": body.annotation_id or uuid4().hex,
            "run_id": run_id,
            **body.model_dump(include=fields),
            "value": None if body.value is None else float(body.value),
            "at": datetime.now(UTC),
            "supersedes": body.supersedes or _replaced(rows, run_id, body),
        }
        if body.kind == "tags":
            row["text"] = _merged_tags(rows, run_id, body)
        return self._add("annotations", "annotation_id", row)

    def _add(self, table: str, key: str, row: dict[str, Any]) -> tuple[dict[str, Any], bool]:
        earlier = self._tables.add_new(table, row)
        if earlier is None:
            return row, True
        content = set(row) - {"at", "seconds", "blind", "shown", "supersedes", "probability"}
        if any(earlier[name] != row[name] for name in content):
            raise TakenKey(f"{key} {row[key]} is that of another row; give a new one")
        return earlier, False

    def _probability(self, run_id: str, body: LabelBody) -> float | None:
        """The chance with which the queue of a label drew its case; `None` outside a queue."""
        if not body.queue_id:
            return None
        is_queue = (pl.col("queue_id") == body.queue_id) & (pl.col("metric") == body.metric)
        queue = self.queues().filter(is_queue & (pl.col("run_id") == run_id))
        drawn = _same(queue, run_id, body)
        if not drawn.is_empty():
            return float(drawn["probability"][0])
        if body.kind == "withdrawn":  # which needs no queue
            return None
        if queue.is_empty():
            raise UnknownCase(f"run {run_id!r} has no queue {body.queue_id!r} of {body.metric}")
        place = f"case {body.case_id!r} with repetition {body.repetition}"
        raise UnknownCase(f"queue {body.queue_id!r} does not hold {place}")

    def _target(self, body: LabelBody) -> _Target:
        def read(store: Store) -> _Target:
            run_id = store.run(body.run).run_id
            case = _case_row(store, run_id, body.case_id, body.repetition)
            read_text = {name: case[name] for name in ("transcript_hash", "agent_version")}
            if body.metric == VERDICT:
                score = None if case["passed"] is None else float(case["passed"])
                word = JudgeWord(score, store.run(run_id).config_hash, **read_text)
                return _Target(run_id, word)
            scale = label_scale(store, run_id, body.metric)
            if body.value is not None:
                scale.check(body.value)
            word = judge_word(store, run_id, body, scale)._replace(**read_text)
            return _Target(run_id, word)

        return self._unless_busy(body.run, read, _Target(body.run, JudgeWord(None, None)))

    def _annotated_run(self, body: AnnotationBody) -> str:
        def read(store: Store) -> str:
            run_id = store.run(body.run).run_id
            if body.case_id:
                case = _case_row(store, run_id, body.case_id, body.repetition)
                _check_place(store, run_id, body, case["turn_count"])
            return run_id

        return self._unless_busy(body.run, read, body.run)

    def _unless_busy(self, run: str, read: Callable[[Store], T], otherwise: T) -> T:
        """What a function reads of the store, or `otherwise` while its DuckDB file is held.

        A press must not be lost because the file is held: it is stored without the check of its case.
        The run has to be known all the same, by its full id: which run is `latest` the store alone
        can say.
        """
        try:
            with open_store(self._config) as store:
                return read(store)
        except StoreBusy as error:
            if run in indexed_runs(self._config):
                return otherwise
            raise StoreBusy(
                f"run {run!r} cannot be looked up while another process has the store; try again "
                "soon, or give the full id of a run"
            ) from error


def judge_word(store: Store, run_id: str, body: LabelBody, scale: LabelScale) -> JudgeWord:
    """What the judge said about one metric of a case; empty where it said nothing."""
    scores = _same_case(store.scan(run_id, "scores"), body.case_id, body.repetition)
    headlines = scores.filter(scale.of_metric & (pl.col("part") == ""))
    rows = collect_rows(headlines.select("value", "judge_version")).rows()
    return JudgeWord(*rows[0]) if rows else JudgeWord(None, None)


def _case_row(store: Store, run_id: str, case_id: str, repetition: int) -> dict[str, Any]:
    columns = ("passed", "transcript_hash", "agent_version", "turn_count")
    same = _same_case(store.scan(run_id, "cases"), case_id, repetition)
    rows = collect_rows(same.select(columns)).to_dicts()
    if not rows:
        raise UnknownCase(f"run {run_id!r} has no case {case_id!r} with repetition {repetition}")
    return rows[0]


def _same_case(rows: pl.LazyFrame, case_id: str, repetition: int) -> pl.LazyFrame:
    return rows.filter((pl.col("case_id") == case_id) & (pl.col("repetition") == repetition))


def _same(rows: pl.DataFrame, run_id: str, body: LabelBody | AnnotationBody) -> pl.DataFrame:
    values = (run_id, body.case_id, body.repetition)
    conditions = [pl.col(name) == value for name, value in zip(_CASE_KEY, values, strict=True)]
    return rows.filter(*conditions)


def _check_place(store: Store, run_id: str, body: AnnotationBody, turn_count: int | None) -> None:
    """Refuse a turn or a finding that the case does not have."""
    if body.turn is not None and turn_count is not None and body.turn >= turn_count:
        raise UnknownCase(
            f"case {body.case_id!r} has no turn {body.turn}; it has {turn_count}, counted from 0"
        )
    if body.kind not in FINDING_KINDS:
        return
    scores = _same_case(store.scan(run_id, "scores"), body.case_id, body.repetition)
    known = collect_rows(scores.select("judge", "metric").unique()).rows()
    # A page shows a name in one line.
    names = {line_of(metric) for _, metric in known} | {metric for _, metric in known}
    if body.metric not in names | {f"{judge}/{metric}" for judge, metric in known}:
        where = f"case {body.case_id!r} of run {run_id}"
        raise ConfigurationError.unknown("finding", body.metric, sorted(names), where)


def _merged_tags(rows: pl.DataFrame, run_id: str, body: AnnotationBody) -> str:
    """The tags of a run after an edit; what others changed since the author saw them stays."""
    if body.seen is None:
        return checked_tags(body.text)
    same = _same(current_annotations(rows), run_id, body).filter(pl.col("kind") == "tags")
    held = set() if same.is_empty() else tag_set(same["text"][-1])
    seen, wanted = tag_set(body.seen), tag_set(body.text)
    try:
        return checked_tags(",".join(held - (seen - wanted) | (wanted - seen)))
    except ValueError as error:
        raise ConfigurationError(f"with the tags that others set meanwhile: {error}") from None


def _replaced(rows: pl.DataFrame, run_id: str, body: AnnotationBody) -> str | None:
    """The annotation that a new one of its kind replaces; comments stand beside each other."""
    if body.kind in ("comment", "view", "withdrawn"):
        return None
    same = _same(current_annotations(rows), run_id, body).filter(pl.col("kind") == body.kind)
    if body.kind not in ("note", "tags"):  # of a run there is one note, whoever wrote it
        mine: Mapping[str, Any] = {"author": body.author, "metric": body.metric}
        same = same.filter(*(pl.col(name) == value for name, value in mine.items()))
    return None if same.is_empty() else str(same["annotation_id"][-1])
