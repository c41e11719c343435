"""The runs of a comparison: their case tables and measures, and whether they may be compared.

A measure is one number for each case; a label is the agent of a case, the agent's version, one of
its tags, or a tool that it called.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import polars as pl

from assizes.judge.config.run import (
    FINGERPRINTS,
    PRIVACY,
    SUITE,
    TRUTH,
    FieldChange,
    suite_series,
)
from assizes.judge.summary.headlines import FrozenModel
from assizes.judge.summary.run_summary import RunSummary
from assizes.judge.verdicts.executions import collect_rows, executions

MIN_OVERLAP: Final = 0.95
"""Share (0..1) of the larger run's cases that both runs must hold for a comparison case by case."""

DISJOINT: Final = 0.05
"""Overlap (0..1) below which the runs are compared as two samples of the same traffic."""

_TABLES: Final = ("judge", FINGERPRINTS, PRIVACY, TRUTH)
_READING: Final = ("transcripts.writes", "transcripts.redact", "transcripts.format")
_PLACES: Final = ("judge.rubrics", "judge.api_base")
# Where rubrics and endpoints are; the texts of the rubrics and the models that answered are
# compared by themselves. [thresholds] are of a run as a whole: they change no case and no score.


@dataclass(frozen=True, slots=True, eq=False)
class RunData:
    """A stored run: its row and its tables."""

    run_id: str
    name: str
    agent_version: str | None
    config: Mapping[str, Any]  # snapshot, taken when the run began
    summary: RunSummary | None  # None where the run is not complete
    cases: pl.LazyFrame  # rows of table `cases`
    scores: pl.LazyFrame  # rows of table `scores`
    status: str
    answered_by: tuple[str, ...] = ()  # the models whose replies the run holds
    sliceable: bool = True  # rows from the middle of a table cost no more than these rows
    prompts: Mapping[str, Any] = field(default_factory=dict)  # texts of the judges


class Mismatch(FrozenModel):
    """One difference of two runs that could change the numbers although the agent did not change."""

    field: str  # name of a setting, `answered_by` or `cases`
    baseline: Any
    candidate: Any
    of_judge: bool  # else of the cases: the scores of both runs mean the same

    @property
    def line(self) -> str:
        """The name of the field with the values of both runs, as one line of text."""
        sides = ("not set" if v is None else str(v) for v in (self.baseline, self.candidate))
        return f"{self.field}: {' -> '.join(sides)}"


def mismatches(
    changes: Sequence[FieldChange],
    answered_by: tuple[Sequence[str], Sequence[str]],
    overlap: float,
    *,
    same_suite: bool = False,
    is_part: bool = False,
) -> tuple[Mismatch, ...]:
    """Find every difference that keeps two runs from being compared; none for runs judged alike.

    `changes` are the settings that differ; `answered_by` are the models that answered, of the
    baseline and of the candidate; `overlap` is shared cases / cases of the larger run, 0..1. A suite
    grows between its runs: what both hold of it is compared, as where `is_part`: one run holds a
    random part of the cases of the other.
    """
    differing = []
    for change in changes:
        name, table = change.field, change.field.partition(".")[0]
        compared = name not in _PLACES and (table in _TABLES or name in _READING)
        # Two samples of the traffic each have a ground truth of their own.
        if compared and (name != TRUTH or (overlap >= DISJOINT and not same_suite)):
            differing.append((name, change.baseline, change.candidate, True))
    before, after = (", ".join(sorted(side)) for side in answered_by)
    if before and after and before != after:  # a side that knows none is not held against the other
        differing.append(("answered_by", before, after, True))
    if DISJOINT <= overlap < MIN_OVERLAP and not (same_suite or is_part):
        needed = f"at least {MIN_OVERLAP:.0%} in both runs, or under {DISJOINT:.0%}"
        differing.append(("cases", needed, f"{overlap:.1%} in both", False))
    return tuple(
        Mismatch(field=name, baseline=baseline, candidate=candidate, of_judge=of_judge)
        for name, baseline, candidate, of_judge in differing
    )


def are_of_one_suite(runs: tuple[RunData, RunData]) -> bool:
    """Whether both runs judged conversations of one kind over a suite of the same name."""
    before, after = (suite_series(run.config) for run in runs)
    return before is not None and before == after


