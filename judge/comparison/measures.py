"""The case table of a run, and the measures and labels of its cases, for the statistics.

A measure is one number for each case; a label is the agent of a case, the agent's version, one of
its tags, or a tool that it called.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import polars as pl

from assizes.judge.verdicts.executions import collect_rows, executions

PASS_RATE: Final = "pass_rate"
SCORE: Final = "overall_score"

TOOL_SEPARATOR: Final = "\x1f"
"""Separates the tools of a case in a case table; a list for each case would take far more memory."""

MAX_SORTED: Final = 100_000
"""The most cases that are sorted by their ids. Random draws from the cases must not depend on the
order of the rows; from more cases than these nothing is drawn at random.
"""

FIELDS: Final = ("agent", "agent_version")
"""Columns of a case table that are labels."""

MAX_VALUES: Final = 20
"""The most values of a label: one with more is an id, not a slice. Of the tools, only as many are
looked at: those that the most cases called."""

TOOL: Final = "tool"
"""The label for the tools that a case called; it wins over a tag of the same name."""


class CaseMeasure(NamedTuple):
    """One number for each case in points of 0..100, the repetitions of a case averaged.

    Attributes:
        name: the name of the measure.
        share: whether its mean is a share of cases, because each case has one of two values.
        cases: one row for each case that the measure applies to. Columns: `case_id` (hashed,
            because the text of many ids would take most of the memory) and `point`, `null` where a
            repetition that the number needs is missing. Where something is missing also `low` and
            `high` (every missing repetition counted as 0, or as 100) and `known` (share of the
            repetitions that have the number, 0..1); see `whole`.
    """

    name: str
    share: bool
    cases: pl.DataFrame


class CaseTable(NamedTuple):
    """The cases of a run with their clusters and labels, and the spread of their repetitions.

    Attributes:
        cases: the table of `case_table`.
        squares: sum of the squared deviations of scores from the mean of their case.
        degrees: degrees of freedom of `squares`; 0 where no case was repeated.
    """

    cases: pl.DataFrame
    squares: float
    degrees: int


def case_table(cases: pl.LazyFrame) -> CaseTable:
    """Build the case table of a run from its rows of table `cases`, with one row for each case.

    Columns: `case_id` and `cluster` (hashed), `runs`, `passes`, `errors`, `agent`, `agent_version`,
    `tags`, `tools` (of all repetitions, joined by `TOOL_SEPARATOR`; `null` where they are not known),
    and `scored` and `total` of the overall score.
    """
    errored = pl.col("state") == "errored"
    score = pl.when(~errored).then("overall_score")
    executed = executions(cases)
    repeated = collect_rows(executed.select((pl.col("repetition") > 0).any())).item()
    labels = [pl.col(name).cast(pl.Categorical) for name in ("agent", "agent_version", "tags")]
    shared = pl.col("cluster").is_not_null()  # the hash of null is a number too
    own = pl.when(shared).then(pl.col("cluster").hash(seed=1)).otherwise(pl.col("case_id").hash())
    own = own.alias("cluster")
    if repeated:
        rows = executed.group_by("case_id").agg(
            own.first(),
            *(label.first() for label in labels),
            _tools_of_repetitions().cast(pl.Categorical),
            runs=pl.len(),
            passes=(pl.col("state") == "passed").sum(),
            errors=errored.sum(),
            scored=score.count(),
            total=score.sum(),
            squares=((score - score.mean()) ** 2).sum(),
        )
    else:
        rows = executed.select(
            "case_id",
            own,
            *labels,
            pl.col("tools").list.join(TOOL_SEPARATOR).cast(pl.Categorical),
            runs=pl.lit(1, pl.UInt8),
            passes=(pl.col("state") == "passed").cast(pl.UInt8),
            errors=errored.cast(pl.UInt8),
            scored=score.is_not_null().cast(pl.UInt8),
            total=score.fill_null(0.0),
        )
    table = _in_order(rows)
    if not repeated:
        return CaseTable(table, 0.0, 0)
    more = table.filter(pl.col("scored") > 1)
    squares, degrees = float(more["squares"].sum()), int((more["scored"] - 1).sum())
    return CaseTable(table.drop("squares"), squares, degrees)


def _tools_of_repetitions() -> pl.Expr:
    """The tools of all repetitions of a case; `null` where the tools of one are not known."""
    tools = pl.col("tools")
    named = tools.explode().drop_nulls().unique().sort().str.join(TOOL_SEPARATOR)
    return pl.when(tools.is_not_null().all()).then(named).alias("tools")


def _in_order(rows: pl.LazyFrame) -> pl.DataFrame:
    """Hash the ids of the cases; sort the rows by case where there are few."""
    key = pl.col("case_id").hash()
    few = collect_rows(rows.select(pl.len())).item() <= MAX_SORTED
    table = collect_rows(rows.sort("case_id").with_columns(key) if few else rows.with_columns(key))
    alone = table["cluster"].equals(table["case_id"])
    # Two equal columns become one in memory.
    return table.with_columns(cluster="case_id") if alone else table


def pass_measure(table: pl.DataFrame) -> CaseMeasure:
    """The pass rate: passes / executions; an errored execution did not pass, but could have."""
    passes, errors, runs = pl.col("passes"), pl.col("errors"), pl.col("runs")
    missing = {
        "low": passes / runs * 100,
        "high": (passes + errors) / runs * 100,
        "known": 1 - errors / runs,
    }
    more = missing if table["errors"].sum() else {}
    return CaseMeasure(PASS_RATE, True, table.select("case_id", point=passes / runs * 100, **more))


def score_measure(table: pl.DataFrame) -> CaseMeasure:
    """The overall score; an errored repetition could have had any score."""
    bounds = bool(table["errors"].sum())
    return CaseMeasure(SCORE, False, _averages(table, "errors", bounds=bounds))


def whole(measure: CaseMeasure) -> CaseMeasure:
    """The measure with all its columns, also where nothing is missing."""
    if "known" in measure.cases.columns:
        return measure
    nothing = {"low": pl.col("point"), "high": pl.col("point"), "known": pl.lit(1.0)}
    return measure._replace(cases=measure.cases.with_columns(**nothing))


def metric_measure(name: str, side: pl.DataFrame, *, whole: bool) -> CaseMeasure | None:
    """The measure of a headline metric of one run; `None` where nothing was scored.

    A failed score could have had any value; a case whose score was skipped is left out.

    Args:
        name: the published name of the metric.
        side: the table of one run in `assizes.judge.comparison.metrics.PairedMetric`.
        whole: whether to add the bounds for missing scores; else there are only `case_id` and
            `point`.
    """
    if not side["scored"].sum():
        return None
    share = bool(side["two_valued"].all())
    return CaseMeasure(name, share=share, cases=_averages(side, "failed", bounds=whole))


def _averages(side: pl.DataFrame, missing_column: str, *, bounds: bool) -> pl.DataFrame:
    """The mean score of each case that should have one, and its bounds if scores are missing.

    Args:
        side: columns `case_id`, `total` (sum of the scores, each 0..100), `scored` (their number)
            and the column that `missing_column` names.
        missing_column: the column that counts missing scores; a case with any has no `point`.
        bounds: whether to add `low`, `high` and `known`.
    """
    missing = pl.col(missing_column)
    due = pl.col("scored") + missing
    point = pl.when(missing == 0).then(pl.col("total") / due)
    more = {
        "low": pl.col("total") / due,
        "high": (pl.col("total") + 100 * missing) / due,
        "known": pl.col("scored") / due,
    }
    rows = side.filter(due > 0) if not side.select((due > 0).all()).item() else side
    return rows.select("case_id", point=point, **(more if bounds else {}))


def case_labels(table: pl.DataFrame, field: str) -> pl.DataFrame:
    """Columns `case_id` and `label`: the value of a field or tag, `null` where a case has none."""
    if field in FIELDS:
        return table.select("case_id", label=pl.col(field).cast(pl.String))
    known = {text: json.loads(text).get(field) for text in table["tags"].unique() if text}
    if not known:
        return table.select("case_id", label=pl.lit(None, dtype=pl.String))
    label = (
        pl.col("tags").cast(pl.String).replace_strict(known, default=None, return_dtype=pl.String)
    )
    return table.select("case_id", label=label)


def label_slices(
    tables: tuple[pl.DataFrame, pl.DataFrame], label: str, *, paired: bool
) -> Iterator[tuple[str, Sequence[pl.DataFrame]]]:
    """The values of a label that both runs have, each with its cases in both runs.

    Args:
        tables: the case tables of the baseline and of the candidate.
        label: a field, a tag, or `TOOL`.
        paired: whether a case has the value that it has in the baseline.
    """
    if label == TOOL:
        yield from _tool_slices(tables, paired=paired)
        return
    labels = [case_labels(table, label).drop_nulls() for table in tables]
    if paired:
        labels[1] = labels[0]
    for value in sorted(set(labels[0]["label"]) & set(labels[1]["label"])):
        yield value, [side.filter(pl.col("label") == value) for side in labels]


def _tool_slices(
    tables: tuple[pl.DataFrame, pl.DataFrame], *, paired: bool
) -> Iterator[tuple[str, list[pl.DataFrame]]]:
    """The tools that the most cases called, each with the `case_id`s of both runs that called it.

    Paired cases count for a tool when the agent called it in either run, and only where the tools
    of both runs are known: cases that are picked by what the agent did in one run would differ in
    the other run for that reason alone.
    """
    tool_sets = [_tool_sets(table) for table in tables]
    counts = pl.concat(tool_sets).explode("names").group_by("names").agg(pl.col("cases").sum())
    ranked = counts.sort("cases", "names", descending=[True, False]).head(MAX_VALUES)
    unknown = pl.col("tools").is_null()
    unknown_ids = pl.concat([table.filter(unknown).select("case_id") for table in tables])
    for name in sorted(ranked["names"]):
        ids = [_calling_cases(name, *side) for side in zip(tool_sets, tables, strict=True)]
        if paired:
            both = pl.concat(ids).unique().join(unknown_ids, on="case_id", how="anti")
            ids = [both, both]
        yield name, ids


def _tool_sets(table: pl.DataFrame) -> pl.DataFrame:
    """Each set of tools that cases called, the `names` in it, and how many `cases` called it."""
    text = pl.col("tools").cast(pl.String)
    sets = table.drop_nulls("tools").group_by("tools").agg(cases=pl.len())
    return sets.filter(text != "").with_columns(names=text.str.split(TOOL_SEPARATOR))


def _calling_cases(name: str, tool_sets: pl.DataFrame, table: pl.DataFrame) -> pl.DataFrame:
    sets = tool_sets.filter(pl.col("names").list.contains(name))
    return table.join(sets, on="tools", how="semi").select("case_id")


def fields_of(table: pl.DataFrame) -> list[str]:
    """The fields and tags with 2 to `MAX_VALUES` values; and `TOOL`, if any case called a tool."""
    tags = {name for text in table["tags"].unique() if text for name in json.loads(text)}
    fields = [
        field
        for field in (*FIELDS, *sorted(tags - {TOOL}))
        if 2 <= case_labels(table, field)["label"].drop_nulls().n_unique() <= MAX_VALUES
    ]
    return [*fields, TOOL] if _tool_sets(table).height else fields
