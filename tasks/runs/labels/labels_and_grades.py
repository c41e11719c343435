"""Reads files of labels or judgements, and the scores and verdicts of a stored run as grades."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath
from typing import Any, Final

import polars as pl

from assizes.judge.calibration.labelled import ItemKey, PeopleGrades
from assizes.judge.config.gates import CASES_PREFIX, VERDICT, CalibrationConfig, LabelColumns
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.formats.shared.parsing import strict_json
from assizes.judge.labels.cell_text import text_of_cell
from assizes.judge.privacy.secret_masking import mask_credentials
from assizes.judge.score import ACCEPTABLE, LABELS
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.sources.listing import BOM
from assizes.tasks.sources.spool import parquet_rows, read_whole_file
from assizes.tasks.store import Store

_RECORDED: Final = "recorded_reward"  # the metric of judge `recorded`
_VERDICT_COLUMNS: Final = ("case_id", "repetition", "status", "passed")

Rows = list[dict[str, Any]]

_ACCEPTED: Final = (
    ".csv, .tsv, .parquet, .jsonl, .ndjson, .json, .qrels or .txt (TREC), each also .gz"
)


@dataclass(frozen=True, slots=True)
class JudgeGrades:
    """The grades that a judge of a run gave."""

    judge: str  # empty for the verdict on the whole case
    grades: Mapping[ItemKey, float | None]  # `None`: an error; without cases it does not apply to
    clusters: Mapping[ItemKey, str]  # of every case and repetition of the run
    answered_by: tuple[str, ...]  # names of the models that answered the judge, sorted


def stored_grades(
    store: Store, run_id: str, metric: str, config: CalibrationConfig, *, binary: bool
) -> JudgeGrades:
    """The grades of a run for one metric, or for the verdict on the whole case.

    `metric` is a name, `judge/metric` where two judges share the name, or `verdict`. `binary` says
    that people said pass (1) or fail (0); otherwise the raw numbers are compared. The `pass_from`
    of `config` is the lowest number that passes, for a metric without a verdict.

    Raises:
        ConfigurationError: the run has no such metric, or more than one.
    """
    cases = collect_rows(store.scan(run_id, "cases").select(*_VERDICT_COLUMNS, "cluster"))
    clusters = {
        ItemKey(case_id, repetition): cluster or case_id
        for case_id, repetition, cluster in cases.select("case_id", "repetition", "cluster").rows()
    }
    rows, judge = [{**row, "raw": None, "label": None} for row in cases.rows(named=True)], ""
    if metric != VERDICT:
        rows, judge = _scores(store, run_id, metric)
    grades = {
        ItemKey(row["case_id"], row["repetition"]): _grade(row, metric, config, binary=binary)
        for row in rows
        if row["status"] != "skipped"
    }
    return JudgeGrades(judge, grades, clusters, answering_models(store, run_id, judge))


def case_ids(store: Store, run_id: str) -> list[str]:
    """The ids of the cases of a run, in no order."""
    ids = collect_rows(store.scan(run_id, "cases").select(pl.col("case_id").unique()))
    return ids["case_id"].to_list()


def carried_labels(store: Store, run_id: str, name: str) -> dict[ItemKey, PeopleGrades]:
    """The labels of a name that came with the transcripts, from the scores of judge `recorded`.

    Raises:
        ConfigurationError: the run has no such label.
    """
    part = "" if name == "reward" else f"label:{name}"  # the reward is the headline of its metric
    condition = (pl.col("metric") == _RECORDED) & (pl.col("part") == part)
    scores = store.scan(run_id, "scores").filter(condition & (pl.col("status") == "scored"))
    rows = collect_rows(scores.select("case_id", "repetition", "raw")).rows()
    if not rows:
        raise ConfigurationError(
            f"[calibration] labels {CASES_PREFIX + name!r}: run {run_id} holds no such label; the judge "
            "`recorded` repeats those that the transcripts carry"
        )
    return {
        ItemKey(case_id, repetition): PeopleGrades(grades={name: float(raw)})
        for case_id, repetition, raw in rows
    }


def with_repetitions(
    labels: Mapping[ItemKey, PeopleGrades], judged: Iterable[ItemKey]
) -> dict[ItemKey, PeopleGrades]:
    """The labels by case and repetition; a label without a repetition is of the only one."""
    repetitions = defaultdict(list)
    for case_id, repetition in sorted(judged):
        repetitions[case_id].append(repetition or 0)
    labels_by_repetition = {}
    for item, people in labels.items():
        of_case = repetitions.get(item.case_id, [0])  # a case that was not judged is missing later
        if item.repetition is None and len(of_case) > 1:
            raise ConfigurationError(
                f"[calibration] labels: case {item.case_id!r} was judged in {len(of_case)} repetitions; a "
                "column `repetition` must say which one was labelled"
            )
        repetition = of_case[0] if item.repetition is None else item.repetition
        labels_by_repetition[ItemKey(item.case_id, repetition)] = people
    return labels_by_repetition


def _scores(store: Store, run_id: str, metric: str) -> tuple[list[dict[str, Any]], str]:
    headlines = store.scan(run_id, "scores").filter(pl.col("part") == "")
    pairs = collect_rows(
        headlines.select("judge", "metric").unique().sort("judge", "metric")
    ).rows()
    chosen = [pair for pair in pairs if metric in (pair[1], "/".join(pair))]
    if len(chosen) != 1:
        known = sorted({name for _, name in pairs} | {VERDICT})
        if chosen:
            known = ["/".join(pair) for pair in chosen]
        raise ConfigurationError.unknown("metric", metric, known, f"labels for run {run_id}")
    ((judge, name),) = chosen
    of_metric = headlines.filter((pl.col("judge") == judge) & (pl.col("metric") == name))
    rows = collect_rows(of_metric.select(*_VERDICT_COLUMNS, "raw", "label")).rows(named=True)
    return list(rows), judge


def _grade(
    row: Mapping[str, Any], metric: str, config: CalibrationConfig, *, binary: bool
) -> float | None:
    if row["status"] in ("failed", "errored"):  # of a score, of a case
        return None
    if not binary and row["raw"] is not None:
        return float(row["raw"])
    if row["passed"] is not None:
        return float(row["passed"])
    if row["raw"] is None:
        return None
    mark = config.pass_from
    if mark is None and row["label"] in LABELS:
        mark = ACCEPTABLE  # levels 0..5 pass from 3 on
    if mark is None:
        raise ConfigurationError(
            f"metric {metric!r} neither passes nor fails; set [calibration] pass_from to the lowest "
            "number that passes"
        )
    return float(row["raw"] >= mark)


def answering_models(store: Store, run_id: str, judge: str = "") -> tuple[str, ...]:
    """The sorted names of the models that answered a judge of a run; empty `judge`: any judge."""
    asks = store.scan(run_id, "asks")
    if judge:
        asks = asks.filter(pl.col("judge") == judge)
    models = collect_rows(asks.select(pl.col("answered_by").drop_nulls().unique()))["answered_by"]
    return tuple(sorted(models))


@dataclass(frozen=True, slots=True)
class LabelFile:
    """The rows of a file of labels or judgements."""

    digest: str  # 16 hex digits of the SHA-256 of the file's bytes
    rows: Rows


def read_labels(
    uri: str, storage_options: Mapping[str, Any], columns: LabelColumns, where: str
) -> LabelFile:
    """Read a file from any fsspec URI; its ending names the format.

    The columns of a TREC file get the names of `columns`; `where` is the setting that named the
    file, for messages.

    Raises:
        ConfigurationError: the file does not exist, or cannot be read in the format of its ending.
    """
    data = read_whole_file(uri, storage_options, where)
    suffix = PurePosixPath(uri.removesuffix(".gz")).suffix.lower()
    trec = partial(_trec, columns=columns)
    own = {".csv": partial(_csv, case=columns.case), ".txt": trec, ".qrels": trec}
    readers: dict[str, Callable[[bytes], Rows]] = {**_READERS, **own}
    place = f"{where} {mask_credentials(uri)!r}"
    if suffix not in readers:
        raise ConfigurationError(f"{place}: unknown ending; accepted: {_ACCEPTED}")
    try:
        rows = readers[suffix](data)
    except (ValueError, TypeError, DataError, pl.exceptions.PolarsError) as error:
        reason = str(error).strip().split("\n", 1)[0][:200]  # an error may quote the whole line
        raise ConfigurationError(f"{place}: cannot be read as {suffix}: {reason}") from error
    return LabelFile(hashlib.sha256(data).hexdigest()[:16], rows)


def _csv(data: bytes, case: str) -> Rows:
    """The rows of a CSV file; column `case` is left to who knows the cases (`case_reader`)."""
    return [
        {
            name: cell if cell is None or name == case else text_of_cell(cell)
            for name, cell in row.items()
        }
        for row in _separated(data)
    ]


def _separated(data: bytes, separator: str = ",") -> Rows:
    # Everything stays text: 007 is an id, and grades are parsed later, by their scale.
    return pl.read_csv(data, separator=separator, infer_schema=False).to_dicts()


def _json_lines(data: bytes) -> Rows:
    # `splitlines` would also split at U+2028 and others, which may stand inside a JSON string.
    rows = []
    for number, line in enumerate(data.removeprefix(BOM).split(b"\n"), 1):
        try:
            if line.strip():
                rows.append(strict_json(line))
        except DataError as error:
            raise ValueError(f"line {number}: {error.detail}") from error
    return _objects(rows)


def _json(data: bytes) -> Rows:
    return _objects(strict_json(data))


def _objects(value: Any) -> Rows:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("wanted a list of objects")
    return value


def _trec(data: bytes, columns: LabelColumns) -> Rows:
    """TREC relevance labels: topic, 0, document, grade; each topic is one cluster."""
    names = (columns.case, columns.cluster, columns.judge, *columns.label)
    rows = []
    for number, line in enumerate(data.removeprefix(BOM).decode("utf-8").splitlines(), 1):
        words = line.split()
        if len(words) != 4:
            raise ValueError(f"line {number}: wanted topic, 0, document, grade")
        topic, _, document, grade = words
        values = (f"{topic}/{document}", topic, grade, *[grade] * len(columns.label))
        rows.append(dict(zip(names, values, strict=True)))
    return rows


_READERS: Final[Mapping[str, Callable[[bytes], Rows]]] = {
    ".tsv": partial(_separated, separator="\t"),
    ".parquet": parquet_rows,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
}
