"""Is the new judge better than the old one on labels that it never saw?

The measure is balanced accuracy: the mean of the share of right verdicts on the cases that people
pass, and of that on the cases that people fail. A judge that only passes more cases gains nothing by
it, whatever the share of passes is: against labels at random every judge has 0.5.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.alignment.labelled_cases import LabelledCase
from assizes.judge.statistics.effects import sign_flip
from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.intervals import Floats, cluster_sums, t_of

ALPHA: Final = 0.05
"""The most one-sided errors of all uses of the same held-out labels together, 0..1."""


class HeldOutResult(BaseModel):
    """Old and new judge on the same labels."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    old: float = Field(description="balanced accuracy of the judge as it is, 0..1")
    new: float = Field(description="balanced accuracy of the proposed judge, 0..1")
    low: float = Field(description="interval of the gain, in shares; 1 - 2 alpha")
    high: float
    p_value: float = Field(description="one-sided, that the new judge is no better")
    alpha: float = Field(description="the most that p may be at this use of the labels")
    cases: int
    clusters: int
    mended: int = Field(description="cases that only the new judge gets right")
    spoilt: int = Field(description="cases that only the old judge gets right")
    errors: int = Field(description="cases without a verdict of the new judge; they count as wrong")

    @property
    def gain(self) -> float:
        """How much balanced accuracy the new judge gains, -1..1."""
        return self.new - self.old

    @property
    def is_better(self) -> bool:
        """Whether the gain is above 0 by the test and by the interval."""
        return self.gain > 0 and self.low > 0 and self.p_value <= self.alpha

    def sentence(self) -> str:
        """The verdict in words."""
        figures = (
            f"{100 * self.old:.1f} % -> {100 * self.new:.1f} % balanced accuracy on {self.cases} "
            f"held-out labels in {self.clusters} clusters, gain {100 * self.gain:+.1f} points "
            f"[{100 * self.low:+.1f}, {100 * self.high:+.1f}], p = {self.p_value:.4f} "
            f"(wanted at most {self.alpha:.4f}); {self.mended} mended, {self.spoilt} spoilt"
        )
        return f"better: {figures}" if self.is_better else f"not shown to be better: {figures}"


def alpha_of_use(use: int) -> float:
    """The share of `ALPHA` for the n-th use of the same held-out labels; all shares sum to it.

    The shares are 1 / (n (n + 1)): 0.025, 0.0083, 0.0042, ... So the union bound holds for any
    number of tries (alpha spending).
    """
    return ALPHA / (use * (use + 1))


class _Gains(NamedTuple):
    old: float
    new: float
    sums: Floats  # of each cluster; their total is the gain
    residuals: Floats  # of each cluster, for the standard error


def _gains(items: Sequence[LabelledCase], verdicts: Sequence[bool | None]) -> _Gains:
    people = np.array([item.people for item in items])
    old = np.array([item.judge == item.people for item in items], dtype=float)
    new = np.array(
        [verdict == item.people for item, verdict in zip(items, verdicts, strict=True)], dtype=float
    )
    weights = np.array([item.weight for item in items])
    shares = np.zeros(people.size)  # of each case in the measure; they sum to 1
    for kind in (True, False):
        shares[people == kind] = weights[people == kind] / weights[people == kind].sum() / 2
    codes = np.unique([item.cluster for item in items], return_inverse=True)[1]
    moved = new - old
    means = np.where(
        people,
        2 * (shares * moved)[people].sum(),
        2 * (shares * moved)[~people].sum(),
    )
    return _Gains(
        float(shares @ old),
        float(shares @ new),
        cluster_sums(shares * moved, codes),
        cluster_sums(shares * (moved - means), codes),
    )


def gain_and_p(
    items: Sequence[LabelledCase], verdicts: Sequence[bool | None]
) -> tuple[float, float]:
    """The gain in balanced accuracy, and the one-sided p-value of the sign flips of clusters."""
    gains = _gains(items, verdicts)
    two_sided = sign_flip(gains.sums)
    total = float(gains.sums.sum())
    return total, two_sided / 2 if total > 0 else 1 - two_sided / 2


def try_held_out(
    items: Sequence[LabelledCase], verdicts: Sequence[bool | None], use: int
) -> HeldOutResult:
    """Compare the verdicts of a new judge with those of the old one on held-out labels.

    Both must hold: the exact (for many clusters drawn) test of sign flips, and an interval by the
    residuals of clusters with Student's t. `use` counts the texts these labels have tried, from 1.
    """
    gains, alpha = _gains(items, verdicts), alpha_of_use(use)
    clusters = gains.sums.size
    squares = float(np.square(gains.residuals).sum())
    error = float(np.sqrt(clusters / (clusters - 1) * squares)) if clusters > 1 else np.inf
    half = t_of(1 - 2 * alpha, max(1, clusters - 1)) * error
    gain, p_value = gain_and_p(items, verdicts)
    pairs = list(zip(items, verdicts, strict=True))
    return HeldOutResult(
        old=rounded_value(gains.old),
        new=rounded_value(gains.new),
        low=max(gain - half, -1.0),
        high=min(gain + half, 1.0),
        p_value=p_value,
        alpha=alpha,
        cases=len(items),
        clusters=clusters,
        mended=sum(v == item.people != item.judge for item, v in pairs),
        spoilt=sum(v != item.people == item.judge for item, v in pairs),
        errors=sum(v is None for _, v in pairs),
    )
