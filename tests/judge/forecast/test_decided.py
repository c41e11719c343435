"""How far a run that stops when it is decided goes, drawn from the cases of an earlier run."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from assizes.judge.config.gates import ComparisonConfig, ThresholdsConfig
from assizes.judge.forecast.decided import DecidedRun, EarlierCases, equal_looks, stop_estimate

OPEN = ThresholdsConfig(cases_pass_threshold=0, metrics_pass_threshold=0)


def earlier(rate: float = 0.8, cases: int = 1000, turned: float = 0.1) -> EarlierCases:
    rng = np.random.default_rng(1)
    passes = (rng.random(cases) < rate).astype(float)
    other = np.where(rng.random(cases) < turned, 1 - passes, passes)
    clusters = np.arange(cases)
    return EarlierCases(
        "r", passes, 100 * passes, clusters, (other - passes, 100 * (other - passes))
    )


def run(baseline: str | None = None, cases: int = 1000, margin: float = 5.0, **gates) -> DecidedRun:
    comparison = ComparisonConfig(baseline=baseline, mode="statistics", margin=margin)
    return DecidedRun(
        cases, equal_looks(cases, 10, 100), 0.95, comparison, OPEN.model_copy(update=gates)
    )


def test_a_gate_far_from_its_threshold_needs_the_first_look_only_and_one_near_it_most_of_the_cases():
    far = stop_estimate(earlier(), run(cases_pass_threshold=60.0))
    near = stop_estimate(earlier(), run(cases_pass_threshold=80.0))
    assert far.median == pytest.approx(0.1)
    assert near.median > 3 * far.median
    assert near.low <= near.median <= near.high <= 1


def test_a_wider_margin_and_steadier_cases_need_fewer_of_them():
    narrow, wide = (stop_estimate(earlier(), run("latest", margin=m)).median for m in (3.0, 10.0))
    assert wide < narrow
    restless = stop_estimate(earlier(turned=0.4), run("latest")).median
    assert stop_estimate(earlier(turned=0.02), run("latest")).median < restless
    other_cases = stop_estimate(replace(earlier(), changes=None), run("latest")).median
    assert stop_estimate(earlier(), run("latest")).median < other_cases


def test_the_same_plan_has_the_same_estimate_and_few_clusters_decide_nothing():
    assert stop_estimate(earlier(), run("latest")) == stop_estimate(earlier(), run("latest"))
    few = replace(earlier(), clusters=np.arange(1000) // 200)
    assert stop_estimate(few, run()).median == 1.0


def test_looks_begin_where_enough_cases_are_judged():
    assert equal_looks(1000, 10, 300) == tuple(number / 10 for number in range(3, 10))
    assert equal_looks(90, 10, 100) == ()
