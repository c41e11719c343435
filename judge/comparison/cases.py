"""Compares two runs case by case: averages repetitions, joins the runs, gives each case a status."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, Literal, NamedTuple

import polars as pl

from assizes.judge.statistics.exact import DECIMALS, rounded_value
from assizes.judge.summary.headlines import METRIC, headlines
from assizes.judge.verdicts.executions import PASS_FLAGGED, collect_rows, executions

GUARD: Final = 12
"""Decimals of a mean over repetitions, three more than a difference keeps: rounding both to the same
number of decimals would move a difference that lies exactly on a limit."""

CASE_POINTS: Final = 5.0
"""Points (0..100) that a score must move for its case to count as changed, where the verdict did not
turn; seed 001 sets this number."""

NOISE_SPREADS: Final = 2.0
"""Standard deviations of repetitions up to which the move of a score is noise."""

_SIDES = ("baseline", "candidate")
_STATUS: Final = pl.Enum(["regression", "improvement", "unchanged", "error"])

MetricStatus = Literal["regression", "improvement", "unchanged"]
CaseStatus = Literal["regression", "improvement", "unchanged", "error"]


@dataclass(frozen=True, slots=True)
class MetricDelta:
    """One metric of one case in both runs, in the metric's own unit; any step down is a regression.

    `delta` is `None` for a binary metric and where a run has no score. A metric without a best
    value (tokens, ms) is never better or worse.
    """

    metric: str
    is_binary: bool
    baseline_score: float | None
    candidate_score: float | None
    delta: float | None
    baseline_label: str | None
    candidate_label: str | None
    status: MetricStatus


@dataclass(frozen=True, slots=True)
class CaseComparison:
    """One case in both runs, its repetitions averaged; the case passed when every repetition did."""

    test_case_id: str
    test_case_name: str
    status: CaseStatus
    baseline_passed: bool | None
    candidate_passed: bool | None
    baseline_pass_fraction: float
    candidate_pass_fraction: float
    baseline_score: float | None
    candidate_score: float | None
    score_delta: float | None
    metric_deltas: tuple[MetricDelta, ...]
    baseline_latency_ms: float | None
    candidate_latency_ms: float | None
    latency_delta_ms: float | None


class JoinedCases(NamedTuple):
    """The cases of two runs in one table.

    Attributes:
        rows: one row a case, in no order. Columns of each run, prefixed `baseline_` and
            `candidate_`: `runs`, `passes` and `errors` (counts of executions), `score`, `passed`,
            `agent_latency`, `duration`; all of these are `null` where the run lacks the case. Columns
            of both: `status` and `score_delta`.
        lone: whether one run holds a case that the other does not.
        skipped: whether some case was not executed.
        repeated: whether some case was executed more than once.
    """

    rows: pl.DataFrame
    lone: bool
    skipped: bool
    repeated: bool


def joined_cases(baseline: pl.LazyFrame, candidate: pl.LazyFrame) -> JoinedCases:
    """Join the cases of two runs, given as rows of table `cases`."""
    runs = (baseline, candidate)
    run_counts = [_run_counts(side) for side in runs]
    executed = {counts.cases - counts.skipped for counts in run_counts}
    repeated = any(counts.repeated for counts in run_counts)
    sides = [
        _side(run, f"{side}_", repeated=repeated) for run, side in zip(runs, _SIDES, strict=True)
    ]
    joined = None if repeated or len(executed) > 1 else _in_one_order(*sides)
    if joined is None:
        before, after = (collect_rows(side) for side in sides)
        joined = before.join(after, on="case_id", how="full", coalesce=True)
    rows = collect_rows(
        joined.lazy()
        .with_columns(score_delta=(pl.col("candidate_score") - pl.col("baseline_score")).round(2))
        .with_columns(status=_case_status())
    )
    lone = bool(rows["baseline_runs"].null_count() or rows["candidate_runs"].null_count())
    return JoinedCases(rows, lone, any(counts.skipped for counts in run_counts), repeated)


class _RunCounts(NamedTuple):
    """How many cases a run holds, how many of them were skipped, whether some were repeated."""

    cases: int
    skipped: int
    repeated: bool


def _run_counts(cases: pl.LazyFrame) -> _RunCounts:
    skipped = (pl.col("status") == "skipped").sum()
    return _RunCounts(
        *collect_rows(cases.select(pl.len(), skipped, (pl.col("repetition") > 0).any())).row(0)
    )


def _side(cases: pl.LazyFrame, prefix: str, *, repeated: bool) -> pl.LazyFrame:
    errored = pl.col("state") == "errored"
    undecided = pl.col("state").is_in(["undecided", PASS_FLAGGED])
    passed = pl.col("state") == "passed"
    executed = executions(cases)
    if repeated:
        rows = executed.group_by("case_id").agg(
            runs=pl.len(),
            passes=passed.sum(),
            errors=errored.sum(),
            # An undecided case and a flagged pass have no verdict: null, which never flips.
            passed=pl.when(~undecided.any()).then(passed.all()),
            # A case with an errored repetition has no score: the others may be its better ones.
            score=pl.when(~errored.any()).then(pl.col("overall_score").mean().round(GUARD)),
            agent_latency=pl.col("agent_latency_ms").mean().round(GUARD),
            duration=pl.col("duration_ms").mean().round(GUARD),
        )
    else:
        rows = executed.select(
            "case_id",
            runs=pl.lit(1, pl.UInt8),
            passes=passed.cast(pl.UInt8),
            errors=errored.cast(pl.UInt8),
            passed=pl.when(~undecided).then(passed),
            score=pl.when(~errored).then(pl.col("overall_score").round(GUARD)),
            agent_latency=pl.col("agent_latency_ms").round(GUARD),
            duration=pl.col("duration_ms").round(GUARD),
        )
    return rows.select("case_id", pl.exclude("case_id").name.prefix(prefix))


def _in_one_order(before: pl.LazyFrame, after: pl.LazyFrame) -> pl.DataFrame | None:
    """Put two tables side by side without a join; `None` where their cases are in different orders.

    Two runs over the same transcripts hold their cases in one order.
    """
    rows = collect_rows(
        pl.concat([before, after.rename({"case_id": "other"})], how="horizontal")
        .with_columns(alike=pl.col("case_id") == pl.col("other"))
        .drop("other")
    )
    return rows.drop("alike") if rows["alike"].all() else None


def _delta(baseline: str, candidate: str) -> pl.Expr:
    return (pl.col(candidate) - pl.col(baseline)).round(DECIMALS)


def _flip(baseline: str, candidate: str) -> pl.Expr:
    """The status of a verdict that turned; `null` where the verdict did not turn or a run has none."""
    return (
        pl.when(pl.col(baseline) & ~pl.col(candidate))
        .then(pl.lit("regression"))
        .when(~pl.col(baseline) & pl.col(candidate))
        .then(pl.lit("improvement"))
    )


def _move(delta: pl.Expr, tolerance: float) -> pl.Expr:
    return (
        pl.when(delta < -tolerance)
        .then(pl.lit("regression"))
        .when(delta > tolerance)
        .then(pl.lit("improvement"))
        .otherwise(pl.lit("unchanged"))
    )


def _case_status() -> pl.Expr:
    """The status by seed 001: an error in either run, else a turned verdict, else the score's move."""
    error = (pl.col("baseline_errors") > 0) | (pl.col("candidate_errors") > 0)
    decided = pl.coalesce(
        _flip("baseline_passed", "candidate_passed"), _move(pl.col("score_delta"), CASE_POINTS)
    )
    return pl.when(error).then(pl.lit("error")).otherwise(decided).cast(_STATUS)


