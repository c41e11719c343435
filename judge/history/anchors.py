"""Anchors: the same transcripts judged again and again tell a judge that moved from an agent that did.

Changes are of the overall score, 0 to 100, after minus before.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.statistics.exact import rounded_value

Key = tuple[str, int]
"""Case id and repetition."""

Scores = Mapping[Key, tuple[str, float]]
"""Cluster and score of every case that has one."""

Cause = Literal["agent", "judge", "both", "none", "unknown"]

PAIRED_SHARE: Final = 0.95
"""From this overlap on two runs are compared case by case."""

MIN_CLUSTERS: Final = 10
DRAWS: Final = 10_000
SEED: Final = 20_240_401

ANCHORS: Final = "anchors"
"""Behind the name and the id of a run: those of its anchor run."""


class Change(BaseModel):
    """How the mean overall score moved between two runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mean: float = Field(description="points of 0..100, after minus before")
    se: float = Field(description="clustered standard error")
    p: float = Field(description="two-sided; sign flips of clusters where cases match")
    cases: int
    paired: bool

    def __str__(self) -> str:
        """`-3.2 points (p 0.004, 40 cases)`."""
        return f"{self.mean:+.1f} points (p {self.p:.2g}, {self.cases} cases)"


class Attribution(BaseModel):
    """Whose change it is: the agent's, the judge's, both, nobody's, or nobody can tell."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cause: Cause
    anchors: Change | None
    data: Change | None
    against: str | None = Field(description="the anchor run that this one's is compared with")

    @property
    def judge_moved(self) -> bool:
        """Whether the agent is not to be blamed on this evidence."""
        return self.cause in ("judge", "both")

    def sentence(self) -> str:
        """One line for reports."""
        if self.anchors is None:
            return "anchors: nothing to compare with yet, so no change can be laid to the judge"
        words = {
            "agent": "the judge held still on the anchors; what moved is the agent",
            "judge": "the JUDGE MOVED on the anchors, and that explains the change of this run",
            "both": "the JUDGE MOVED on the anchors, and this run moved otherwise than they did",
            "none": "neither the judge nor the agent moved",
            "unknown": "the judge held still on the anchors",
        }
        if self.data is None and self.judge_moved:
            return f"the JUDGE MOVED: anchors {self.anchors}; no baseline to compare the run with"
        data = f"; this run {self.data}" if self.data else ""
        return f"{words[self.cause]}: anchors {self.anchors}{data}"


@dataclass(frozen=True, slots=True)
class _RunMean:
    """Mean and squared standard error of one run, clusters as units."""

    mean: float
    square: float
    clusters: int
    cases: int


def change(before: Scores, after: Scores) -> Change | None:
    """How the mean moved; null with too few clusters to say.

    Case by case where at least 95 % of the cases are in both, else as two samples.
    """
    both = sorted(before.keys() & after.keys())
    if both and len(both) >= PAIRED_SHARE * max(len(before), len(after)):
        return _paired_change(
            {key: (after[key][0], after[key][1] - before[key][1]) for key in both}
        )
    return _unpaired_change(_run_mean(before), _run_mean(after))


def attribute_change(
    anchors: Change | None, data: Change | None, alpha: float, against: str | None = None
) -> Attribution:
    """Whose change it is.

    Anchors that held still leave the agent. Where they moved, the judge did; whether the run moved
    by anything else is judged by what is left of its change once that of the anchors is taken off.
    """
    attribution = Attribution(cause="unknown", anchors=anchors, data=data, against=against)
    if anchors is None:
        return attribution
    moved = anchors.p <= alpha
    if data is None:
        return attribution.model_copy(update={"cause": "judge" if moved else "unknown"})
    if not moved:
        return attribution.model_copy(update={"cause": "agent" if data.p <= alpha else "none"})
    left, deviation = data.mean - anchors.mean, math.hypot(data.se, anchors.se)
    alone = abs(left) <= NormalDist().inv_cdf(1 - alpha / 2) * deviation
    return attribution.model_copy(update={"cause": "judge" if alone else "both"})


def _paired_change(differences: Scores) -> Change | None:
    sums = _sums(differences)
    run_mean = _run_mean(differences)
    if len(sums) < MIN_CLUSTERS:
        return None
    return Change(
        mean=rounded_value(run_mean.mean),
        se=rounded_value(math.sqrt(run_mean.square)),
        p=_sign_flips(np.array(sums)),
        cases=run_mean.cases,
        paired=True,
    )


def _unpaired_change(before: _RunMean, after: _RunMean) -> Change | None:
    if min(before.clusters, after.clusters) < MIN_CLUSTERS:
        return None
    mean, se = after.mean - before.mean, math.sqrt(before.square + after.square)
    z = abs(mean) / se if se else math.inf if mean else 0.0
    return Change(
        mean=rounded_value(mean),
        se=rounded_value(se),
        p=rounded_value(2 * NormalDist().cdf(-z)),
        cases=after.cases,
        paired=False,
    )


def _run_mean(scores: Scores) -> _RunMean:
    """Miller 2024: squared SE = C / (C - 1) * sum over clusters of (sum of residuals)^2 / n^2."""
    n = len(scores)
    mean = math.fsum(score for _, score in scores.values()) / n if n else 0.0
    sums = _sums({key: (cluster, score - mean) for key, (cluster, score) in scores.items()})
    count = len(sums)
    grown = (
        count / (count - 1) * math.fsum(cluster_sum**2 for cluster_sum in sums)
        if count > 1
        else 0.0
    )
    return _RunMean(mean, grown / n**2 if n else 0.0, count, n)


def _sums(scores: Scores) -> list[float]:
    sums_by_cluster: dict[str, float] = defaultdict(float)
    for key in sorted(scores):
        cluster, score = scores[key]
        sums_by_cluster[cluster] += score
    return [sums_by_cluster[cluster] for cluster in sorted(sums_by_cluster)]


def _sign_flips(sums: np.ndarray) -> float:
    """The share of sign flips whose total is as far from 0; (1 + those) / (1 + draws)."""
    random = np.random.default_rng(SEED)
    signs = random.integers(0, 2, size=(DRAWS, len(sums)), dtype=np.int8) * 2 - 1
    totals = np.abs(signs @ sums)
    as_far = int((totals >= abs(sums.sum()) - 1e-9).sum())
    return rounded_value((1 + as_far) / (1 + DRAWS))
