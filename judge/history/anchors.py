"""Anchors tell a change of the judge from a change of the agent.

Anchors are transcripts that never change and that are judged again beside the runs: when their
scores move, the judge moved. Changes are of the mean overall score (0..100), later minus earlier.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from statistics import NormalDist
from typing import Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.statistics.exact import rounded_value

Key = tuple[str, int]
"""The id of a case and the number of its repetition."""

Scores = Mapping[Key, tuple[str, float]]
"""The cluster and the overall score (0..100) of each case that has a score."""

Cause = Literal["agent", "judge", "both", "none", "unknown"]

PAIRED_SHARE: Final = 0.95
"""Two runs that share at least this fraction of their cases are compared case by case."""

MIN_CLUSTERS: Final = 10
"""With fewer clusters than this, no change is computed: its standard error would say nothing."""

DRAWS: Final = 10_000
"""Random sign flips behind one p value."""

SEED: Final = 20_240_401
"""Seed of the sign flips: the same scores always give the same p value."""

ANCHORS: Final = "anchors"
"""Suffix that turns the name or the id of a run into the name or the id of its anchor run."""


class Change(BaseModel):
    """How the mean overall score moved between two runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mean: float = Field(description="points of 0..100, after minus before")
    se: float = Field(description="clustered standard error")
    p: float = Field(description="two-sided; sign flips of clusters where cases match")
    cases: int  # pairs of cases, or the cases of the later run
    paired: bool  # compared case by case, else as two samples

    def __str__(self) -> str:
        """The change as text, such as `-3.2 points (p 0.004, 40 cases)`."""
        return f"{self.mean:+.1f} points (p {self.p:.2g}, {self.cases} cases)"


class Attribution(BaseModel):
    """What moved between two runs: the agent, the judge, both, neither, or it is unknown."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cause: Cause
    anchors: Change | None  # None: no earlier anchor run, or too few anchors
    data: Change | None  # of the run itself; None: no baseline
    against: str | None = Field(description="the anchor run that this one's is compared with")

    @property
    def judge_moved(self) -> bool:
        """Whether the anchors moved, so that a fall must not be blamed on the agent alone."""
        return self.cause in ("judge", "both")

    def sentence(self) -> str:
        """The attribution as one line of a report."""
        if self.anchors is None:
            return "anchors: there is nothing to compare with yet, so the judge's part is not known"
        words = {
            "agent": "the judge did not change on the anchors, so the agent changed",
            "judge": "the JUDGE CHANGED on the anchors, and that explains the change of this run",
            "both": "the JUDGE CHANGED on the anchors, but this run changed in another way",
            "none": "neither the judge nor the agent changed",
            "unknown": "the judge did not change on the anchors",
        }
        if self.data is None and self.judge_moved:
            return f"the JUDGE CHANGED: anchors {self.anchors}; no baseline to compare the run with"
        data = f"; this run {self.data}" if self.data else ""
        return f"{words[self.cause]}: anchors {self.anchors}{data}"


def change(before: Scores, after: Scores) -> Change | None:
    """How the mean score moved from one run to another; `None` with fewer than 10 clusters.

    The runs are compared case by case where at least 95 % of the cases are in both of them, and as
    two independent samples otherwise.
    """
    both = sorted(before.keys() & after.keys())
    paired = bool(both) and len(both) >= PAIRED_SHARE * max(len(before), len(after))
    if paired:
        moved = {key: (after[key][0], after[key][1] - before[key][1]) for key in both}
        mean, squared_error, clusters = _run_mean(moved)
    else:
        old, old_error, old_clusters = _run_mean(before)
        new, new_error, new_clusters = _run_mean(after)
        mean, squared_error = new - old, old_error + new_error
        clusters = min(old_clusters, new_clusters)
    if clusters < MIN_CLUSTERS:
        return None
    se = math.sqrt(squared_error)
    if paired:
        p = _sign_flips(np.array(_sums(moved)))
    else:
        # Without an error (all scores alike) any difference is certain, and none is chance.
        z = abs(mean) / se if se else math.inf if mean else 0.0
        p = rounded_value(2 * NormalDist().cdf(-z))
    return Change(
        mean=rounded_value(mean),
        se=rounded_value(se),
        p=p,
        cases=len(both) if paired else len(after),
        paired=paired,
    )


def attribute_change(
    anchors: Change | None, data: Change | None, alpha: float, against: str | None = None
) -> Attribution:
    """Attribute the change of a run to the agent, to the judge, to both or to neither.

    `anchors` is `None` where there is no earlier anchor run (whose id is `against`), `data` without
    a baseline. `alpha` is the probability of a false alarm, 0..1.
    """
    cause: Cause = "unknown"
    if anchors is not None and anchors.p <= alpha:  # the anchors moved, so the judge did
        cause = "judge"
        if data is not None:
            # The agent moved too where the change less that of the anchors is more than chance.
            rest, deviation = data.mean - anchors.mean, math.hypot(data.se, anchors.se)
            alone = abs(rest) <= NormalDist().inv_cdf(1 - alpha / 2) * deviation
            cause = "judge" if alone else "both"
    elif anchors is not None and data is not None:
        cause = "agent" if data.p <= alpha else "none"
    return Attribution(cause=cause, anchors=anchors, data=data, against=against)


def _run_mean(scores: Scores) -> tuple[float, float, int]:
    """The mean of a run, its squared clustered standard error, and the number of clusters."""
    n = len(scores)
    mean = math.fsum(score for _, score in scores.values()) / n if n else 0.0
    sums = _sums({key: (cluster, score - mean) for key, (cluster, score) in scores.items()})
    count = len(sums)
    squares = math.fsum(cluster_sum**2 for cluster_sum in sums)
    # Miller 2024: squared SE = C / (C - 1) * sum over clusters of (sum of residuals)^2 / n^2.
    squared_error = count / (count - 1) * squares / n**2 if count > 1 else 0.0
    return mean, squared_error, count


def _sums(scores: Scores) -> list[float]:
    """The sum of the scores of each cluster; a fixed order keeps the p value of flips the same."""
    sums_by_cluster: dict[str, float] = defaultdict(float)
    for _, (cluster, score) in sorted(scores.items()):
        sums_by_cluster[cluster] += score
    return [total for _, total in sorted(sums_by_cluster.items())]


def _sign_flips(sums: np.ndarray) -> float:
    """The two-sided p value: (1 + flips with a total as far from 0) / (1 + all flips)."""
    random = np.random.default_rng(SEED)
    signs = random.integers(0, 2, size=(DRAWS, len(sums)), dtype=np.int8) * 2 - 1  # -1 or 1
    totals = np.abs(signs @ sums)
    as_far = int((totals >= abs(sums.sum()) - 1e-9).sum())  # float noise must not miss a tie
    return rounded_value((1 + as_far) / (1 + DRAWS))
