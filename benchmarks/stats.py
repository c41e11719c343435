"""Simulations of the statistics, seeded: coverage of intervals, false alarms, power, lost scores.

    python -m benchmarks.stats [--seed 7] [--share 1.0]

`--share 0.1` runs a tenth of the repetitions, for a quick look.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from assizes.judge.comparison.compare import compare
from assizes.judge.comparison.runs import RunData
from assizes.judge.comparison.statistical_verdict import StatisticalVerdict
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.rows import CASES, SCORES
from assizes.judge.statistics.effects import decide, paired_effect, unpaired_effect
from assizes.judge.statistics.intervals import (
    Sample,
    ValueInterval,
    mean_interval,
    quantile_interval,
    rate_interval,
)
from assizes.judge.summary.summary import summarise
from benchmarks import trust
from benchmarks.figures import Figures

Floats = NDArray[np.float64]
Rng = np.random.Generator

CONFIG = RunConfig(transcripts=TranscriptsConfig(uri="simulated/"))


def main() -> None:
    """Every simulation, each figure with its goal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--share", type=float, default=1.0)
    given = parser.parse_args()
    figures, rng = Figures(), np.random.default_rng(given.seed)
    coverage(figures, rng, int(4000 * given.share))
    false_alarms_of_rows_and_clusters(figures, rng, int(4000 * given.share))
    same_agent(figures, rng, int(400 * given.share))
    real_drop(figures, rng, int(100 * given.share))
    nights(figures, rng, int(60 * given.share))
    lost_scores(figures, rng, max(1, int(200 * given.share)))
    trust.comparability(figures)
    trust.corrected(figures, rng, int(1000 * given.share))
    trust.drift(figures, rng, int(400 * given.share))
    trust.attribution(figures, rng, max(1, int(100 * given.share)))
    trust.quiet_years(figures, rng, max(1, int(60 * given.share)))
    trust.sharp_nights(figures, rng, max(1, int(100 * given.share)))
    figures.close()


def clustered(rng: Rng, clusters: int, rows: int, rate: float = 0.7) -> Sample:
    """Passes of cases in clusters with an intraclass correlation of one half."""
    shape = (rate, 1 - rate)  # a beta of total 1 has an intraclass correlation of 1 / 2
    shares = rng.beta(*shape, size=clusters)
    passed = (rng.random((clusters, rows)) < shares[:, None]).astype(float)
    return Sample(passed.ravel(), np.repeat(np.arange(clusters), rows))


def share_held(times: int, true: float, span_of: Callable[[], ValueInterval | None]) -> float:
    """How often an interval holds the true value."""
    spans = [span_of() for _ in range(times)]
    return sum(s is not None and s.low <= true <= s.high for s in spans) / times