def joined_metrics(
    scores: tuple[pl.LazyFrame, pl.LazyFrame],
    cases: pl.DataFrame,
    names: Mapping[tuple[str, str], str],
) -> pl.DataFrame:
    """Join the scored headline metrics of two runs, sorted by case, judge and metric.

    Columns of the result: `metric` (the published name), `is_binary`, `status`, `delta`, and of
    each run `score`, `success`, `label`.

    Args:
        scores: rows of table `scores` of both runs.
        cases: the cases wanted.
        names: the published name of each (judge, metric).
    """
    keys = ["case_id", *METRIC]
    ids = cases["case_id"]
    baseline, candidate = (
        _metric_side(rows, ids, f"{side}_") for rows, side in zip(scores, _SIDES, strict=True)
    )
    sides = baseline.join(candidate, on=keys, how="full", coalesce=True)
    binary = pl.col("baseline_binary").fill_null(value=True) & pl.col("candidate_binary").fill_null(
        value=True
    )
    value_delta = _delta("baseline_value", "candidate_value")
    return _with_published_names(
        collect_rows(
            sides.with_columns(is_binary=binary)
            .with_columns(
                delta=pl.when(~pl.col("is_binary")).then(
                    _delta("baseline_score", "candidate_score")
                ),
                status=pl.when("is_binary")
                .then(_flip("baseline_success", "candidate_success").fill_null(pl.lit("unchanged")))
                .otherwise(_move(value_delta, 0.0)),
            )
            .sort(keys)
        ),
        names,
    )


