"""The labels in a store as calibrations read them, and labels of a file as rows of the store."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import polars as pl

from assizes.judge.calibration.labelled import (
    ADJUDICATOR,
    ROLE_COLUMN,
    ItemKey,
    PeopleGrades,
    labels_by_metric,
)
from assizes.judge.config.gates import VERDICT, CalibrationConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.labels.cell_text import case_reader
from assizes.judge.labels.current import LABEL, QUESTION, current_labels, settled_labels
from assizes.judge.rows import as_json
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runs.labels.labels_and_grades import read_labels
from assizes.tasks.store import RunRecord, Store

RATER: Final = "rater"
PROBABILITY: Final = "probability"
_CASE: Final = ("case_id", "repetition")

MAX_RATER_CHARS = 100
"""Characters of the name of a rater, at most."""


def labels_of_run(store: Store, run_id: str) -> pl.DataFrame:
    """The labels that count for a run (its full id): rows of table labels in order of time."""
    rows = store.people.rows("labels").filter(pl.col("run_id") == run_id)
    return current_labels(rows).filter(pl.col("kind") == LABEL)


def graded_labels(store: Store, run_id: str) -> pl.DataFrame:
    """The labels that count for a run, with a column `label` in the unit of the judge's raw grades.

    Column `value` of a metric is in the unit of `scores.value`, 0..1; a label of levels is 0 to 5.
    """
    rows, units = labels_of_run(store, run_id), metric_units(store, run_id)
    of_row = [units.get(metric.rpartition("/")[2], 1.0) for metric in rows["metric"]]
    # Nine decimals: 0.6 x 5 must be the level 3.
    grades = (pl.col("value") * pl.Series(of_row, dtype=pl.Float64)).round(9)
    return rows.with_columns(grades.alias("label"))


def exported_labels(store: Store, run_id: str) -> pl.DataFrame:
    """The labels that count for a run, as `graded_labels`, each with the chance of its case.

    A chance belongs to the case (`settled_labels`), so a label has it too that was given outside a
    queue, or in place of an answer in one; `queue_id` is then the last queue of the case.
    """
    rows, chances = _rows_and_chances(store, run_id)
    drawn = rows.drop_nulls("probability").sort("at", "label_id")
    last = drawn.group_by(QUESTION).agg(pl.col("queue_id").last().alias("last"))
    queue = pl.coalesce(pl.col("queue_id").replace("", None), "last").fill_null("")
    return (
        graded_labels(store, run_id)
        .drop("probability")
        .join(chances, on=QUESTION, how="left", maintain_order="left")
        .join(last, on=QUESTION, how="left", maintain_order="left")
        .with_columns(queue_id=queue)
    )


def new_labels(store: Store, run_id: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those of the rows of `labels_to_import` that say something which the store does not hold.

    A row that repeats what its rater says already is none, unless it brings the case a chance.
    """
    stored, chances = _rows_and_chances(store, run_id)
    known = set(stored["label_id"])
    drawn = set(chances.drop_nulls("probability").select(QUESTION).rows())
    columns = (*QUESTION, "rater", "role", "value", "note")
    current = set(labels_of_run(store, run_id).select(columns).rows())

    def is_new(row: Mapping[str, Any]) -> bool:
        brings_chance = row["probability"] is not None and _cells(row, QUESTION) not in drawn
        return row["label_id"] not in known and (
            brings_chance or _cells(row, columns) not in current
        )

    return [row for row in rows if is_new(row)]


