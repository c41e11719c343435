"""Short builders of scores for judges that gate, and a judge that only promises metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from assizes.judge.case import Case
from assizes.judge.score import Gate, Metric, Scale, Score

QUALITY = (
    "correctness",
    "chunk_relevance",
    "context_sufficiency",
    "relevance_to_query",
    "groundedness",
    "safety",
)
"""The built-in quality metrics, not in the order of causes."""


@dataclass(frozen=True)
class Promising:
    """A judge that promises metrics; the scores are made by hand."""

    name: str
    metrics: tuple[Metric, ...]
    version: str = "1"

    def missing(self, case: Case) -> str | None:
        return None

    def judge(self, case: Case) -> list[Score]:
        raise NotImplementedError


def rated(name: str, rating: str | None, rationale: str = "") -> Score:
    """A yes or a no of a quality judge; `None`: the judge failed."""
    if rating is None:
        return Score.failed(name, "no answer in 120 s", "timeout")
    yes = rating == "yes"
    details = {"rationale": rationale or f"it said {rating}"}
    return Score.of(Metric(name, Scale.YES_NO), float(yes), passed=yes, details=details)


def ratings(**by_name: str | None) -> list[Score]:
    return [rated(name, rating) for name, rating in by_name.items()]


def precise(name: str, *chunks: bool) -> Score:
    """The headline of a retrieval judge over its chunks."""
    share = sum(chunks) / len(chunks) if chunks else 0.0
    return Score.of(Metric(name), share, passed=any(chunks), details={"rationale": "by chunk"})


def measured(name: str, value: float, threshold: float = 0.7) -> Score:
    """The headline of a judge with a threshold of its own."""
    return Score.of(Metric(name), value, passed=value >= threshold)


def all_of(gate: Gate, names: Sequence[str]) -> Mapping[str, Gate]:
    return dict.fromkeys(names, gate)
