"""Logistic fits beside a solver of scipy, Hunter's algorithm, and the textbook's closed forms."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize

from assizes.judge.statistics.fractional_logit import fit_logit, sigmoid


def test_the_estimate_is_the_maximum_of_the_likelihood():
    rng = np.random.default_rng(3)
    design = np.column_stack([np.ones(300), rng.normal(size=(300, 2))])
    chances = sigmoid(design @ np.array([0.3, -1.0, 0.5]))
    outcomes = rng.choice([0.0, 0.5, 1.0], size=300, p=[0.4, 0.2, 0.4])
    outcomes = np.where(rng.random(300) < 0.7, (rng.random(300) < chances).astype(float), outcomes)

    def loss(weights: np.ndarray) -> float:
        logits = design @ weights
        return float(np.logaddexp(0, logits).sum() - outcomes @ logits)

    fit = fit_logit(design, outcomes, np.arange(300))
    assert fit is not None
    assert fit.coefficients == pytest.approx(minimize(loss, np.zeros(3)).x, abs=1e-4)


def test_the_error_of_a_share_is_that_of_the_textbook():
    outcomes = np.array([1.0] * 30 + [0.0] * 20)
    fit = fit_logit(np.ones((50, 1)), outcomes, np.arange(50))
    assert fit is not None
    assert fit.coefficients[0] == pytest.approx(np.log(30 / 20))
    # The variance of a logit is 1 / (n p (1 - p)), here with n / (n - 1).
    assert fit.covariance[0, 0] == pytest.approx(50 / 49 / (50 * 0.6 * 0.4))


def test_cases_that_are_copies_of_one_another_add_no_certainty():
    rng = np.random.default_rng(5)
    outcomes, design = rng.integers(0, 2, 40).astype(float), np.ones((40, 1))
    alone = fit_logit(design, outcomes, np.arange(40))
    copied = fit_logit(np.ones((160, 1)), np.repeat(outcomes, 4), np.repeat(np.arange(40), 4))
    assert alone is not None
    assert copied is not None
    assert copied.covariance == pytest.approx(alone.covariance)


def test_strengths_are_those_of_hunters_algorithm():
    rng = np.random.default_rng(11)
    runs, wins = 5, np.zeros((5, 5))
    rows, points = [], []
    for first, second in combinations(range(runs), 2):
        for _ in range(40):
            point = float(rng.choice([0.0, 0.5, 1.0]))
            wins[second, first] += point
            wins[first, second] += 1 - point
            row = np.zeros(runs)
            row[[first, second]] = -1.0, 1.0
            rows.append(row)
            points.append(point)
    skills = np.ones(runs)
    met = wins + wins.T
    for _ in range(2_000):  # Hunter 2004, (3): wins / sum of n / (skill + skill)
        skills = wins.sum(1) / (met / (skills[:, None] + skills[None, :])).sum(1)
        skills /= skills[0]
    fit = fit_logit(np.array(rows)[:, 1:], np.array(points), np.arange(len(rows)))
    assert fit is not None
    assert fit.coefficients == pytest.approx(np.log(skills[1:]), abs=1e-8)


def test_there_is_no_estimate_where_none_is_finite_or_unique():
    wins = np.ones((20, 1))
    assert fit_logit(wins, np.ones(20), np.arange(20)) is None
    assert fit_logit(np.ones((20, 2)), np.tile([0.0, 1.0], 10), np.arange(20)) is None
    assert fit_logit(wins, np.tile([0.0, 1.0], 10), np.zeros(20, dtype=np.int64)) is None
