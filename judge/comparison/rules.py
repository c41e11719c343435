"""The three rules of seed 001 over two runs: pass rate, average score, average latency."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

import polars as pl

from assizes.judge.config.run import ComparisonConfig
from assizes.judge.statistics.exact import DECIMALS, exceeds, rounded_value, unrounded_mean
from assizes.judge.verdicts.executions import collect_rows


class RuleFigures(NamedTuple):
    """What the rules look at, of one run: fraction, points of 0..100, milliseconds; not rounded."""

    pass_rate: Fraction | None
    score: float | None
    latency_ms: float | None


def figures(cases: pl.DataFrame, side: str, *, paired: bool) -> RuleFigures:
    """One run's figures, every case with the average of its repetitions.

    The pass rate is exact: mean over cases of passed / executions, errors counting as not passed.

    Args:
        cases: what `joined_cases` found.
        side: `baseline` or `candidate`.
        paired: average over the cases that both sides scored, or measured; else over the side's
            own.
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
    """One sentence for every rule that fires; a rule without its numbers never does."""
    if baseline.pass_rate is not None and candidate.pass_rate is not None:
        yield from _pass_rate_rule(baseline.pass_rate, candidate.pass_rate, limits)
    if baseline.score is not None and candidate.score is not None:
        yield from _score_rule(baseline.score, candidate.score, limits)
    if baseline.latency_ms and candidate.latency_ms is not None:
        yield from _latency_rule(baseline.latency_ms, candidate.latency_ms, limits)


def _pass_rate_rule(before: Fraction, after: Fraction, limits: ComparisonConfig) -> Iterator[str]:
    # The limit as it was written: 0.3 means three tenths, not the float next to it.
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
    """At least one decimal, and as many more as the number has."""
    return str(rounded_value(number))


def _apart(first: float, second: float, digits: int) -> tuple[str, str]:
    """Two different numbers with as few decimals, from `digits` on, as show the difference."""
    texts = [(f"{first:.{d}f}", f"{second:.{d}f}") for d in range(digits, DECIMALS + 1)]
    return next((pair for pair in texts if pair[0] != pair[1]), texts[-1])
