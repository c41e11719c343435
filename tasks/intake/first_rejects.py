"""The first records that cannot be read, as people are shown them: where they stand, and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from assizes.judge.errors import DataError

SHOWN_REJECTS: Final = 3
"""Rejects that are shown, each with a reason of its own; all are counted."""


def place_text(uri: str, position: int | None) -> str:
    """Where a record stands; `None` is the object as a whole. People count records from 1."""
    return uri if position is None else f"{uri}, record {position + 1}"


@dataclass
class FirstRejects:
    """The first rejects that have different reasons, at most `SHOWN_REJECTS`."""

    places: dict[str, tuple[str, int | None]] = field(default_factory=dict)  # reason -> the first

    def add(self, uri: str, position: int | None, error: DataError) -> None:
        """Take a reject in, unless there are enough or its reason is there already."""
        if len(self.places) < SHOWN_REJECTS:
            self.places.setdefault(str(error), (uri, position))

    @property
    def lines(self) -> tuple[str, ...]:
        """Each of them as "place: code: detail"."""
        return tuple(f"{place_text(*place)}: {reason}" for reason, place in self.places.items())

    def __str__(self) -> str:
        """All of them in one line."""
        return "; ".join(self.lines)
