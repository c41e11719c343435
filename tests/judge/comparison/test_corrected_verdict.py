"""How a comparison ends by the statistics where labels correct the pass rate."""

from __future__ import annotations

import pytest

from assizes.judge.comparison.corrected_verdict import MeasuredLabels, corrected_comparison
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.statistics.prediction_powered import CorrectedEstimate
from tests.judge.run_frames import compared, outcomes

GATING = {"mode": "statistics", "gating": ("pass_rate",), "critical_cases": ("c00000",)}


def labelled(value):
    """A corrected change of the pass rate that is sure to two points."""
    estimate = CorrectedEstimate(
        value=value,
        low=value - 0.01,
        high=value + 0.01,
        error=0.005,
        labels=200,
        effective=200.0,
        weight=1.0,
        how="labels alone",
        expected=1e-4,
        step=0.005,
    )
    return MeasuredLabels("pass_rate", value, estimate, (200, 200), 200)


def endings(before, after, *, corrected=0.0, **changes):
    """The judge's word for the pass rate, that of the statistics, and the corrected ending."""
    asked = {**GATING, **changes}
    comparison = compared(before, after, **asked)
    limits = ComparisonConfig(**asked, verdict="corrected")
    found = corrected_comparison(comparison, [labelled(corrected)], (), limits)
    (measure,) = comparison.verdict.statistics.metrics
    assert found.corrected.decides
    assert found.verdict.ending == found.corrected.ending
    return measure.verdict, comparison.verdict.statistics.verdict, found.corrected.ending


def turned(failed):
    """A hundred cases of which the first ones, with the critical case, fail."""
    return [row | {"passed": n >= failed} for n, row in enumerate(outcomes(100))]


@pytest.mark.parametrize(("failed", "by_judge"), [(1, "inconclusive"), (40, "regressed")])
def test_a_critical_case_that_turned_is_a_regression_whatever_the_labels_say(failed, by_judge):
    found = endings(outcomes(100), turned(failed))
    assert found == (by_judge, "regressed", "regressed")


@pytest.mark.parametrize("short", [0, 1])
@pytest.mark.parametrize("corrected", [0.0, -0.3])
def test_a_run_under_its_coverage_is_inconclusive_whatever_the_labels_say(short, corrected):
    sides = [outcomes(100), outcomes(100)]
    sides[short] = outcomes(40, errored=60)
    found = endings(*sides, corrected=corrected)
    assert found == ("inconclusive", "inconclusive", "inconclusive")


def test_a_measure_that_cannot_be_compared_leaves_the_verdict_inconclusive():
    found = endings(turned(40), turned(42), critical_cases=(), gating=("pass_rate", "tone"))
    assert found == ("inconclusive", "inconclusive", "inconclusive")


def test_without_doubts_the_labels_replace_the_word_of_the_judge():
    fell = endings(outcomes(100), turned(40), critical_cases=())
    assert fell == ("regressed", "regressed", "fine")
    unsure = endings(turned(40), turned(42), critical_cases=())
    assert unsure == ("inconclusive", "inconclusive", "fine")
    worse = endings(turned(40), turned(42), critical_cases=(), corrected=-0.3)
    assert worse == ("inconclusive", "inconclusive", "regressed")
