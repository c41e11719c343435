"""The labels in a store as calibrations read them, and labels of a file as rows of the store."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from datetime import UTC, datetime
from typing import Any

import polars as pl

from assizes.judge.calibration.labelled import ItemKey, PeopleGrades, labels_by_metric
from assizes.judge.config.gates import VERDICT, CalibrationConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.labels.current import ADJUDICATOR, LABEL, current_labels
from assizes.judge.rows import as_json
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runs.labels_and_grades import read_labels
from assizes.tasks.store import RunRecord, Store

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
    file = read_labels(uri, config.storage_options, config.columns, "--labels")
    by_metric = labels_by_metric(file.rows, config, uri)
    judged = collect_rows(store.scan(record.run_id, "cases").select("case_id", "repetition"))
    known, units = set(judged.rows()), metric_units(store, record.run_id)
    now, rows = datetime.now(UTC), []
    for metric, items in by_metric.items():
        if metric != VERDICT and metric.rpartition("/")[2] not in units:
            raise ConfigurationError.unknown(
                "metric", metric, [VERDICT, *sorted(units)], f"labels for run {record.run_id}"
            )
        unit = units.get(metric.rpartition("/")[2], 1.0)
        for item, people in items.items():
            if (item.case_id, item.repetition or 0) not in known:
                raise ConfigurationError(
                    f"{uri}: run {record.run_id} has no case {item.case_id!r} with repetition "
                    f"{item.repetition or 0}"
                )
            for column, grade in people.grades.items():
                name = rater if rater and column in config.columns.label else column
                value = _checked_value(grade / unit, uri, item.case_id, metric)
                key = [
                    record.run_id,
                    item.case_id,
                    item.repetition or 0,
                    metric,
                    name,
                    value,
                    people.notes.get(column, ""),
                ]
                rows.append(
                    _imported_row(record.run_id, item, metric, name, value)
                    | {"note": people.notes.get(column, ""), "at": now, "label_id": _digest(key)}
                )
    return rows


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
