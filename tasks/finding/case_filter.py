"""Which cases of a run are listed, and in which order."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import polars as pl

from assizes.judge.config.gates import VERDICT
from assizes.judge.errors import ConfigurationError
from assizes.judge.labels.current import settled_labels
from assizes.judge.verdicts.executions import CASE, IS_LOW, collect_rows
from assizes.tasks.finding.kept_cases import PLACE, KeptCases, MaskName
from assizes.tasks.store import Store

LabelFilter = Literal["any", "none", "pass", "fail", "agrees", "differs"]
"""Which labels of people a case has: `agrees` and `differs` are about the judge's verdict."""

_SAME: Final = ("passed", "status", "agent", "agent_version", "root_cause")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFilter:
    """Conditions on the cases of a run, all of which must hold; `None` matches any case."""

    passed: bool | None = None
    status: str | None = None
    agent: str | None = None
    agent_version: str | None = None
    root_cause: str | None = None
    failure_code: str | None = None  # one of its scores has it
    metric: str | None = None  # alone: its score is below acceptable, or a no
    level: str | None = None  # label of the score of `metric`, such as `poor`
    tool: str | None = None  # the agent called it
    tag: str | None = None  # `name=value`, or a name
    flag: str | None = None
    label: LabelFilter | None = None
    search: str | None = None  # part of the id
    sort: str = "overall_score"  # a column of table cases; a - in front turns the order round

    def __post_init__(self) -> None:
        if self.level is not None and self.metric is None:
            raise ConfigurationError("level: name the metric too, such as metric=tone&level=poor")


def matching_cases(
    store: Store, run_id: str, wanted: CaseFilter, kept: KeptCases, places: pl.Series | None = None
) -> pl.DataFrame:
    """The keys of the cases that match, in order, and their places among the cases of the run.

    `places`: of the cases at these places only. Only the columns that conditions and order need are
    read, however long the texts are.
    """
    column, conditions = wanted.sort.removeprefix("-"), _conditions(wanted)
    used = [name for condition in conditions for name in condition.meta.root_names()]
    names = list(dict.fromkeys([*CASE, column, "passed", *used]))
    cases = kept.columns(store, run_id, names)
    masks = [
        kept.mask(run_id, cases, name, partial(_keys_of_scores, store, run_id, condition))
        for name, condition in _score_conditions(wanted).items()
    ]

    def matching() -> pl.Series:
        rows = cases.rows.select(names).with_row_index(PLACE)
        rows = rows.filter(*conditions, *map(pl.lit, masks))
        if places is not None:
            rows = rows.join(places.to_frame(PLACE), on=PLACE, how="semi")
        if wanted.label is not None:
            rows = _with_label(store, run_id, rows, wanted.label)
        return rows.sort(
            [column, PLACE],  # a total order, or pages would overlap
            descending=[wanted.sort.startswith("-"), False],
            nulls_last=True,  # in both directions
        )[PLACE]

    # What people say and what a search found changes while the cases stay.
    is_lasting = places is None and wanted.label is None
    return kept.order(run_id, cases, wanted if is_lasting else None, matching)


def _keys_of_scores(store: Store, run_id: str, condition: pl.Expr) -> pl.DataFrame:
    scores = store.scan(run_id, "scores").filter(condition).select(CASE)
    return collect_rows(scores.unique())  # a case once, however many scores


def case_rows(
    store: Store,
    run_id: str,
    keys: pl.DataFrame,
    columns: list[str],
    kept: KeptCases | None = None,
) -> pl.DataFrame:
    """The rows of some cases in some columns, in the order of the keys.

    With `kept`, those of a run of moderate length are kept until it changes.
    """
    if kept is not None and (rows := kept.lines(store, run_id, keys, columns)) is not None:
        return rows
    wanted = list(dict.fromkeys([*CASE, *columns]))
    stored = store.rows_of_cases(run_id, "cases", keys["case_id"].to_list(), wanted)
    return keys.join(stored, on=CASE, maintain_order="left").select(columns)


def _conditions(wanted: CaseFilter) -> list[pl.Expr]:
    conditions = [
        pl.col(name) == value for name in _SAME if (value := getattr(wanted, name)) is not None
    ]
    if wanted.search:
        # Literal: in an id a dot or a bracket is no pattern.
        conditions.append(pl.col("case_id").str.contains(wanted.search, literal=True))
    if wanted.tool:
        conditions.append(pl.col("tools").list.contains(wanted.tool))
    if wanted.flag:
        conditions.append(pl.col("flags").list.contains(wanted.flag))
    if wanted.tag:
        conditions.append(pl.col("tags").str.contains(_tag_text(wanted.tag), literal=True))
    return conditions


def _tag_text(tag: str) -> str:
    """How a tag begins in the JSON of column `tags`; a quote in a text is escaped there."""
    name, equals, value = tag.partition("=")
    body = f"{_json(name)}:"
    return f"{body}{_json(value)}" if equals else body


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _score_conditions(wanted: CaseFilter) -> dict[MaskName, pl.Expr]:
    conditions: dict[MaskName, pl.Expr] = {}
    if wanted.failure_code:
        name = ("failure_code", wanted.failure_code)
        conditions[name] = pl.col("failure_code") == wanted.failure_code
    if wanted.metric:
        level = wanted.level
        is_wanted = (pl.col("label") == level) & (pl.col("part") == "") if level else IS_LOW
        conditions["metric", wanted.metric, level or ""] = is_wanted & metric_rows(wanted.metric)
    return conditions


def metric_rows(name: str) -> pl.Expr:
    """Whether a score is of the metric of a published name: `metric`, or `judge/metric`."""
    judge, _, metric = name.rpartition("/")
    whole = pl.col("metric") == name
    return whole | ((pl.col("metric") == metric) & (pl.col("judge") == judge)) if judge else whole


def _with_label(store: Store, run_id: str, rows: pl.DataFrame, wanted: LabelFilter) -> pl.DataFrame:
    """Those cases of which people say what is wanted; raters who are divided say nothing."""
    labels = store.people.rows("labels").filter(pl.col("run_id") == run_id)
    settled = settled_labels(labels)
    if wanted in ("any", "none"):
        return rows.join(settled.select(CASE).unique(), on=CASE, how=_JOINS[wanted])
    verdicts = settled.filter((pl.col("metric") == VERDICT) & pl.col("value").is_not_null())
    said = rows.join(verdicts.select(*CASE, said=pl.col("value") == 1), on=CASE)
    conditions: dict[str, Callable[[], pl.Expr]] = {
        "pass": lambda: pl.col("said"),
        "fail": lambda: ~pl.col("said"),
        "agrees": lambda: pl.col("said") == pl.col("passed"),
        "differs": lambda: pl.col("said") != pl.col("passed"),
    }
    return said.filter(conditions[wanted]()).drop("said")


_JOINS: Final[dict[str, Literal["semi", "anti"]]] = {"any": "semi", "none": "anti"}
