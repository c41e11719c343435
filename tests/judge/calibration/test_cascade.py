"""Thresholds of cascades: exact bounds, the promise in simulations, and what is refused."""

from __future__ import annotations

import tomllib

import numpy as np
import pytest
from scipy.stats import binom  # type: ignore[import-untyped]

from assizes.judge.calibration.cascade import (
    CascadeLabels,
    LabelledDecision,
    agreement_bound,
    fewest_labels,
    set_threshold,
)
from assizes.judge.calibration.cascade_result import (
    CascadeResult,
    JudgeCascade,
    threshold_setting,
)
from assizes.judge.config.cascade import CascadeConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.statistics.intervals import Sample


def labels(decisions: dict[str, list[LabelledDecision]]) -> CascadeLabels:
    judged = [(one.cluster, one.confidence) for own in decisions.values() for one in own]
    return CascadeLabels("judge", decisions, judged, {})


def decision(
    number: int, confidence: float, *, first: bool = True, senior: bool = True
) -> LabelledDecision:
    return LabelledDecision(f"c{number}", confidence, first, senior)


@pytest.mark.parametrize(("agreeing", "size"), [(60, 60), (57, 60), (30, 60), (1, 60)])
def test_the_bound_is_the_exact_one(agreeing: int, size: int):
    low, effective = agreement_bound(Sample.of([1.0] * agreeing + [0.0] * (size - agreeing)), 0.1)
    assert effective == size
    # With this true agreement as many or more agree in a tenth of all samples.
    assert binom.sf(agreeing - 1, size, low) == pytest.approx(0.1)


def test_nobody_agreeing_has_the_bound_zero():
    assert agreement_bound(Sample.of([0.0] * 30), 0.1)[0] == 0.0


def test_clusters_that_are_alike_count_less():
    names = [number // 6 for number in range(120)]
    whole = [float(name % 5 > 0) for name in names]  # a cluster agrees or it does not
    low, effective = agreement_bound(Sample.of(whole, names), 0.1)
    assert effective < 25
    assert low < agreement_bound(Sample.of(whole), 0.1)[0]
    all_agree, clusters = agreement_bound(Sample.of([1.0] * 120, names), 0.1)
    assert clusters == 20
    assert all_agree == pytest.approx(0.1 ** (1 / 20))


@pytest.mark.parametrize(("agreement", "delta", "fewest"), [(0.9, 0.1, 22), (0.95, 0.05, 59)])
def test_the_fewest_labels_are_those_with_which_full_agreement_passes(agreement, delta, fewest):
    assert fewest_labels(agreement, delta) == fewest
    assert agreement_bound(Sample.of([1.0] * fewest), delta)[0] >= agreement
    assert agreement_bound(Sample.of([1.0] * (fewest - 1)), delta)[0] < agreement


def test_the_lowest_threshold_that_holds_is_taken():
    sure = [decision(n, 0.8) for n in range(80)]
    unsure = [decision(80 + n, 0.3, first=n % 2 == 0) for n in range(40)]
    found = set_threshold(labels({"m": sure + unsure}), 0.9, 0.1)
    assert found.confidence == 0.35  # at 0.3 the unsure ones would stay with the first model
    assert found.escalated == pytest.approx(40 / 120)
    (metric,) = found.metrics
    assert (metric.attained, metric.first_alone, metric.senior_alone) == (
        1.0,
        pytest.approx(100 / 120),
        1.0,
    )


def test_every_metric_must_hold():
    good = [decision(n, 0.3) for n in range(60)]
    other = [decision(n, 0.3, first=n % 2 == 0) for n in range(60)]
    assert set_threshold(labels({"m": good}), 0.9, 0.1).confidence == 0.05
    assert set_threshold(labels({"m": good, "n": other}), 0.9, 0.1).confidence == 0.35


def test_testing_stops_at_the_first_threshold_that_fails():
    # Around 0.55 the first model is wrong; below, it is right where the stronger one is not.
    middle = [decision(n, 0.55, first=False) for n in range(20)]
    low = [decision(20 + n, 0.2, senior=n >= 30) for n in range(400)]
    assert set_threshold(labels({"m": middle + low}), 0.9, 0.1).confidence == 0.6
    assert set_threshold(labels({"m": low}), 0.9, 0.1).confidence == 0.05


@pytest.mark.parametrize(
    ("decisions", "said"),
    [
        ({}, "no label"),
        ({"m": [decision(n, 1.0) for n in range(21)]}, "takes at least 22, even if all agree"),
        (
            {"m": [LabelledDecision(f"c{n % 9}", 1.0, True, True) for n in range(200)]},
            "from 9 clusters; at least 10",
        ),
        (
            {"m": [decision(n, 0.5, senior=n % 5 > 0) for n in range(200)]},
            "no threshold keeps agreement 0.9 with delta 0.1",
        ),
    ],
)
def test_what_cannot_be_promised_is_refused_in_one_line(decisions, said):
    with pytest.raises(ConfigurationError) as refused:
        set_threshold(labels(decisions), 0.9, 0.1)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_promise_is_broken_no_more_often_than_delta():
    # Thresholds whose true agreement is just under the promise: the worst case for the test.
    rng = np.random.default_rng(5)
    asked, delta, trials, broken, promised = 0.85, 0.1, 400, 0, 0
    for _ in range(trials):
        confidence = rng.choice([0.2, 0.6, 1.0], size=150)
        right = rng.random(150) < np.select(
            [confidence == 0.2, confidence == 0.6], [0.6, 0.76], 0.9
        )
        senior = rng.random(150) < 0.9
        items = [
            decision(n, float(confidence[n]), first=bool(right[n]), senior=bool(senior[n]))
            for n in range(150)
        ]
        try:
            found = set_threshold(labels({"m": items}), asked, delta)
        except ConfigurationError:
            continue
        promised += 1
        stays = [found.confidence <= level for level in (0.2, 0.6, 1.0)]
        true = np.mean(
            [own if keep else 0.9 for own, keep in zip((0.6, 0.76, 0.9), stays, strict=True)]
        )
        broken += bool(true < asked)
    assert promised > trials / 4
    assert binom.sf(broken - 1, trials, delta) > 0.001, (broken, trials)


def test_the_settings_are_toml_that_a_configuration_accepts():
    found = set_threshold(labels({"m": [decision(n, 0.8) for n in range(80)]}), 0.9, 0.1)
    result = CascadeResult(
        run_id="r",
        labels="labels.csv",
        labels_hash="0" * 16,
        agreement=0.9,
        delta=0.1,
        first=("openai/small",),
        senior="openai/big",
        judges=(JudgeCascade(calibration=found, setting=threshold_setting(found, "ab" * 8)),),
    )
    read = CascadeConfig.model_validate(tomllib.loads(result.settings())["judge"]["cascade"])
    assert read.agreement == 0.9
    assert read.thresholds["judge"] == result.judges[0].setting
    assert read.thresholds["judge"].attained_low <= found.metrics[0].attained_low
