"""Scores that people and programs gave a conversation: one label a name, and all those of people.

A case has room for one label of a name. A person's comes before any other, then the latest counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from assizes.judge.formats.shared.json_shapes import valid_labels
from assizes.judge.formats.shared.parsing import HUMAN_LABELS, FidelityCounter

_NO_TIME: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class TraceRating:
    """One score of a conversation."""

    name: str
    number: float | None  # None: in words
    given: Any  # as it was given: a number, a word, true or false
    rater: str | None  # the name of the person; None: a program gave it
    at: datetime | None = None

    @property
    def rank(self) -> tuple[bool, datetime]:
        """The place among the ratings of a name: the last is the label."""
        return self.rater is not None, self.at or _NO_TIME


def rated_labels(
    ratings: Sequence[TraceRating], tally: FidelityCounter, known_wide: Iterable[str] = ()
) -> dict[str, float]:
    """Return the labels of a case by name, as `valid_labels` does; `known_wide` as there."""
    ordered = sorted(ratings, key=lambda rating: rating.rank)
    return valid_labels(((rating.name, rating.number) for rating in ordered), tally, known_wide)


def human_labels(ratings: Iterable[TraceRating]) -> dict[str, Any]:
    """Return what people gave, each by itself and in order of time, as metadata of a case.

    They are rows of a labels file.
    """
    rows = [
        {"metric": rating.name, "label": rating.given, "rater": rating.rater}
        for rating in sorted(ratings, key=lambda rating: rating.rank)
        if rating.rater is not None and rating.given is not None
    ]
    return {HUMAN_LABELS: rows} if rows else {}
