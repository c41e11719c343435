"""What the cases of a run came to, one value a case: the input of the statistical comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import polars as pl

from judge.executions import collected, executions
from judge.headlines import METRIC, headlines

PASS_RATE: Final = "pass_rate"
SCORE: Final = "overall_score"

TABLE: Final = {
    "case_id": pl.String,
    "point": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "known": pl.Float64,
}


class Measure(NamedTuple):
    """One number a case, its repetitions averaged, in points 0..100.

    Columns of `cases`: `case_id`, `point` (null where some repetition is missing and the number
    cannot do without), `low` and `high` (everything missing counted as 0, as the best), `known`
    (share of the repetitions that have it). A case it does not apply to has no row.
    """

    name: str
    share: bool
    cases: pl.DataFrame


class CaseTable(NamedTuple):
    """The cases of a run with their clusters and slices, and how much their repetitions differ."""

    cases: pl.DataFrame
    squares: float
    degrees: int


def case_table(cases: pl.LazyFrame, columns: tuple[str, ...] = ()) -> CaseTable:
    """One row a case: `case_id`, `cluster`, `runs`, `passes`, `errors`, `agent`, `agent_version`,
    `tags`, and the figures of the overall score.

    Args:
        cases: rows of `cases`, of one run.
        columns: more columns of theirs, the first value of each case.
    """
    errored = pl.col("state") == "errored"
    score = pl.when(~errored).then("overall_score")
    found = collected(
        executions(cases)
        .group_by("case_id")
        .agg(
            pl.coalesce(pl.lit("c:") + pl.col("cluster"), pl.lit("i:") + pl.col("case_id"))
            .first()
            .alias("cluster"),
            pl.col("agent", "agent_version", "tags", *columns).first(),
            runs=pl.len(),
            passes=(pl.col("state") == "passed").sum(),
            errors=errored.sum(),
            scored=score.count(),
            total=score.sum(),
            squares=((score - score.mean()) ** 2).sum(),
        )
        .sort("case_id")
    )
    repeated = found.filter(pl.col("scored") > 1)
    return CaseTable(found, float(repeated["squares"].sum()), int((repeated["scored"] - 1).sum()))


def pass_measure(table: pl.DataFrame) -> Measure:
    """Passes / executions; an errored one did not pass, and could have."""
    passes, errors, runs = pl.col("passes"), pl.col("errors"), pl.col("runs")
    rows = table.select(
        "case_id",
        point=passes / runs * 100,
        low=passes / runs * 100,
        high=(passes + errors) / runs * 100,
        known=1 - errors / runs,
    )
    return Measure(PASS_RATE, share=True, cases=rows.cast(TABLE))  # type: ignore[arg-type]  # a schema is one


def score_measure(table: pl.DataFrame) -> Measure:
    """The overall score; an errored repetition could have had any."""
    due = pl.col("scored") + pl.col("errors")
    rows = table.filter(due > 0).select(
        "case_id",
        point=pl.when(pl.col("errors") == 0).then(pl.col("total") / due),
        low=pl.col("total") / due,
        high=(pl.col("total") + 100 * pl.col("errors")) / due,
        known=pl.col("scored") / due,
    )
    return Measure(SCORE, share=False, cases=rows.cast(TABLE))  # type: ignore[arg-type]  # as above


def metric_measures(scores: pl.LazyFrame) -> Mapping[str, Measure]:
    """Every headline metric with a value by its name, `judge/metric` where judges share the name.

    A failed score could have been any; a skipped one is none.
    """
    scored, failed = pl.col("status") == "scored", pl.col("status") == "failed"
    value = pl.when(scored).then("value")
    found = collected(
        headlines(scores)
        .filter(scored | failed)
        .group_by(*METRIC, "case_id")
        .agg(
            scored=value.count(),
            failed=failed.sum(),
            total=value.sum() * 100,
            binary=(pl.col("two_valued") | ~scored).all(),
        )
        .with_columns(due=pl.col("scored") + pl.col("failed"))
        .filter(pl.col("due") > 0)
        .sort(*METRIC, "case_id")
    )
    named = found.partition_by(*METRIC, as_dict=True, maintain_order=True)
    judges: dict[str, set[str]] = {}
    for judge, metric in named:
        judges.setdefault(str(metric), set()).add(str(judge))
    return {
        name: _metric_measure(name, rows)
        for (judge, metric), rows in named.items()
        for name in [str(metric) if len(judges[str(metric)]) == 1 else f"{judge}/{metric}"]
        if rows["scored"].sum()
    }


def _metric_measure(name: str, found: pl.DataFrame) -> Measure:
    rows = found.select(
        "case_id",
        point=pl.when(pl.col("failed") == 0).then(pl.col("total") / pl.col("due")),
        low=pl.col("total") / pl.col("due"),
        high=(pl.col("total") + 100 * pl.col("failed")) / pl.col("due"),
        known=pl.col("scored") / pl.col("due"),
    )
    share = bool(found["binary"].all())
    return Measure(name, share=share, cases=rows.cast(TABLE))  # type: ignore[arg-type]  # as above
