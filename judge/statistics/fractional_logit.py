"""Logistic regression of outcomes between 0 and 1, with errors that respect clusters.

The estimate is the maximum of the Bernoulli quasi-likelihood, found by Newton's method (Papke and
Wooldridge 1996 for fractional outcomes). The covariance is the cluster sandwich of Liang and Zeger
(1986), times C / (C - 1) for C clusters. The Bradley-Terry model is the case without an intercept.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from assizes.judge.statistics.intervals import Codes, Floats, ValueInterval, t_of

MAX_STEPS: Final = 100
"""Steps of Newton's method after which the search is given up."""

_TOLERANCE: Final = 1e-10  # largest change of a coefficient in the last step
_LARGEST: Final = 30.0  # a coefficient beyond it has no finite estimate: e^30 is 10^13


class LogitFit(NamedTuple):
    """The coefficients of a fit in logits, and their covariance over the clusters."""

    coefficients: Floats
    covariance: Floats
    clusters: int

    def estimate(self, weights: Floats) -> float:
        """The weighted sum of the coefficients."""
        return float(weights @ self.coefficients)

    def error(self, weights: Floats) -> float:
        """The standard error of the weighted sum of the coefficients."""
        return float(np.sqrt(max(0.0, float(weights @ self.covariance @ weights))))

    def interval(self, weights: Floats, confidence: float) -> ValueInterval:
        """The interval of the weighted sum by Student's t with C - 1 degrees of freedom."""
        center = self.estimate(weights)
        half = t_of(confidence, self.clusters - 1) * self.error(weights)
        return ValueInterval(center - half, center + half)


def sigmoid(logits: Floats) -> Floats:
    """The probability, 0..1, of each logit."""
    return np.asarray(0.5 * (1 + np.tanh(np.asarray(logits) / 2)), dtype=np.float64)


def fit_logit(design: Floats, outcomes: Floats, codes: Codes) -> LogitFit | None:
    """Fit outcomes, 0..1, to a design with a row for each outcome and a column each coefficient.

    `codes` has the number of the cluster of each row. `None` where there is no finite and unique
    estimate, as for outcomes that a line separates, and for fewer than two clusters.
    """
    names, numbers = np.unique(codes, return_inverse=True)
    count = int(names.size)
    if count < 2:
        return None
    coefficients = _maximum(design, outcomes)
    if coefficients is None:
        return None
    chances = sigmoid(design @ coefficients)
    bread = _inverse(_information(design, chances))
    if bread is None:
        return None
    scores = np.zeros((count, design.shape[1]))
    np.add.at(scores, numbers, design * (outcomes - chances)[:, None])
    covariance = count / (count - 1) * bread @ (scores.T @ scores) @ bread
    return LogitFit(coefficients, covariance, count)


def _maximum(design: Floats, outcomes: Floats) -> Floats | None:
    coefficients = np.zeros(design.shape[1])
    for _ in range(MAX_STEPS):
        chances = sigmoid(design @ coefficients)
        inverse = _inverse(_information(design, chances))
        if inverse is None:
            return None
        step = inverse @ (design.T @ (outcomes - chances))
        # A long step can jump over the maximum and come back no more.
        coefficients = coefficients + step / max(1.0, float(np.abs(step).max()))
        if np.abs(coefficients).max() > _LARGEST:
            return None
        if np.abs(step).max() < _TOLERANCE:
            return coefficients
    return None


def _information(design: Floats, chances: Floats) -> Floats:
    weights = chances * (1 - chances)
    return np.asarray(design.T @ (design * weights[:, None]), dtype=np.float64)


def _inverse(matrix: Floats) -> Floats | None:
    # numpy inverts matrices that are singular but for rounding: such numbers mean nothing.
    if not np.isfinite(matrix).all() or np.linalg.cond(matrix) > 1e12:
        return None
    return np.asarray(np.linalg.inv(matrix), dtype=np.float64)
