"""What the cases of a run came to, one value a case: the input of the statistical comparison."""

from __future__ import annotations

from typing import Final, NamedTuple

import polars as pl

from assizes.judge.verdicts.executions import collect_rows, executions

PASS_RATE: Final = "pass_rate"
SCORE: Final = "overall_score"

TOOL_SEPARATOR: Final = "\x1f"
"""Stands between the tools of a case in a case table: a list a case would take many times more."""

MAX_SORTED: Final = 100_000
"""Up to so many cases are in the order of their ids: what is drawn from them must not depend on the
order of the rows. Of more nothing is drawn.
"""


class CaseMeasure(NamedTuple):
    """One number a case, its repetitions averaged, in points 0..100.

    Columns of `cases`: `case_id` (hashed: of many cases text would take most of the memory),
    `point` (null where some repetition is missing and the number cannot do without); where
    something is missing also `low` and `high` (everything missing counted as 0, as the best) and
    `known` (share of the repetitions that have it), see `whole`. A case it does not apply to has no
    row.
    """

    name: str
    share: bool
    cases: pl.DataFrame


class CaseTable(NamedTuple):
    """The cases of a run with their clusters and slices, and how much their repetitions differ."""

    cases: pl.DataFrame
    squares: float
    degrees: int


def case_table(cases: pl.LazyFrame) -> CaseTable:
    """One row a case: `case_id` and `cluster` (hashed), `runs`, `passes`, `errors`, `agent`,
    `agent_version`, `tags`, `tools` (of all its repetitions, joined by `BETWEEN`; null where rows
    hold none), and the figures of the overall score.
    """
    errored = pl.col("state") == "errored"
    score = pl.when(~errored).then("overall_score")
    executed = executions(cases)
    repeated = collect_rows(executed.select((pl.col("repetition") > 0).any())).item()
    labels = [pl.col(name).cast(pl.Categorical) for name in ("agent", "agent_version", "tags")]
    shared = pl.col("cluster").is_not_null()  # the hash of nothing is a number too
    own = pl.when(shared).then(pl.col("cluster").hash(seed=1)).otherwise(pl.col("case_id").hash())
    own = own.alias("cluster")
    if repeated:
        rows = executed.group_by("case_id").agg(
            own.first(),
            *(label.first() for label in labels),
            _tools_of_all().cast(pl.Categorical),
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


def _tools_of_all() -> pl.Expr:
    """The tools of the repetitions of a case; null where those of one are not known."""
    tools = pl.col("tools")
    named = tools.explode().drop_nulls().unique().sort().str.join(TOOL_SEPARATOR)
    return pl.when(tools.is_not_null().all()).then(named).alias("tools")


def _in_order(rows: pl.LazyFrame) -> pl.DataFrame:
    """Sorted by case where there are few; the ids hashed."""
    key = pl.col("case_id").hash()
    few = collect_rows(rows.select(pl.len())).item() <= MAX_SORTED
    table = collect_rows(rows.sort("case_id").with_columns(key) if few else rows.with_columns(key))
    alone = table["cluster"].equals(table["case_id"])
    return table.with_columns(cluster="case_id") if alone else table  # in memory once


def pass_measure(table: pl.DataFrame) -> CaseMeasure:
    """Passes / executions; an errored one did not pass, and could have."""
    passes, errors, runs = pl.col("passes"), pl.col("errors"), pl.col("runs")
    missing = {
        "low": passes / runs * 100,
        "high": (passes + errors) / runs * 100,
        "known": 1 - errors / runs,
    }
    more = missing if table["errors"].sum() else {}
    return CaseMeasure(PASS_RATE, True, table.select("case_id", point=passes / runs * 100, **more))


def score_measure(table: pl.DataFrame) -> CaseMeasure:
    """The overall score; an errored repetition could have had any."""
    bounds = bool(table["errors"].sum())
    return CaseMeasure(SCORE, False, _averages(table, "errors", bounds=bounds))


def whole(measure: CaseMeasure) -> CaseMeasure:
    """The measure with all columns, whether something is missing or not."""
    if "known" in measure.cases.columns:
        return measure
    nothing = {"low": pl.col("point"), "high": pl.col("point"), "known": pl.lit(1.0)}
    return measure._replace(cases=measure.cases.with_columns(**nothing))


def metric_measure(name: str, side: pl.DataFrame, *, whole: bool) -> CaseMeasure | None:
    """A headline metric of one run; null where nothing was scored.

    A failed score could have been any; a skipped one is none.

    Args:
        name: its published name.
        side: a side of `assizes.judge.comparison.paired_metrics.PairedMetric`.
        whole: with what missing scores could do; else `case_id` and `point` alone.
    """
    if not side["scored"].sum():
        return None
    share = bool(side["two_valued"].all())
    return CaseMeasure(name, share=share, cases=_averages(side, "failed", bounds=whole))


def _averages(side: pl.DataFrame, missing_column: str, *, bounds: bool) -> pl.DataFrame:
    """The mean of each case that was due, and the least and most it could be with what was lost.

    Args:
        side: `case_id`, `total` of the scores on 0..100, `scored` and `lost` how many.
        missing_column: the column that counts what is missing; a case with any has no point.
        bounds: with `low`, `high` and `known`.
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