def coverage(figures: Figures, rng: Rng, times: int) -> None:
    """95 % intervals hold the true value in 93 to 97 % of samples."""

    def alone(cases: int, rate: float) -> ValueInterval | None:
        return rate_interval(Sample.of((rng.random(cases) < rate).astype(float)))

    def middle() -> ValueInterval | None:
        shared, own = rng.normal(0, 1, 25), rng.normal(0, 1, 100)
        codes = np.repeat(np.arange(25), 4)
        return quantile_interval(Sample(shared[codes] + own, codes), 0.5)

    def moved(share: bool) -> ValueInterval:
        worse, better = (0.10, 0.06) if share else (0.3, 0.2)
        draw = rng.random(100)
        values = np.where(draw < worse, -1.0, np.where(draw > 1 - better, 1.0, 0.0))
        if not share:
            values = values * rng.exponential(20, size=100)
        return paired_effect(Sample.of(values), 0.95, share=share).span

    found = {
        "coverage_wilson_30": share_held(times, 0.95, lambda: alone(30, 0.95)),
        "coverage_wilson_200": share_held(times, 0.8, lambda: alone(200, 0.8)),
        "coverage_rate_25_clusters": share_held(
            times, 0.7, lambda: rate_interval(clustered(rng, 25, 4))
        ),
        "coverage_rate_10_clusters": share_held(
            times, 0.7, lambda: rate_interval(clustered(rng, 10, 4))
        ),
        "coverage_mean_25_clusters": share_held(
            times, 0.7, lambda: mean_interval(clustered(rng, 25, 4))
        ),
        "coverage_median_25_clusters": share_held(times, 0.0, middle),
        "coverage_paired_share": share_held(times, -0.04, lambda: moved(share=True)),
        "coverage_paired_score": share_held(times // 4, -2.0, lambda: moved(share=False)),
        "coverage_unpaired_share": share_held(
            times,
            0.0,
            lambda: (
                unpaired_effect(clustered(rng, 50, 4), clustered(rng, 50, 4), 0.95, share=True).span
            ),
        ),
    }
    for name, held in found.items():
        figures.add(name, held, least=0.93)
        figures.add(f"{name}_over", max(0.0, held - 0.97), most=0.0)


def false_alarms_of_rows_and_clusters(figures: Figures, rng: Rng, times: int) -> None:
    """One-sided 5 % tests of different cases each night, 50 clusters of 4."""
    by_row = by_cluster = 0
    for _ in range(times):
        before, after = clustered(rng, 50, 4), clustered(rng, 50, 4)
        rows = np.sqrt(before.values.var() / 200 + after.values.var() / 200)
        by_row += (after.mean - before.mean) / rows < stats.norm.ppf(0.05)
        effect = unpaired_effect(before, after, 0.95, share=False)
        by_cluster += effect.delta < 0 and effect.p_value < 0.10
    figures.add("false_alarms_row_level", by_row / times, least=0.10)
    figures.add("false_alarms_cluster_level", by_cluster / times, most=0.06)


def run_of(passed: Floats, scores: Floats, errored: Floats | None = None) -> RunData:
    """A run of cases (rows) by repetitions (columns)."""
    cases, repeats = passed.shape
    lost = np.zeros_like(passed, dtype=bool) if errored is None else errored.astype(bool)
    gone = pl.col("gone")
    base = pl.DataFrame(
        {
            "case_id": np.repeat([f"c{i:05}" for i in range(cases)], repeats),
            "repetition": np.tile(np.arange(repeats), cases),
            "gone": lost.ravel(),
            "held": passed.ravel().astype(bool),
            "points": scores.ravel().round(2),
        }
    )
    known = pl.when(~gone).then("points")
    rows = base.with_columns(
        passed=pl.col("held") & ~gone,
        overall_score=known,
        status=pl.when(gone).then(pl.lit("errored")).otherwise(pl.lit("judged")),
    )
    headlines = base.with_columns(
        judge=pl.lit("conversation"),
        metric=pl.lit("tool_routing"),
        part=pl.lit(""),
        weight=pl.lit(1.0),
        status=pl.when(gone).then(pl.lit("failed")).otherwise(pl.lit("scored")),
        value=known / 100,
        raw=known / 20,
        details=pl.lit("{}"),
    )
    tables = [_typed(rows, CASES), _typed(headlines, SCORES)]
    summary = summarise(*tables, pl.LazyFrame(schema=_ASKS), CONFIG, {"read": cases * repeats})
    config = CONFIG.model_dump(mode="json")
    return RunData("run", "nightly", None, config, summary, *tables, "complete")


_ASKS = {
    **dict.fromkeys(("case_id", "judge", "model", "answered_by", "fingerprint"), pl.String),
    **dict.fromkeys(("error", "cost_source"), pl.String),
    **dict.fromkeys(("repetition", "attempts"), pl.Int32),
    **dict.fromkeys(("input_tokens", "output_tokens"), pl.Int64),
    **dict.fromkeys(("cost_usd", "latency_ms"), pl.Float64),
    "cached": pl.Boolean,
    "flags": pl.List(pl.String),
}


def _typed(rows: pl.DataFrame, schema: dict[str, object]) -> pl.LazyFrame:
    """All columns of a public table, in its order."""
    present = [
        (pl.col(name) if name in rows.columns else pl.lit(None)).cast(kind).alias(name)  # type: ignore[arg-type]
        for name, kind in schema.items()
    ]
    return rows.select(present).lazy()


def night(rng: Rng, truth: Floats, flip: float, repeats: int) -> RunData:
    """Verdicts of a truth, each turned with a chance of `flip`; scores with noise of 8 points."""
    turned = rng.random((truth.size, repeats)) < flip
    passed = np.where(turned, 1 - truth[:, None], truth[:, None])
    scores = np.clip(60 + 25 * truth[:, None] + rng.normal(0, 8, turned.shape), 0, 100)
    return run_of(passed, scores)


def told(before: RunData, after: RunData) -> StatisticalVerdict:
    """The statistical verdict by the product's own comparison."""
    found = compare(before, after, ComparisonConfig()).verdict.statistics
    assert found is not None
    return found


def same_agent(figures: Figures, rng: Rng, times: int) -> None:
    """A/A comparisons of 200 cases that flip with 5 %: regressions by the rule, by the statistics."""
    ruled = flagged = 0
    for _ in range(times):
        truth = (rng.random(200) < 0.85).astype(float)
        verdict = compare(
            night(rng, truth, 0.05, 1), night(rng, truth, 0.05, 1), ComparisonConfig()
        ).verdict
        ruled += verdict.regression_detected
        flagged += verdict.statistics is not None and verdict.statistics.verdict == "regressed"
    figures.add("same_agent_flagged_by_rule", ruled / times)
    figures.add("same_agent_flagged", flagged / times, most=0.05)


def real_drop(figures: Figures, rng: Rng, times: int) -> None:
    """A true drop of the pass rate by 10 points, found on one of two nights."""
    for cases, repeats in ((500, 1), (200, 3)):
        found = 0
        for _ in range(times):
            truth = (rng.random(cases) < 0.9).astype(float)
            worse = truth.copy()
            worse[rng.choice(np.flatnonzero(truth), cases // 10, replace=False)] = 0.0
            before = night(rng, truth, 0.05, repeats)
            words = [told(before, night(rng, worse, 0.05, repeats)).verdict for _ in range(2)]
            found += "regressed" in words
        figures.add(f"drop_found_{cases}_cases_{repeats}_repeats", found / times, least=0.95)


def nights(figures: Figures, rng: Rng, years: int) -> None:
    """A/A years against one baseline: nights called regressed, and two such nights running. What
    alerts is the series (`trust.quiet_years`).
    """
    single = onsets = 0
    for _ in range(years):
        truth = (rng.random(200) < 0.85).astype(float)
        before = np.abs(truth - (rng.random(200) < 0.05))
        flags = []
        for _ in range(365):
            after = np.abs(truth - (rng.random(200) < 0.05))
            effect = paired_effect(Sample.of(after - before), 0.95, share=True)
            sure = effect.p_value <= 0.01
            flags.append(decide(effect, effect.p_value, 0.02, 0.05) == "regressed" and sure)
        pairs = [one and other for one, other in pairwise(flags)]
        single += sum(flags)
        onsets += sum(now and not was for was, now in zip([False, *pairs], pairs, strict=False))
    figures.add("regressed_nights_a_year", single / years)
    figures.add("alerts_a_year_of_two_nights", onsets / years, most=1.0)


def lost_scores(figures: Figures, rng: Rng, seeds: int) -> None:
    """Errors on the worst 10, 30 and 50 % of the candidate's cases: never good news."""
    better = decided = 0
    for _ in range(seeds):
        truth = (rng.random(100) < 0.85).astype(float)
        before = night(rng, truth, 0.05, 1)
        scores = np.clip(50 + 25 * truth[:, None] + rng.normal(0, 8, (100, 1)), 0, 100)
        passed = np.where(rng.random(100) < 0.2, 0.0, truth)[:, None]
        order = np.lexsort((scores[:, 0], passed[:, 0]))
        for share in (10, 30, 50):
            errored = np.zeros((100, 1))
            errored[order[:share]] = 1.0
            word = told(before, run_of(passed, scores, errored)).verdict
            better += word in ("improved", "not_worse")
            decided += word != "inconclusive"
    figures.add("good_news_from_lost_scores", better, most=0)
    figures.add("verdicts_under_the_coverage_floor", decided, most=0)


if __name__ == "__main__":
    main()