def suite_warnings(runs: tuple[RunData, RunData]) -> Iterator[str]:
    """Write a sentence where the suite of two runs changed between them."""
    if are_of_one_suite(runs):
        before, after = (run.config[SUITE]["version"] for run in runs)
        if before != after:
            yield (
                f"the suite changed between the runs, from version {before} to {after}: what is "
                "expected of a case may have changed with it"
            )


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

    Table `cases` has a row for each case that the measure applies to: `case_id` (hashed) and
    `point`, empty where a repetition that the number needs is missing. Where something is missing
    also `low` and `high` (every missing repetition counted as 0, or as 100) and `known` (share of
    the repetitions that have the number, 0..1); see `whole`.
    """

    name: str
    share: bool  # each case has one of two values: the mean is a share of cases
    cases: pl.DataFrame  # ids hashed: texts would take most of the memory


class CaseTable(NamedTuple):
    """The cases of a run with their clusters and labels, and the spread of their repetitions."""

    cases: pl.DataFrame  # the table of `case_table`
    squares: float  # sum of squared deviations of scores from the mean of their case
    degrees: int  # degrees of freedom of `squares`; 0: no case was repeated


def case_table(cases: pl.LazyFrame) -> CaseTable:
    """Build the case table of a run from its rows of table `cases`, with one row for each case.

    Columns: `case_id` and `cluster` (hashed), `runs`, `passes`, `errors`, `agent`, `agent_version`,
    `tags`, `tools` (of all repetitions, joined by `TOOL_SEPARATOR`; empty where not known), and
    `scored` and `total` of the overall score.
    """
    errored, passed = pl.col("state") == "errored", pl.col("state") == "passed"
    score = pl.when(~errored).then("overall_score")
    executed = executions(cases)
    repeated = collect_rows(executed.select((pl.col("repetition") > 0).any())).item()
    labels = [pl.col(name).cast(pl.Categorical) for name in ("agent", "agent_version", "tags")]
    shared = pl.col("cluster").is_not_null()  # the hash of null is a number too
    # Another seed, since a cluster may have the name of a case that is not in it.
    own = pl.when(shared).then(pl.col("cluster").hash(seed=1)).otherwise(pl.col("case_id").hash())
    own = own.alias("cluster")
    if not repeated:  # then a row is a case, and grouping would only take time
        rows = executed.select(
            "case_id",
            own,
            *labels,
            pl.col("tools").list.join(TOOL_SEPARATOR).cast(pl.Categorical),
            runs=pl.lit(1, pl.UInt8),
            passes=passed.cast(pl.UInt8),
            errors=errored.cast(pl.UInt8),
            scored=score.is_not_null().cast(pl.UInt8),
            total=score.fill_null(0.0),
        )
        return CaseTable(_in_order(rows), 0.0, 0)
    tools = pl.col("tools")
    # A case called the tools of all its repetitions, as far as all of them are known.
    named = tools.explode().drop_nulls().unique().sort().str.join(TOOL_SEPARATOR)
    all_tools = pl.when(tools.is_not_null().all()).then(named).alias("tools")
    rows = executed.group_by("case_id").agg(
        own.first(),
        *(label.first() for label in labels),
        all_tools.cast(pl.Categorical),
        runs=pl.len(),
        passes=passed.sum(),
        errors=errored.sum(),
        scored=score.count(),
        total=score.sum(),
        squares=((score - score.mean()) ** 2).sum(),
    )
    table = _in_order(rows)
    more = table.filter(pl.col("scored") > 1)
    squares, degrees = float(more["squares"].sum()), int((more["scored"] - 1).sum())
    return CaseTable(table.drop("squares"), squares, degrees)


def _in_order(rows: pl.LazyFrame) -> pl.DataFrame:
    """Hash the ids of the cases; sort the rows by case where there are few."""
    key = pl.col("case_id").hash()
    few = collect_rows(rows.select(pl.len())).item() <= MAX_SORTED
    table = collect_rows(rows.sort("case_id").with_columns(key) if few else rows.with_columns(key))
    alone = table["cluster"].equals(table["case_id"])
    # Two equal columns become one in memory.
    return table.with_columns(cluster="case_id") if alone else table


def case_measure(name: str, table: pl.DataFrame) -> CaseMeasure:
    """The pass rate (passes / executions) or the overall score of the cases in a case table.

    An errored execution did not pass, but could have; it has no score, but could have had any.
    """
    has_errors = bool(table["errors"].sum())
    if name == SCORE:
        return CaseMeasure(SCORE, False, _averages(table, "errors", bounds=has_errors))
    passes, errors, runs = pl.col("passes"), pl.col("errors"), pl.col("runs")
    point = passes / runs * 100
    missing = {"low": point, "high": (passes + errors) / runs * 100, "known": 1 - errors / runs}
    more = missing if has_errors else {}
    return CaseMeasure(PASS_RATE, True, table.select("case_id", point=point, **more))


def whole(measure: CaseMeasure) -> CaseMeasure:
    """The measure with all its columns, also where nothing is missing."""
    if "known" in measure.cases.columns:
        return measure
    nothing = {"low": pl.col("point"), "high": pl.col("point"), "known": pl.lit(1.0)}
    return measure._replace(cases=measure.cases.with_columns(**nothing))


def metric_measure(name: str, side: pl.DataFrame, *, whole: bool) -> CaseMeasure | None:
    """The measure of a headline metric of one run; `None` where nothing was scored.

    `side` is the table of a run in `assizes.judge.comparison.metrics.PairedMetric`. A failed score
    could have had any value (the bounds for it are only added when `whole`); a case whose score was
    skipped is left out.
    """
    if not side["scored"].sum():
        return None
    share = bool(side["two_valued"].all())
    return CaseMeasure(name, share=share, cases=_averages(side, "failed", bounds=whole))


def _averages(side: pl.DataFrame, missing_column: str, *, bounds: bool) -> pl.DataFrame:
    """The mean score of each case that should have one; with `bounds` also low, high and known.

    Columns of `side`: `case_id`, `total` (sum of the scores, each 0..100), `scored` (their number)
    and the one that counts missing scores; a case with any of these has no `point`.
    """
    missing, total = pl.col(missing_column), pl.col("total")
    due = pl.col("scored") + missing
    bound = {"low": total / due, "high": (total + 100 * missing) / due}
    more = {**bound, "known": pl.col("scored") / due} if bounds else {}
    rows = side if side.select((due > 0).all()).item() else side.filter(due > 0)
    return rows.select("case_id", point=pl.when(missing == 0).then(total / due), **more)


def case_labels(table: pl.DataFrame, field: str) -> pl.DataFrame:
    """Columns `case_id` and `label`: the value of a field or tag, `null` where a case has none."""
    if field in FIELDS:
        return table.select("case_id", label=pl.col(field).cast(pl.String))
    known = {text: json.loads(text).get(field) for text in table["tags"].unique() if text}
    if not known:
        return table.select("case_id", label=pl.lit(None, dtype=pl.String))
    tags = pl.col("tags").cast(pl.String)
    label = tags.replace_strict(known, default=None, return_dtype=pl.String)
    return table.select("case_id", label=label)


def label_slices(
    tables: tuple[pl.DataFrame, pl.DataFrame], label: str, *, paired: bool
) -> Iterator[tuple[str, Sequence[pl.DataFrame]]]:
    """The values of a label that both runs have, each with the `case_id`s that have it in each run.

    `label` is a field, a tag, or `TOOL`, of which only the tools that the most cases called count.
    Where `paired`, a case has the value that it has in the baseline; it counts for a tool when the
    agent called it in either run, and only where the tools of both runs are known.
    """
    if label != TOOL:
        labels = [case_labels(table, label).drop_nulls() for table in tables]
        if paired:
            labels[1] = labels[0]
        for value in sorted(set(labels[0]["label"]) & set(labels[1]["label"])):
            yield value, [side.filter(pl.col("label") == value) for side in labels]
        return
    # Each set of tools that cases called, the names in it, and how many cases called it.
    text = pl.col("tools").cast(pl.String)
    tool_sets = [
        table.drop_nulls("tools")
        .group_by("tools")
        .agg(cases=pl.len())
        .filter(text != "")
        .with_columns(names=text.str.split(TOOL_SEPARATOR))
        for table in tables
    ]
    counts = pl.concat(tool_sets).explode("names").group_by("names").agg(pl.col("cases").sum())
    ranked = counts.sort("cases", "names", descending=[True, False]).head(MAX_VALUES)
    unknown = pl.col("tools").is_null()
    unknown_ids = pl.concat([table.filter(unknown).select("case_id") for table in tables])
    for name in sorted(ranked["names"]):
        called = pl.col("names").list.contains(name)
        ids = [
            table.join(sets.filter(called), on="tools", how="semi").select("case_id")
            for sets, table in zip(tool_sets, tables, strict=True)
        ]
        if paired:
            # Cases picked by what the agent did in one run differ in the other for that reason
            # alone (docs/decisions.md, decision 56).
            both = pl.concat(ids).unique().join(unknown_ids, on="case_id", how="anti")
            ids = [both, both]
        yield name, ids


def fields_of(table: pl.DataFrame) -> list[str]:
    """The fields and tags with 2 to `MAX_VALUES` values; and `TOOL`, if any case called a tool."""
    tags = {name for text in table["tags"].unique() if text for name in json.loads(text)}
    fields = [
        field
        for field in (*FIELDS, *sorted(tags - {TOOL}))
        if 2 <= case_labels(table, field)["label"].drop_nulls().n_unique() <= MAX_VALUES
    ]
    return [*fields, TOOL] if any(table["tools"].unique()) else fields