def _rows_and_chances(store: Store, run_id: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All rows of labels of a run, and the chance of each labelled case to be drawn."""
    rows, queues = (
        store.people.rows(name).filter(pl.col("run_id") == run_id) for name in ("labels", "queues")
    )
    return rows, settled_labels(rows, queues).select(*QUESTION, "probability")


def _cells(row: Mapping[str, Any], columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[name] for name in columns)


def stored_labels(store: Store, run_id: str) -> dict[str, dict[ItemKey, PeopleGrades]]:
    """The labels of a run by metric, in the unit of the judge's raw grades.

    Raises:
        ConfigurationError: nobody labelled a case of the run.
    """
    by_metric = defaultdict[str, dict[ItemKey, PeopleGrades]](dict)
    for row in graded_labels(store, run_id).iter_rows(named=True):
        item = ItemKey(row["case_id"], row["repetition"])
        people = by_metric[row["metric"]].setdefault(item, PeopleGrades())
        if row["role"] == ADJUDICATOR:
            people.settled = row["label"]
        else:
            people.grades[row["rater"]] = row["label"]
        if row["note"]:
            people.notes[row["rater"]] = row["note"]
    if not by_metric:
        raise ConfigurationError(
            f"[calibration] labels 'store:': nobody labelled a case of run {run_id}; label some on "
            "the pages of `assizes serve --labelling`, or import a file with `assizes labels import`"
        )
    return dict(by_metric)


def metric_units(store: Store, run_id: str) -> dict[str, float]:
    """The raw grade of a metric that is worth a value of 1: 5 for levels 0 to 5, else 1."""
    scored = store.scan(run_id, "scores").filter(
        (pl.col("part") == "") & (pl.col("value") > 0) & pl.col("raw").is_not_null()
    )
    ratio = (pl.col("raw") / pl.col("value")).round(6).max()
    units = collect_rows(scored.group_by("metric").agg(ratio.alias("unit")))
    return dict(units.rows())


def labels_to_import(
    store: Store, record: RunRecord, config: CalibrationConfig, rater: str | None
) -> list[dict[str, Any]]:
    """The labels of a file as rows of table labels; `config` names the file and its columns.

    The id of a label is a digest of what it says, so that importing a file again changes nothing.
    `rater` names the person where the file does not.

    Raises:
        ConfigurationError: the file cannot be read, or labels a case or metric that is not there.
    """
    uri = config.labels or ""
    file = read_labels(uri, config.storage_options, config.columns, "labels import: FILE")
    judged = collect_rows(store.scan(record.run_id, "cases").select(*_CASE, "transcript_hash"))
    held = {(case_id, repetition): digest for case_id, repetition, digest in judged.rows()}
    units, reader = metric_units(store, record.run_id), case_reader({case for case, _ in held})
    labels = _LabelsToImport(record.run_id, uri, config, held, units, reader)
    rows: list[dict[str, Any]] = []
    for role, of_role in _by_role(file.rows, uri).items():
        rows += labels.rows(of_role, role, rater)
    return rows


def _by_role(
    file_rows: Sequence[Mapping[str, Any]], uri: str
) -> dict[str, list[Mapping[str, Any]]]:
    """The rows of a file by the role of who gave the label, without the column of the role."""
    by_role: dict[str, list[Mapping[str, Any]]] = {RATER: [], ADJUDICATOR: []}
    for row in file_rows:
        role = _text(row.get(ROLE_COLUMN)) or RATER
        if role not in by_role:
            raise ConfigurationError(
                f"{uri}: role {role[:40]!r}; column `role` holds {RATER} or {ADJUDICATOR}, or is empty"
            )
        by_role[role].append({name: cell for name, cell in row.items() if name != ROLE_COLUMN})
    return {role: rows for role, rows in by_role.items() if rows} or {RATER: []}


@dataclass(frozen=True, slots=True)
class _LabelsToImport:
    """What is known of a run and a file while its labels become rows."""

    run_id: str
    uri: str
    config: CalibrationConfig
    held: Mapping[tuple[str, int], str | None]  # case of the run -> hash of its transcript
    units: Mapping[str, float]
    read_case: Callable[[str], str]

    def rows(
        self, file_rows: Sequence[Mapping[str, Any]], role: str, rater: str | None
    ) -> list[dict[str, Any]]:
        """The rows of the labels of one role."""
        by_metric = labels_by_metric(file_rows, self.config, self.uri, self.read_case)
        chances = self._chances(file_rows)
        now, rows = datetime.now(UTC), []
        for metric, items in by_metric.items():
            unit = self._unit(metric)
            for item, people in items.items():
                for column, grade in people.grades.items():
                    is_column = column in self.config.columns.label
                    name = rater if rater and is_column else column
                    value = _checked_value(grade / unit, self.uri, item.case_id, metric)
                    note = people.notes.get(column, "")
                    chance = chances.get((metric, item.case_id, item.repetition or 0))
                    row = _imported_row(self.run_id, item, metric, name, value)
                    row["shown"] = as_json({"transcript_hash": self._transcript_hash(item)})
                    rows.append(row | {"role": role, "note": note, "at": now, **_drawn(chance)})
                    rows[-1]["label_id"] = _label_id(rows[-1])
        return rows

    def _unit(self, metric: str) -> float:
        name = metric.rpartition("/")[2]
        if metric != VERDICT and name not in self.units:
            raise ConfigurationError.unknown(
                "metric", metric, [VERDICT, *sorted(self.units)], f"labels for run {self.run_id}"
            )
        return self.units.get(name, 1.0)

    def _transcript_hash(self, item: ItemKey) -> str | None:
        key = (item.case_id, item.repetition or 0)
        if key not in self.held:
            raise ConfigurationError(
                f"{self.uri}: run {self.run_id} has no case {key[0]!r} with repetition {key[1]}"
            )
        return self.held[key]

    def _chances(
        self, file_rows: Sequence[Mapping[str, Any]]
    ) -> dict[tuple[str, str, int], tuple[float, str]]:
        """The chance of each labelled case to be drawn and its queue, where the file has them."""
        columns, chances = self.config.columns, {}
        for row in file_rows:
            if (text := _text(row.get(PROBABILITY))) is None:
                continue
            try:
                chance = float(text)
            except ValueError:
                chance = 0.0
            if not 0 < chance <= 1:
                raise ConfigurationError(
                    f"{self.uri}: probability {text[:40]!r}; accepted: above 0 to 1, or empty"
                )
            metric = str(row.get(columns.metric) or self.config.metric or VERDICT)
            repetition = int(_text(row.get(columns.repetition)) or 0)
            key = (metric, self.read_case(str(row.get(columns.case))), repetition)
            chances[key] = (chance, _text(row.get("queue_id")) or "")
        return chances


def _text(cell: Any) -> str | None:
    return None if cell is None else str(cell).strip() or None


def _drawn(chance: tuple[float, str] | None) -> dict[str, Any]:
    return {} if chance is None else {"probability": chance[0], "queue_id": chance[1]}


def _label_id(row: Mapping[str, Any]) -> str:
    """A digest of what a label says; a role and a chance count where the file gives them."""
    key = [row[name] for name in ("run_id", "case_id", "repetition", "metric", "rater", "value")]
    more = [row["role"]] if row["role"] != RATER else []
    more += [] if row["probability"] is None else [row["probability"]]
    return _digest([*key, row["note"], *more])


def _checked_value(value: float, uri: str, case_id: str, metric: str) -> float:
    if not 0 <= value <= 1:
        raise ConfigurationError(
            f"{uri}: case {case_id!r}: the label of {metric} is outside the metric's scale"
        )
    return round(value, 9)


def _imported_row(
    run_id: str, item: ItemKey, metric: str, rater: str, value: float
) -> dict[str, Any]:
    if len(rater) > MAX_RATER_CHARS:
        raise ConfigurationError(f"rater {rater[:40]!r}...: at most {MAX_RATER_CHARS} characters")
    return {
        "run_id": run_id,
        "case_id": item.case_id,
        "repetition": item.repetition or 0,
        "metric": metric,
        "rater": rater,
        "role": "rater",
        "kind": LABEL,
        "value": value,
        "seconds": None,
        "blind": False,  # nobody knows what the rater saw
        "shown": "{}",
        "probability": None,
        "queue_id": "",
        "supersedes": None,
    }


def _digest(key: list[Any]) -> str:
    return hashlib.sha256(as_json(key).encode()).hexdigest()[:32]
