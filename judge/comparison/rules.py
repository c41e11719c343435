"""The three rules of seed 001 over two runs: pass rate, average score, average latency.

The figures that the rules look at are taken from the cases of both runs, in pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

import polars as pl

from assizes.judge.comparison.cases import joined_cases
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.statistics.exact import DECIMALS, exceeds, rounded_value, unrounded_mean
from assizes.judge.verdicts.executions import collect_rows, quantile

MAX_LISTED: Final = 1_000
"""The most cases that are listed of each status, and of those that only one run holds; the counts
are always over all cases."""

_FLIPPED: Final = pl.col("baseline_passed").ne_missing(pl.col("candidate_passed"))
_CHANGED: Final = pl.col("status").is_in(["regression", "improvement"])


class RuleFigures(NamedTuple):
    """The numbers of one run that the rules compare, not rounded; `None` where there is no number.

    Attributes:
        pass_rate: 0..1.
        score: average of the overall scores, 0..100.
        latency_ms: average latency of the agent.
    """

    pass_rate: Fraction | None
    score: float | None
    latency_ms: float | None


def figures(cases: pl.DataFrame, side: str, *, paired: bool) -> RuleFigures:
    """The figures of one run; each case counts once, with the average of its repetitions.

    The pass rate is exact: mean over cases of passed / executions, errors counting as not passed.

    Args:
        cases: rows of `joined_cases`.
        side: `baseline` or `candidate`.
        paired: whether an average is taken only over the cases for which both runs have the
            number; else over all cases of this run that have it.
    """
    runs = cases[f"{side}_runs"]
    own = cases.filter(runs.is_not_null()) if runs.null_count() else cases
    sides = ("baseline", "candidate") if paired else (side,)

    def average(name: str) -> float | None:
        known = own[f"{side}_{name}"]
        if any(own[f"{scored_side}_{name}"].null_count() for scored_side in sides):
            known = own.select(f"{scored_side}_{name}" for scored_side in sides).drop_nulls()[
                f"{side}_{name}"
            ]
        return unrounded_mean(known) if known.len() else None

    return RuleFigures(_pass_rate(own, side), average("score"), average("agent_latency"))


def _pass_rate(cases: pl.DataFrame, side: str) -> Fraction | None:
    if cases.is_empty():
        return None
    by_runs = cases.lazy().group_by(f"{side}_runs").agg(pl.col(f"{side}_passes").sum())
    passed = sum(
        (Fraction(passes, runs) for runs, passes in collect_rows(by_runs).rows()), Fraction()
    )
    return passed / cases.height


def reasons(
    baseline: RuleFigures, candidate: RuleFigures, limits: ComparisonConfig
) -> Iterator[str]:
    """Write one sentence for every rule that fires; a rule whose numbers are missing never fires."""
    if baseline.pass_rate is not None and candidate.pass_rate is not None:
        yield from _pass_rate_rule(baseline.pass_rate, candidate.pass_rate, limits)
    if baseline.score is not None and candidate.score is not None:
        yield from _score_rule(baseline.score, candidate.score, limits)
    if baseline.latency_ms and candidate.latency_ms is not None:
        yield from _latency_rule(baseline.latency_ms, candidate.latency_ms, limits)


def _pass_rate_rule(before: Fraction, after: Fraction, limits: ComparisonConfig) -> Iterator[str]:
    # The limit is taken as it was written: 0.3 means three tenths, not the float next to it.
    limit = Fraction(repr(limits.max_pass_rate_drop))
    if before - after > limit:
        low, high = _apart(float(before * 100), float(after * 100), 1)
        yield f"pass rate fell from {low} % to {high} % (limit {_short(float(limit * 100))} %)"


def _score_rule(before: float, after: float, limits: ComparisonConfig) -> Iterator[str]:
    if exceeds(before - after, limits.max_avg_score_drop):
        low, high = _apart(before, after, 2)
        limit = _short(limits.max_avg_score_drop)
        yield f"average score fell from {low} to {high} (limit {limit} points)"


def _latency_rule(before: float, after: float, limits: ComparisonConfig) -> Iterator[str]:
    growth = (after - before) / before
    if exceeds(growth, limits.max_latency_increase_pct):
        low, high = _apart(before, after, 1)
        limit = limits.max_latency_increase_pct * 100
        grown, allowed = _apart(growth * 100, limit, 1)
        yield f"average latency rose from {low} ms to {high} ms, by {grown} % (limit {allowed} %)"


def _short(number: float) -> str:
    """The number with at least one decimal, and with more where it has more."""
    return str(rounded_value(number))


def _apart(first: float, second: float, digits: int) -> tuple[str, str]:
    """Two numbers as text with the fewest decimals that show their difference, at least `digits`."""
    texts = [(f"{first:.{d}f}", f"{second:.{d}f}") for d in range(digits, DECIMALS + 1)]
    return next((pair for pair in texts if pair[0] != pair[1]), texts[-1])


@dataclass(frozen=True, slots=True, eq=False)
class PairedCases:
    """The cases of two runs in pairs: counts over all of them, and the rows of a few.

    Where the runs share no case, the figures and the latencies are those of each run as a whole.

    Attributes:
        matched: the number of cases that both runs executed.
        statuses: the number of matched cases by status.
        flipped: by status, the number of matched cases whose verdict turned.
        uneven: the number of matched cases with different numbers of repetitions.
        unscored: the number of matched cases that have a score in one run only.
        listed: the rows of the matched cases to be listed, sorted by case.
        changed: the rows of all cases that got better or worse; `None` where no case was repeated,
            because then nothing tells how much a case moves by chance.
        baseline_only: ids of cases that only the baseline holds, up to `MAX_LISTED`.
        candidate_only: ids of cases that only the candidate holds, up to `MAX_LISTED`.
        alone: the number of cases that only the baseline, and only the candidate, holds.
        keys: the hashed ids of the matched cases; `None` where both runs hold the same cases and
            executed every one of them.
        repeated: whether some case was executed more than once.
        baseline: the figures of the baseline for the rules.
        candidate: the figures of the candidate for the rules.
        latency_p95_ms: the 95th percentile of the latency in both runs over the matched cases;
            `None` where repetitions were averaged.
    """

    matched: int
    statuses: Mapping[str, int]
    flipped: Mapping[str, int]
    uneven: int
    unscored: int
    listed: pl.DataFrame
    changed: pl.DataFrame | None
    baseline_only: tuple[str, ...]
    candidate_only: tuple[str, ...]
    alone: tuple[int, int]
    keys: pl.DataFrame | None
    repeated: bool
    baseline: RuleFigures
    candidate: RuleFigures
    latency_p95_ms: tuple[float | None, float | None] | None

    @classmethod
    def of(cls, baseline: pl.LazyFrame, candidate: pl.LazyFrame) -> PairedCases:
        """Join the rows of table `cases` of two runs."""
        both = joined_cases(baseline, candidate)
        in_both = pl.col("baseline_runs").is_not_null() & pl.col("candidate_runs").is_not_null()
        matched = both.rows.filter(in_both) if both.lone else both.rows
        paired = not matched.is_empty()
        shared = matched if paired else both.rows
        lone = [
            both.rows.filter(pl.col(f"{other}_runs").is_null())["case_id"]
            for other in ("candidate", "baseline")
        ]
        counted = matched.lazy().group_by("status").agg(cases=pl.len(), flipped=_FLIPPED.sum())
        by_status = collect_rows(counted).rows()
        return cls(
            matched=matched.height,
            statuses={status: cases for status, cases, _ in by_status},
            flipped={status: flips for status, _, flips in by_status},
            uneven=_count(matched, pl.col("baseline_runs") != pl.col("candidate_runs")),
            unscored=_count(
                matched,
                pl.col("baseline_score").is_null() != pl.col("candidate_score").is_null(),
            ),
            listed=_listed_cases(matched),
            changed=matched.filter(_CHANGED).sort("case_id") if both.repeated else None,
            baseline_only=tuple(lone[0].sort()[:MAX_LISTED]),
            candidate_only=tuple(lone[1].sort()[:MAX_LISTED]),
            alone=(lone[0].len(), lone[1].len()),
            keys=matched.select(pl.col("case_id").hash()) if both.lone or both.skipped else None,
            repeated=both.repeated,
            baseline=figures(shared, "baseline", paired=paired),
            candidate=figures(shared, "candidate", paired=paired),
            latency_p95_ms=None
            if both.repeated
            else (
                quantile(shared["baseline_agent_latency"], 0.95),
                quantile(shared["candidate_agent_latency"], 0.95),
            ),
        )

    @property
    def overlap(self) -> float:
        """The number of shared cases / that of the larger run's cases, 0..1."""
        return self.matched / (self.matched + max(self.alone)) if self.matched else 0.0

    @property
    def has_same_cases(self) -> bool:
        """Whether both runs executed the same cases."""
        return not any(self.alone)


def _count(rows: pl.DataFrame, where: pl.Expr) -> int:
    return int(rows.select(where.sum()).item() or 0)


def _listed_cases(matched: pl.DataFrame) -> pl.DataFrame:
    """The first cases of each status, sorted by case: turned verdicts first, then the largest moves."""
    parts = []
    for status in ("error", "regression", "improvement", "unchanged"):
        own = pl.col("status") == status
        if status == "unchanged" and _count(matched, own) > MAX_LISTED:
            first = matched.lazy().filter(own).select("case_id").bottom_k(MAX_LISTED, by="case_id")
            own = pl.col("case_id").is_in(first.collect()["case_id"].implode())
        rows = matched.filter(own)
        if rows.height > MAX_LISTED and status in ("regression", "improvement"):
            size = pl.col("score_delta").abs().fill_null(0.0)
            order = [_FLIPPED, size, pl.col("case_id")]
            rows = rows.sort(order, descending=[True, True, False]).head(MAX_LISTED)
        elif rows.height > MAX_LISTED:
            rows = rows.bottom_k(MAX_LISTED, by="case_id")
        parts.append(rows)
    return pl.concat(parts).sort("case_id")
