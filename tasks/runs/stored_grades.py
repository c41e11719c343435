"""The scores and verdicts of a stored run as grades, to be compared with the labels of people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from assizes.judge.calibration.labelled import ItemKey, PeopleGrades
from assizes.judge.config.calibration import CASES, VERDICT, CalibrationConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.score import ACCEPTABLE, LABELS
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.store import Store

_RECORDED = "recorded_reward"


@dataclass(frozen=True, slots=True)
class JudgeGrades:
    """The grades that a judge of a run gave.

    Attributes:
        judge: name of the judge; empty for the verdict on the whole case.
        grades: the grade of each case and repetition; `None` where the judge failed to give one.
            Cases to which the judge does not apply are left out.
        clusters: the cluster of every case and repetition of the run.
        answered_by: names of the models that answered the judge.
    """

    judge: str
    grades: Mapping[ItemKey, float | None]
    clusters: Mapping[ItemKey, str]
    answered_by: tuple[str, ...]

    @property
    def repetitions(self) -> dict[str, list[int]]:
        """The repetitions of each case that the run has, by case id."""
        by_case = defaultdict(list)
        for case_id, repetition in sorted(self.clusters):
            by_case[case_id].append(repetition or 0)
        return by_case


def stored_grades(
    store: Store, run_id: str, metric: str, config: CalibrationConfig, *, binary: bool
) -> JudgeGrades:
    """The grades of a run for one metric, or for the verdict on the whole case.

    Args:
        store: holds the run.
        run_id: full id of the run.
        metric: name of the metric, `judge/metric` where two judges share the name, or `verdict`.
        config: its `pass_from` is the lowest number that passes, for a metric that has no verdict.
        binary: whether people said pass (1) or fail (0); otherwise the raw numbers are compared.

    Raises:
        ConfigurationError: the run has no such metric, or more than one.
    """
    if metric == VERDICT:
        rows, judge = _verdicts(store, run_id), ""
    else:
        rows, judge = _scores(store, run_id, metric)
    clusters = _clusters(store, run_id)
    grades = {
        ItemKey(row["case_id"], row["repetition"]): _grade(row, metric, config, binary=binary)
        for row in rows
        if row["status"] != "skipped"
    }
    return JudgeGrades(judge, grades, clusters, answering_models(store, run_id, judge))


def carried_labels(store: Store, run_id: str, name: str) -> dict[ItemKey, PeopleGrades]:
    """The labels that came with the transcripts, from the scores of the judge `recorded`.

    Args:
        store: holds the run.
        run_id: full id of the run.
        name: name of the label; `reward` is the reward that the transcript recorded.

    Raises:
        ConfigurationError: the run has no such label.
    """
    part = "" if name == "reward" else f"label:{name}"
    condition = (pl.col("metric") == _RECORDED) & (pl.col("part") == part)
    scores = store.scan(run_id, "scores").filter(condition & (pl.col("status") == "scored"))
    rows = collect_rows(scores.select("case_id", "repetition", "raw")).rows(named=True)
    if not rows:
        raise ConfigurationError(
            f"[calibration] labels {CASES + name!r}: run {run_id} holds no such label; the judge "
            "`recorded` repeats those that the transcripts carry"
        )
    return {
        ItemKey(row["case_id"], row["repetition"]): PeopleGrades(grades={name: float(row["raw"])})
        for row in rows
    }


def _verdicts(store: Store, run_id: str) -> list[dict[str, Any]]:
    columns = ("case_id", "repetition", "status", "passed")
    rows = collect_rows(store.scan(run_id, "cases").select(columns)).rows(named=True)
    return [{**row, "raw": None, "label": None} for row in rows]


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
    columns = ("case_id", "repetition", "status", "passed", "raw", "label")
    return list(collect_rows(of_metric.select(columns)).rows(named=True)), judge


def _grade(
    row: Mapping[str, Any], metric: str, config: CalibrationConfig, *, binary: bool
) -> float | None:
    if row["status"] in ("failed", "errored"):
        return None
    if not binary and row["raw"] is not None:
        return float(row["raw"])
    if row["passed"] is not None:
        return float(row["passed"])
    if row["raw"] is None:
        return None
    mark = config.pass_from
    if mark is None and row["label"] in LABELS:
        mark = ACCEPTABLE
    if mark is None:
        raise ConfigurationError(
            f"metric {metric!r} neither passes nor fails; set [calibration] pass_from to the lowest "
            "number that passes"
        )
    return float(row["raw"] >= mark)


def _clusters(store: Store, run_id: str) -> dict[ItemKey, str]:
    columns = ("case_id", "repetition", "cluster")
    rows = collect_rows(store.scan(run_id, "cases").select(columns)).rows()
    return {
        ItemKey(case_id, repetition): cluster or case_id for case_id, repetition, cluster in rows
    }


def answering_models(store: Store, run_id: str, judge: str = "") -> tuple[str, ...]:
    """The sorted names of the models that answered a judge of a run; empty `judge`: any judge."""
    asks = store.scan(run_id, "asks")
    if judge:
        asks = asks.filter(pl.col("judge") == judge)
    models = collect_rows(asks.select(pl.col("answered_by").drop_nulls().unique()))["answered_by"]
    return tuple(sorted(models))
