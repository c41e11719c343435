"""The stability of the votes on a metric: between repeats of one model, and between models."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import polars as pl
from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.statistics.exact import rounded_value
from assizes.judge.verdicts.executions import collect_rows


class Stability(BaseModel):
    """How often two votes on the same headline score differ or agree.

    Votes are compared by their `passed`, else by their label, else by their value. Shares run 0..1
    and are `null` where no case has two votes of the kind.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    judge: str
    metric: str
    cases: int = Field(description="with at least two scored votes")
    flip_rate: float | None = Field(
        description="share of the pairs of repeats of one model whose verdicts differ"
    )
    agreement: float | None = Field(
        description="share of the pairs of votes of different models whose verdicts agree"
    )
    escalated: int = Field(description="cases that a stronger model judged anew")


@dataclass(slots=True)
class _Pairs:
    """Counts over the pairs of votes on one metric."""

    cases: int = 0
    repeats: int = 0
    flips: int = 0
    across: int = 0
    agreeing: int = 0
    escalated: int = 0

    def add(self, votes: Sequence[Mapping[str, Any]]) -> None:
        """Count all pairs of the scored votes on one case."""
        self.cases += len(votes) > 1
        for vote, other in combinations(votes, 2):
            same = _verdict(vote) == _verdict(other)
            if vote["model"] == other["model"]:
                self.repeats += 1
                self.flips += not same
            else:
                self.across += 1
                self.agreeing += same


def stability(scores: pl.LazyFrame) -> tuple[Stability, ...]:
    """The stability of every metric with votes, sorted by judge and name; empty without votes.

    Args:
        scores: rows of `scores`, of one run.
    """
    details_text = pl.col("details").str
    voted = scores.filter(
        (pl.col("part") == "")
        & (
            details_text.contains('"votes":', literal=True)
            | details_text.contains('"first_votes":', literal=True)
        )
    ).select("judge", "metric", "details")
    pairs_by_metric: dict[tuple[str, str], _Pairs] = {}
    for judge, metric, details in collect_rows(voted).iter_rows():
        body = json.loads(details)
        pairs = pairs_by_metric.setdefault((judge, metric), _Pairs())
        votes = [*body.get("first_votes", ()), *body.get("votes", ())]
        pairs.add([vote for vote in votes if vote["status"] == "scored"])
        pairs.escalated += "escalated" in body
    return tuple(
        Stability(
            judge=judge,
            metric=metric,
            cases=pairs.cases,
            flip_rate=_share(pairs.flips, pairs.repeats),
            agreement=_share(pairs.agreeing, pairs.across),
            escalated=pairs.escalated,
        )
        for (judge, metric), pairs in sorted(pairs_by_metric.items())
    )


def _verdict(vote: Mapping[str, Any]) -> object:
    if vote["passed"] is not None:
        return vote["passed"]
    return vote["value"] if vote["label"] is None else vote["label"]


def _share(part: int, whole: int) -> float | None:
    return rounded_value(part / whole) if whole else None
