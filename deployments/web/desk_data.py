"""What the desk shows: the cases to label in order, the answers to choose from, and progress."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import polars as pl

from assizes.judge.config.gates import VERDICT
from assizes.judge.errors import ConfigurationError
from assizes.judge.score import LABELS
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.finding.case_filter import metric_rows
from assizes.tasks.store import Store

CaseKey = tuple[str, int]
"""The id and the repetition of a case."""


class Choice(NamedTuple):
    """An answer that a person can give."""

    key: str  # of the keyboard
    value: float
    name: str


_PASS_FAIL: Final[tuple[Choice, ...]] = (Choice("p", 1.0, "Pass"), Choice("f", 0.0, "Fail"))
_YES_NO: Final[tuple[Choice, ...]] = (Choice("p", 1.0, "Yes"), Choice("f", 0.0, "No"))
_LEVELS: Final[tuple[Choice, ...]] = tuple(
    Choice(str(level), level / 5, f"{level} {label.replace('_', ' ')}")
    for level, label in enumerate(LABELS)
)
_FRACTIONS: Final[tuple[Choice, ...]] = tuple(
    Choice(str(step), step / 5, f"{100 * step // 5} %") for step in range(6)
)


@dataclass(frozen=True, slots=True)
class LabelScale:
    """The answers to a question about a metric, or about the verdict."""

    metric: str
    choices: tuple[Choice, ...]
    of_metric: pl.Expr  # of rows of table scores

    def check(self, value: float) -> None:
        """Raise ConfigurationError where a value is none of the answers; a share may be any."""
        levels = [choice.value for choice in self.choices]
        if self.choices is not _FRACTIONS and not any(math.isclose(value, v) for v in levels):
            known = ", ".join(f"{level:g}" for level in sorted(levels))
            raise ConfigurationError(f"{self.metric}: {value:g} is no level; known: {known}")

    def word(self, value: float | None) -> str:
        """The name of an answer."""
        if value is None:
            return "none"
        names = (choice.name for choice in self.choices if math.isclose(choice.value, value))
        return next(names, f"{value:g}").lower()


VERDICT_SCALE: Final = LabelScale(VERDICT, _PASS_FAIL, pl.lit(value=False))


def label_scale(store: Store, run_id: str, metric: str) -> LabelScale:
    """The answers to a question about the verdict or a metric of a run, from its stored scores.

    Raises:
        ConfigurationError: the run has no such metric, or the metric has no best value.
    """
    if metric == VERDICT:
        return VERDICT_SCALE
    of_metric = metric_rows(metric)
    rows = collect_rows(_scored(store, run_id).filter(of_metric).select("label", "value").unique())
    if rows.is_empty():
        known = [VERDICT, *metric_names(store, run_id)]
        raise ConfigurationError.unknown("metric", metric, known, f"labels for run {run_id}")
    labels, values = set(rows["label"].drop_nulls()), set(rows["value"].drop_nulls())
    if not values:
        raise ConfigurationError(f"{metric} is an amount without a best value: nothing to label")
    if labels and labels <= {"yes", "no"}:
        choices = _YES_NO
    elif labels and labels <= {"pass", "fail"} and values <= {0.0, 1.0}:
        choices = _PASS_FAIL
    else:
        choices = _LEVELS if labels and labels <= set(LABELS) else _FRACTIONS
    return LabelScale(metric, choices, of_metric)


def metric_names(store: Store, run_id: str) -> list[str]:
    """The metrics of a run that people can label, sorted; the verdict is not among them."""
    valued = _scored(store, run_id).filter(pl.col("value").is_not_null())
    return sorted(collect_rows(valued.select(pl.col("metric").unique()))["metric"])


def _scored(store: Store, run_id: str) -> pl.LazyFrame:
    return store.scan(run_id, "scores").filter(
        (pl.col("part") == "") & (pl.col("status") == "scored")
    )


def cases_to_label(store: Store, run_id: str, scale: LabelScale) -> list[CaseKey]:
    """The judged cases of a run, or those that have the metric, in an order without a meaning.

    It is the order of a hash of their ids, the same for everybody: the first hundred are no
    selection by date, length or score.
    """
    if scale.metric == VERDICT:
        rows = store.scan(run_id, "cases").filter(pl.col("status") == "judged")
    else:
        rows = _scored(store, run_id).filter(scale.of_metric)
    keys = collect_rows(rows.select("case_id", "repetition").unique()).rows()
    return sorted(keys, key=lambda key: (hashlib.sha256(repr(key).encode()).digest(), key))


def judge_values(store: Store, run_id: str, scale: LabelScale) -> dict[CaseKey, float | None]:
    """What the judge said about each case, in the scale of labels."""
    if scale.metric == VERDICT:
        rows = store.scan(run_id, "cases").select(
            "case_id", "repetition", pl.col("passed").cast(pl.Float64)
        )
    else:
        rows = _scored(store, run_id).filter(scale.of_metric)
        rows = rows.select("case_id", "repetition", "value")
    return {(case_id, number): value for case_id, number, value in collect_rows(rows).rows()}


def queue_cases(queue: pl.DataFrame) -> dict[CaseKey, dict[str, Any]]:
    """The rows of one queue by case, in the order of the queue."""
    ordered = queue.sort("position").iter_rows(named=True)
    return {(row["case_id"], row["repetition"]): row for row in ordered}


class Dispute(NamedTuple):
    """A case about which raters disagree, and what the adjudicator says."""

    key: CaseKey
    labels: list[dict[str, Any]]  # current rows of raters, by name
    settled: dict[str, Any] | None  # the row of the adjudicator


def disagreements(current: pl.DataFrame) -> dict[CaseKey, Dispute]:
    """The cases of one run and metric with labels of different values, sorted by case."""
    by_case: dict[CaseKey, list[dict[str, Any]]] = {}
    settled: dict[CaseKey, dict[str, Any]] = {}
    answers = current.filter(pl.col("kind") == "label").sort("case_id", "repetition", "rater", "at")
    for row in answers.iter_rows(named=True):
        key = (row["case_id"], row["repetition"])
        if row["role"] == "adjudicator":
            if key not in settled or settled[key]["at"] <= row["at"]:
                settled[key] = row
        else:
            by_case.setdefault(key, []).append(row)
    return {
        key: Dispute(key, rows, settled.get(key))
        for key, rows in by_case.items()
        if len({row["value"] for row in rows}) > 1
    }


@dataclass(frozen=True, slots=True)
class DeskProgress:
    """How many of the cases have an answer, of this person and of all raters."""

    due: int
    mine: int  # labels
    skipped: int  # by this person
    everybody: int  # cases with a label of anyone


def progress_of(
    keys: Sequence[CaseKey], mine: Mapping[CaseKey, Mapping[str, Any]], labelled: set[CaseKey]
) -> DeskProgress:
    """The progress through a list of cases; `mine` are this person's current rows by case."""
    kinds = [mine[key]["kind"] for key in keys if key in mine]
    return DeskProgress(
        due=len(keys),
        mine=kinds.count("label"),
        skipped=kinds.count("skip"),
        everybody=sum(key in labelled for key in keys),
    )


def rater_lines(
    current: pl.DataFrame, judged: Mapping[CaseKey, float | None]
) -> list[dict[str, Any]]:
    """A line for each rater and role of one metric: labels, skips, median seconds, agreement."""
    lines = []
    for (rater, role), rows in sorted(current.group_by("rater", "role")):
        labels = rows.filter(pl.col("kind") == "label")
        known = [
            (row["value"], judged[row["case_id"], row["repetition"]])
            for row in labels.iter_rows(named=True)
            if judged.get((row["case_id"], row["repetition"])) is not None
        ]
        same = sum(math.isclose(value, word) for value, word in known if word is not None)
        lines.append(
            {
                "rater": rater,
                "role": role,
                "labels": labels.height,
                "skips": rows.filter(pl.col("kind") == "skip").height,
                "seconds": labels["seconds"].median(),
                "agreement": same / len(known) if known else None,
                "last": rows["at"].max(),
            }
        )
    return lines