def _metric_side(scores: pl.LazyFrame, ids: pl.Series, prefix: str) -> pl.LazyFrame:
    keys = ["case_id", *METRIC]
    return (
        headlines(scores.filter(pl.col("case_id").is_in(ids.implode())))
        .filter(pl.col("status") == "scored")
        .group_by(keys)
        .agg(
            binary=pl.col("two_valued").all(),
            success=pl.col("success").all(),
            score=pl.col("raw").mean().round(GUARD),
            value=pl.col("value").mean().round(GUARD),
            label=pl.when(pl.col("label").n_unique() == 1).then(pl.col("label").first()),
        )
        .select(*keys, pl.exclude(keys).name.prefix(prefix))
    )


def _with_published_names(
    metrics: pl.DataFrame, names: Mapping[tuple[str, str], str]
) -> pl.DataFrame:
    """Replace the name of each metric by its published name."""
    published = pl.DataFrame(
        [(*key, name) for key, name in names.items()],
        schema=dict.fromkeys((*METRIC, "name"), pl.String),
        orient="row",
    )
    named = metrics.join(published, on=METRIC, how="left", maintain_order="left")
    return named.with_columns(metric=pl.coalesce("name", "metric"))


def case_comparisons(cases: pl.DataFrame, metrics: pl.DataFrame) -> list[CaseComparison]:
    """Turn joined cases into values, each case with its metrics; both frames sorted by `case_id`."""
    deltas = _metric_deltas(metrics)
    measured = (
        pl.col("baseline_duration").is_not_null() & pl.col("candidate_duration").is_not_null()
    )
    latencies = {
        f"{side}_latency": pl.when(measured)
        .then(f"{side}_duration")
        .otherwise(f"{side}_agent_latency")
        for side in _SIDES
    }
    timed = cases.with_columns(**latencies).with_columns(
        latency_delta=_delta("baseline_latency", "candidate_latency")
    )
    shown = [f"{side}_{number}" for side in _SIDES for number in ("score", "latency")]
    rows = timed.with_columns(pl.col(shown).round(DECIMALS)).iter_rows(named=True)
    return [_case_comparison(row, deltas.get(row["case_id"], ())) for row in rows]


def _metric_deltas(metrics: pl.DataFrame) -> dict[str, tuple[MetricDelta, ...]]:
    """The metrics of each case by case id; `metrics` is sorted by `case_id` and read once."""
    columns = [field.name for field in fields(MetricDelta)]
    shown = metrics.with_columns(pl.col("baseline_score", "candidate_score").round(DECIMALS))
    rows = map(MetricDelta, *(shown[column].to_list() for column in columns))
    return {
        case_id: tuple(delta for _, delta in group)
        for case_id, group in groupby(zip(metrics["case_id"], rows, strict=True), key=itemgetter(0))
    }


def _case_comparison(row: dict[str, Any], deltas: tuple[MetricDelta, ...]) -> CaseComparison:
    return CaseComparison(
        test_case_id=row["case_id"],
        test_case_name=row["case_id"],
        status=row["status"],
        baseline_passed=row["baseline_passed"],
        candidate_passed=row["candidate_passed"],
        baseline_pass_fraction=rounded_value(row["baseline_passes"] / row["baseline_runs"]),
        candidate_pass_fraction=rounded_value(row["candidate_passes"] / row["candidate_runs"]),
        baseline_score=row["baseline_score"],
        candidate_score=row["candidate_score"],
        score_delta=row["score_delta"],
        metric_deltas=deltas,
        baseline_latency_ms=row["baseline_latency"],
        candidate_latency_ms=row["candidate_latency"],
        latency_delta_ms=row["latency_delta"],
    )


def noise_threshold(repeat_sd: float) -> float:
    """Points by which the score of a case may move by chance: max(5, 2 x SD of its repetitions)."""
    return max(CASE_POINTS, NOISE_SPREADS * repeat_sd)


def changes_within_noise(changed: pl.DataFrame, threshold: float) -> tuple[str, ...]:
    """The ids of the changed cases whose change is within noise.

    A change is within noise unless the verdict of most repetitions turned or the score moved by
    more than the threshold.

    Args:
        changed: rows of `joined_cases` for the cases that got worse or better.
        threshold: points of 0..100.
    """
    most = [pl.col(f"{side}_passes") * 2 > pl.col(f"{side}_runs") for side in _SIDES]
    still = pl.col("score_delta").abs().fill_null(0.0) <= threshold
    return tuple(changed.filter((most[0] == most[1]) & still)["case_id"])
