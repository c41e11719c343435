"""The reliability of an agent over the repetitions of a case: pass^k and pass@k."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import comb
from typing import NamedTuple

import polars as pl

from assizes.judge.statistics.exact import rounded_value
from assizes.judge.summary.headlines import METRIC, headlines
from assizes.judge.verdicts.executions import collect_rows, executions


class TrialTally(NamedTuple):
    """The number of `cases` that had `trials` trials and succeeded in `successes` of them."""

    trials: int
    successes: int
    cases: int


def pass_hat_k(tallies: Sequence[TrialTally]) -> dict[int, float]:
    """pass^k, the chance that k trials of a case all succeed, for every k up to the most trials.

    It is C(c, k) / C(n, k) for a case with c successes in n trials, averaged over the cases with
    n >= k. Empty when no case was repeated.
    """
    return {
        k: _mean_share([(Fraction(comb(c, k), comb(n, k)), cases) for n, c, cases in due])
        for k, due in _by_k(tallies)
    }


def pass_at_k(tallies: Sequence[TrialTally]) -> dict[int, float]:
    """pass@k, the chance that at least one of k trials succeeds: 1 - C(n - c, k) / C(n, k)."""
    return {
        k: _mean_share([(1 - Fraction(comb(n - c, k), comb(n, k)), cases) for n, c, cases in due])
        for k, due in _by_k(tallies)
    }


def _by_k(tallies: Sequence[TrialTally]) -> list[tuple[int, list[TrialTally]]]:
    """Each k with the tallies of the cases that have at least k trials."""
    most = max((tally.trials for tally in tallies), default=0)
    if most < 2:
        return []
    return [(k, [tally for tally in tallies if tally.trials >= k]) for k in range(1, most + 1)]


def _mean_share(shares: Sequence[tuple[Fraction, int]]) -> float:
    cases = sum(number for _, number in shares)
    return rounded_value(sum((share * number for share, number in shares), Fraction()) / cases)


def case_tallies(executed: pl.LazyFrame) -> list[TrialTally]:
    """Tallies of the cases by their verdicts; an errored execution is a trial without success."""
    per_case = executed.group_by(pl.col("case_id").hash()).agg(
        trials=pl.len(), successes=(pl.col("state") == "passed").sum()
    )
    counted = per_case.group_by("trials", "successes").agg(cases=pl.len())
    return [TrialTally(*row) for row in collect_rows(counted.sort("trials", "successes")).rows()]


def metric_tallies(scores: pl.LazyFrame) -> dict[tuple[str, str], list[TrialTally]]:
    """Tallies by (judge, metric) for the metrics whose scores say pass or fail.

    A score with status `failed` is a trial without success; a skipped score is no trial.
    """
    per_case = (
        headlines(scores)
        .filter(pl.col("success").is_not_null() | (pl.col("status") == "failed"))
        .group_by(*METRIC, "case_id")
        .agg(trials=pl.len(), successes=pl.col("success").sum(), decided=pl.col("success").count())
    )
    counted = per_case.group_by(*METRIC, "trials", "successes").agg(
        cases=pl.len(), decided=pl.col("decided").sum()
    )
    rows = collect_rows(counted.sort(*METRIC, "trials", "successes")).rows(named=True)
    decided = {(row["judge"], row["metric"]) for row in rows if row["decided"]}
    tallies: dict[tuple[str, str], list[TrialTally]] = {metric: [] for metric in sorted(decided)}
    for row in rows:
        if (metric := (row["judge"], row["metric"])) in tallies:
            tallies[metric].append(TrialTally(row["trials"], row["successes"], row["cases"]))
    return tallies


def reliability(
    cases: pl.LazyFrame, scores: pl.LazyFrame, names: Mapping[tuple[str, str], str]
) -> dict[str, dict[str, float]]:
    """pass^k and pass@k of a run: of its cases, and of each metric under its published name.

    Args:
        cases: rows of `cases`, of one run.
        scores: rows of `scores`.
        names: the published names of the metrics, by judge and metric.
    """
    tallies = {"": case_tallies(executions(cases))}
    if pass_hat_k(tallies[""]):
        by_metric = metric_tallies(scores)
        tallies |= {f"{names[metric]}/": of for metric, of in by_metric.items()}
    return {
        "pass_hat_k": {
            f"{name}pass^{k}": share
            for name, of in tallies.items()
            for k, share in pass_hat_k(of).items()
        },
        "pass_at_k": {
            f"{name}pass@{k}": share
            for name, of in tallies.items()
            for k, share in pass_at_k(of).items()
        },
    }
