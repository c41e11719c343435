"""Pairs the cases of two runs: statuses, repetitions averaged, and the figures of the rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from itertools import groupby
from math import fsum
from operator import itemgetter
from typing import Final, Literal, NamedTuple

import polars as pl

from assizes.judge.statistics.exact import DECIMALS, rounded_value
from assizes.judge.verdicts.executions import PASS_FLAGGED, collect_rows, executions, quantile

GUARD: Final = 12
"""Decimals of a mean over repetitions, three more than a difference keeps: rounding both to the same
number of decimals would move a difference that lies exactly on a limit."""

CASE_POINTS: Final = 5.0
"""Points (0..100) that a score must move for its case to count as changed, where the verdict did not
turn."""

NOISE_SPREADS: Final = 2.0
"""Standard deviations of repetitions up to which the move of a score is noise."""

MAX_LISTED: Final = 1_000
"""The most cases that are listed of each status, and of those that only one run holds; the counts
are always over all cases."""

SIDES: Final = ("baseline", "candidate")

_STATUS: Final = pl.Enum(["regression", "improvement", "unchanged", "error"])  # smaller than texts
_FLIPPED: Final = (pl.col("baseline_passed") != pl.col("candidate_passed")).fill_null(value=False)

MetricStatus = Literal["regression", "improvement", "unchanged"]
CaseStatus = Literal["regression", "improvement", "unchanged", "error"]


@dataclass(frozen=True, slots=True)
class MetricDelta:
    """One metric of one case in both runs, in the metric's own unit; any step down is a regression.

    `delta` is `None` for a binary metric and where a run has no score. A metric without a best
    value (tokens, ms) is never better or worse.
    """

    metric: str  # published name
    is_binary: bool
    baseline_score: float | None  # mean of the repetitions
    candidate_score: float | None
    delta: float | None  # candidate minus baseline
    baseline_label: str | None  # None where the repetitions have several
    candidate_label: str | None
    status: MetricStatus


@dataclass(frozen=True, slots=True)
class CaseComparison:
    """One case in both runs, its repetitions averaged; the case passed when every repetition did."""

    test_case_id: str
    test_case_name: str  # cases have no name beside their id
    status: CaseStatus
    baseline_passed: bool | None  # None: no verdict, or one that does not count
    candidate_passed: bool | None
    baseline_pass_fraction: float  # passed / executed repetitions, 0..1
    candidate_pass_fraction: float
    baseline_score: float | None  # overall score, 0..100
    candidate_score: float | None
    score_delta: float | None  # candidate minus baseline, in points, 2 decimals
    metric_deltas: tuple[MetricDelta, ...]
    baseline_latency_ms: float | None  # the conversation's duration, else the agent's latency
    candidate_latency_ms: float | None
    latency_delta_ms: float | None


class RuleFigures(NamedTuple):
    """The numbers of one run that the rules compare, not rounded; `None` where there is none."""

    pass_rate: Fraction | None  # 0..1; exact, since a float can fall beside the limit
    score: float | None  # mean overall score, 0..100
    latency_ms: float | None  # mean of the agent's latency


@dataclass(frozen=True, slots=True, eq=False)
class PairedCases:
    """The cases of two runs in pairs: counts, the case rows to list, and what the rules compare."""

    matched: int  # cases that both runs executed
    statuses: Mapping[str, int]  # matched cases by status
    flipped: Mapping[str, int]  # those of them whose verdict turned
    uneven: int  # matched cases with different numbers of repetitions
    uneven_numbers: int  # with as many, but a score or a latency of different numbers of them
    unscored: int  # matched cases with a score in one run only
    listed: pl.DataFrame  # the matched cases to be shown, sorted by id
    changed: pl.DataFrame | None  # better or worse; None: no repetitions tell what chance does
    baseline_only: tuple[str, ...]  # ids of up to MAX_LISTED cases
    candidate_only: tuple[str, ...]
    alone: tuple[int, int]  # number of cases that only the baseline, only the candidate holds
    overlap: float  # shared cases / cases of the larger run, 0..1
    keys: pl.DataFrame | None  # hashed ids of the matched cases; None: they are all cases
    repeated: bool  # whether a run executed some case more than once
    baseline: RuleFigures  # over executions of the matched cases; none match: of the whole run
    candidate: RuleFigures
    by_case: tuple[RuleFigures, RuleFigures]  # where repetitions are uneven: each case once
    latency_p95_ms: tuple[float | None, float | None] | None  # None: repetitions were averaged

    @classmethod
    def of(cls, baseline: pl.LazyFrame, candidate: pl.LazyFrame) -> PairedCases:
        """Join the rows of table `cases` of two runs."""
        rows, skipped, repeated = _joined_cases(baseline, candidate)
        no_before, no_after = pl.col("baseline_runs").is_null(), pl.col("candidate_runs").is_null()
        lone = [rows.filter(absent)["case_id"] for absent in (no_after, no_before)]
        has_lone = any(ids.len() for ids in lone)
        matched = rows.filter(~no_before & ~no_after) if has_lone else rows
        paired = not matched.is_empty()
        shared = matched if paired else rows  # without a shared case each run is taken as a whole
        counted = matched.lazy().group_by("status").agg(cases=pl.len(), flipped=_FLIPPED.sum())
        by_status = collect_rows(counted).rows()
        scored = [pl.col(f"{side}_score").is_null() for side in SIDES]
        uneven = _uneven_cases(matched, repeated=repeated)
        before, after = (_figures(shared, side, paired=paired) for side in SIDES)
        by_case = (before, after)
        if uneven.figures:
            once = [_figures(shared, side, paired=paired, once=uneven.figures) for side in SIDES]
            by_case = (once[0], once[1])
        alone = (lone[0].len(), lone[1].len())
        changed = pl.col("status").is_in(["regression", "improvement"])
        p95 = [quantile(shared[f"{side}_agent_latency"], 0.95) for side in SIDES]
        return cls(
            matched=matched.height,
            statuses={status: cases for status, cases, _ in by_status},
            flipped={status: flips for status, _, flips in by_status},
            uneven=uneven.runs,
            uneven_numbers=uneven.numbers,
            unscored=matched.select((scored[0] != scored[1]).sum()).item(),
            listed=_listed_cases(matched),
            changed=matched.filter(changed).sort("case_id") if repeated else None,
            baseline_only=tuple(lone[0].sort()[:MAX_LISTED]),
            candidate_only=tuple(lone[1].sort()[:MAX_LISTED]),
            alone=alone,
            overlap=matched.height / (matched.height + max(alone)) if paired else 0.0,
            keys=matched.select(pl.col("case_id").hash()) if has_lone or skipped else None,
            repeated=repeated,
            baseline=before,
            candidate=after,
            by_case=by_case,
            latency_p95_ms=None if repeated else (p95[0], p95[1]),
        )


def flipped_cases(baseline: pl.LazyFrame, candidate: pl.LazyFrame) -> list[str]:
    """The ids of the cases whose verdict turned, from the rows of table `cases` of two runs.

    They have the order of the comparison: what got worse, the largest move of the score first, then
    what got better.
    """
    rows, *_ = _joined_cases(baseline, candidate)
    moved = pl.col("status").is_in(["regression", "improvement"])
    size = pl.col("score_delta").abs().fill_null(0.0)
    flipped = rows.filter(_FLIPPED & moved).sort(
        [pl.col("status") != "regression", size, pl.col("case_id")],
        descending=[False, True, False],
    )
    return flipped["case_id"].to_list()


def _joined_cases(
    baseline: pl.LazyFrame, candidate: pl.LazyFrame
) -> tuple[pl.DataFrame, bool, bool]:
    """One row for each case, in no order; whether a case was skipped; whether one was repeated.

    Columns of each run, prefixed `baseline_` and `candidate_`: `runs`, `passes` and `errors`
    (counts of executions), `score`, `passed`, `agent_latency`, `duration`; none has a value where
    the run lacks the case. Columns of both: `status` and `score_delta`.
    """
    runs, skipped = (baseline, candidate), (pl.col("status") == "skipped").sum()
    numbers = (pl.len(), skipped, (pl.col("repetition") > 0).any())
    counts = [collect_rows(run.select(numbers)).row(0) for run in runs]
    repeated = any(repeated for *_, repeated in counts)
    before, after = (
        _side(run, f"{side}_", repeated=repeated) for run, side in zip(runs, SIDES, strict=True)
    )
    joined = None
    if not repeated and len({cases - left_out for cases, left_out, _ in counts}) == 1:
        # Two runs over the same transcripts hold their cases in one order, and need no join.
        both = pl.concat([before, after.rename({"case_id": "other"})], how="horizontal")
        alike = pl.col("case_id") == pl.col("other")
        side_by_side = collect_rows(both.with_columns(alike=alike).drop("other"))
        joined = side_by_side.drop("alike") if side_by_side["alike"].all() else None
    if joined is None:
        rows_before, rows_after = collect_rows(before), collect_rows(after)
        joined = rows_before.join(rows_after, on="case_id", how="full", coalesce=True)
    error = (pl.col("baseline_errors") > 0) | (pl.col("candidate_errors") > 0)
    passed, other_passed = pl.col("baseline_passed"), pl.col("candidate_passed")
    moved = pl.col("score_delta")
    # By seed 001: an error in either run, else a turned verdict, else the move of the score.
    status = pl.coalesce(
        pl.when(error).then(pl.lit("error")),
        change_status(passed & ~other_passed, ~passed & other_passed),
        change_status(moved < -CASE_POINTS, moved > CASE_POINTS),
        pl.lit("unchanged"),
    )
    rows = collect_rows(
        joined.lazy()
        .with_columns(score_delta=(pl.col("candidate_score") - pl.col("baseline_score")).round(2))
        .with_columns(status=status.cast(_STATUS))
    )
    return rows, any(left_out for _, left_out, _ in counts), repeated


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
            # An undecided case and a flagged pass have no verdict: null, which turns no status.
            passed=pl.when(~undecided.any()).then(passed.all()),
            # A case with an errored repetition has no score: the others may be its better ones.
            score=pl.when(~errored.any()).then(pl.col("overall_score").mean().round(GUARD)),
            score_count=pl.col("overall_score").count(),
            agent_latency=pl.col("agent_latency_ms").mean().round(GUARD),
            agent_latency_count=pl.col("agent_latency_ms").count(),
            duration=pl.col("duration_ms").mean().round(GUARD),
        )
    else:
        rows = executed.select(
            "case_id",
            runs=pl.lit(1, pl.UInt8),  # a byte a case: runs have millions
            passes=passed.cast(pl.UInt8),
            errors=errored.cast(pl.UInt8),
            passed=pl.when(~undecided).then(passed),
            score=pl.when(~errored).then(pl.col("overall_score").round(GUARD)),
            agent_latency=pl.col("agent_latency_ms").round(GUARD),
            duration=pl.col("duration_ms").round(GUARD),
        )
    return rows.select("case_id", pl.exclude("case_id").name.prefix(prefix))


def change_status(worse: pl.Expr, better: pl.Expr) -> pl.Expr:
    """The status of what got worse or better; `null` for anything else."""
    return pl.when(worse).then(pl.lit("regression")).when(better).then(pl.lit("improvement"))


class _Uneven(NamedTuple):
    """Matched cases that the two runs average over different numbers of repetitions."""

    runs: int  # cases with different numbers of repetitions
    numbers: int  # with as many, but a score or a latency of different numbers of them
    figures: frozenset[str]  # what they make uneven: pass_rate, score, agent_latency


def _uneven_cases(matched: pl.DataFrame, *, repeated: bool) -> _Uneven:
    runs = pl.col("baseline_runs") != pl.col("candidate_runs")
    score, latency = (
        _measured_unevenly(name) if repeated else pl.lit(value=False)
        for name in ("score", "agent_latency")
    )
    cases = matched.select(
        pass_rate=runs.sum(),
        score=(runs | score).sum(),
        agent_latency=(runs | latency).sum(),
        numbers=(~runs & (score | latency)).sum(),
    ).row(0, named=True)
    numbers = cases.pop("numbers")
    return _Uneven(
        cases["pass_rate"], numbers, frozenset(name for name, count in cases.items() if count)
    )


def _measured_unevenly(name: str) -> pl.Expr:
    """Whether both runs know a number of a case, but from different numbers of repetitions."""
    known = pl.all_horizontal(pl.col(f"{side}_{name}").is_not_null() for side in SIDES)
    return known & (pl.col(f"baseline_{name}_count") != pl.col(f"candidate_{name}_count"))


def _figures(
    cases: pl.DataFrame, side: str, *, paired: bool, once: frozenset[str] = frozenset()
) -> RuleFigures:
    """The figures of one run over its executions; in those named in `once` each case counts once.

    With `paired`, averages are over cases where both runs have the number.
    """
    runs = cases[f"{side}_runs"]
    own = cases.filter(runs.is_not_null()) if runs.null_count() else cases
    of, passed = own.height, Fraction()
    if "pass_rate" in once:
        # Cases with equally many runs share a denominator: a few Fractions instead of millions.
        by_runs = own.group_by(f"{side}_runs").agg(pl.col(f"{side}_passes").sum())
        passed = sum((Fraction(passes, runs) for runs, passes in by_runs.rows()), Fraction())
    else:
        of, passed = int(runs.sum()), Fraction(int(own[f"{side}_passes"].sum()))
    averages: dict[str, float | None] = {}
    for name in ("score", "agent_latency"):
        columns = [f"{each}_{name}" for each in (SIDES if paired else (side,))]
        weights = f"{side}_{name}_count"  # absent where no case was repeated
        weighted = name not in once and weights in own.columns
        known = own.select(*columns, *[weights] * weighted)
        if any(known[column].null_count() for column in columns):
            known = known.drop_nulls(columns)
        values, times = known[f"{side}_{name}"], known.height
        if weighted:
            values, times = values * known[weights], int(known[weights].sum())
        averages[name] = fsum(values.to_numpy()) / times if times else None
    return RuleFigures(passed / of if of else None, averages["score"], averages["agent_latency"])


def _listed_cases(matched: pl.DataFrame) -> pl.DataFrame:
    """Some cases of each status, sorted by id: turned verdicts before others, then large moves."""
    parts = []
    for status in ("error", "regression", "improvement", "unchanged"):
        own = pl.col("status") == status
        # Most cases are unchanged: their ids are cut before their other columns are copied.
        if status == "unchanged" and matched.select(own.sum()).item() > MAX_LISTED:
            first = matched.lazy().filter(own).select("case_id").bottom_k(MAX_LISTED, by="case_id")
            own = pl.col("case_id").is_in(first.collect()["case_id"].implode())
        rows = matched.filter(own)
        if rows.height > MAX_LISTED and status in ("regression", "improvement"):
            size = pl.col("score_delta").abs().fill_null(0.0)
            order = [_FLIPPED, size, pl.col("case_id")]  # ids settle ties
            rows = rows.sort(order, descending=[True, True, False]).head(MAX_LISTED)
        elif rows.height > MAX_LISTED:
            rows = rows.bottom_k(MAX_LISTED, by="case_id")
        parts.append(rows)
    return pl.concat(parts).sort("case_id")


def case_comparisons(cases: pl.DataFrame, metrics: pl.DataFrame) -> list[CaseComparison]:
    """Turn joined cases into values, each with its metrics; both frames are sorted by `case_id`."""
    columns = [field.name for field in fields(MetricDelta)]
    shown = metrics.with_columns(pl.col("baseline_score", "candidate_score").round(DECIMALS))
    deltas = map(MetricDelta, *(shown[column].to_list() for column in columns))
    by_case = groupby(zip(metrics["case_id"], deltas, strict=True), key=itemgetter(0))
    of_case = {case_id: tuple(delta for _, delta in group) for case_id, group in by_case}
    # The latency is the duration of the conversation where both runs know it, else the agent's.
    measured = pl.all_horizontal(pl.col(f"{side}_duration").is_not_null() for side in SIDES)
    before, after = (
        pl.when(measured).then(f"{side}_duration").otherwise(f"{side}_agent_latency")
        for side in SIDES
    )
    rounded = cases.with_columns(
        pl.col("baseline_score", "candidate_score").round(DECIMALS),
        baseline_latency=before.round(DECIMALS),
        candidate_latency=after.round(DECIMALS),
        latency_delta=(after - before).round(DECIMALS),
    )
    return [
        CaseComparison(
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
            metric_deltas=of_case.get(row["case_id"], ()),
            baseline_latency_ms=row["baseline_latency"],
            candidate_latency_ms=row["candidate_latency"],
            latency_delta_ms=row["latency_delta"],
        )
        for row in rounded.iter_rows(named=True)
    ]
