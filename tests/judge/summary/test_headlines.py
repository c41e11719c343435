from __future__ import annotations

import pytest

from assizes.judge.rows import frame
from assizes.judge.summary.headlines import MetricSummary, case_tier_scores
from tests.judge.run_frames import (
    binary_row,
    case_row,
    fraction_row,
    outcomes,
    score_row,
    summary_of,
)


def test_tier_scores_are_means_over_the_cases_with_a_verdict():
    scores = [
        score_row("a", "m1", 5, weight=0.15),
        score_row("a", "m2", 0, weight=0.15),
        score_row("a", "m3", 5, weight=0.15),
        score_row("a", "m4", 4, weight=0.125, tier="knowledge"),
        score_row("b", "m1", 5, weight=0.15),
        score_row("b", "task_completion", 0, weight=0.0),
        score_row("errored", "m1", 0, weight=0.15),
    ]
    cases = [case_row("a"), case_row("b"), case_row("errored", None)]
    assert summary_of(cases, scores).tier_scores == {"execution": 83.335, "knowledge": 80.0}


@pytest.mark.row("000-16", "005-06")
def test_each_tier_of_a_case_has_a_score_of_its_own():
    weights = (0.15, 0.15, 0.15, 0.125, 0.125, 0.10, 0.10, 0.10)
    tiers = (*["execution"] * 3, *["knowledge"] * 2, *["process"] * 2, "delivery")
    scores = [
        score_row("a", f"m{place}", 0 if place == 2 else 5, weight=weight, tier=tier)
        for place, (weight, tier) in enumerate(zip(weights, tiers, strict=True))
    ]
    scores.append(score_row("a", "task_completion", 0, weight=0.0))
    assert list(case_tier_scores(frame("scores", scores)).items()) == [
        ("execution", 66.67),
        ("knowledge", 100.0),
        ("process", 100.0),
        ("delivery", 100.0),
    ]


def test_a_scored_metric_is_summed_up_in_its_own_unit():
    scores = [
        score_row("a", raw=5, weight=0.3),
        score_row("b", raw=1, weight=0.3),
        score_row("c", raw=1, weight=0.3),
        score_row("d", raw=None, weight=0.3),
        score_row("e", raw=None, weight=0.3, status="skipped"),
        score_row("a", part="outcome:0", raw=0),
    ]
    assert summary_of(outcomes(5), scores).metrics == (
        MetricSummary(
            name="tool_routing",
            judge="conversation",
            tier="execution",
            is_binary=False,
            weight=0.3,
            scored=3,
            skipped=1,
            failed=1,
            mean_raw=2.333333333,
            mean_value=0.466666667,
            pass_rate=None,
            labels={"excellent": 1, "fail": 2},
        ),
    )


def test_binary_metrics_and_those_with_a_verdict_have_a_pass_rate():
    scores = [
        *(binary_row(f"c{i}", passed=i == 0) for i in range(4)),
        fraction_row("c0", "search", 0.6, passed=True),
        fraction_row("c1", "search", 0.5, passed=False),
        fraction_row("c0", "groundedness", 1.0, label="yes"),
        fraction_row("c1", "groundedness", 0.0, label="no"),
        fraction_row("c0", "tokens", 350.0, value=None),
    ]
    found = {one.name: one for one in summary_of(outcomes(4), scores).metrics}
    facts = {n: (m.is_binary, m.pass_rate, m.mean_raw, m.mean_value) for n, m in found.items()}
    assert facts == {
        "task_completion": (True, 0.25, 1.25, 0.25),
        "search": (False, 0.5, 0.55, 0.55),
        "groundedness": (True, 0.5, 0.5, 0.5),
        "tokens": (False, None, 350.0, None),
    }


def test_a_metric_that_nobody_scored_has_no_mean():
    (metric,) = summary_of(outcomes(1), [score_row("c00000", raw=None)]).metrics
    assert (metric.mean_raw, metric.mean_value, metric.is_binary) == (None, None, False)
