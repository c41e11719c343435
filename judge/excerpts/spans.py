"""Spans of turns that a model asks to read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict

MOST_SPANS: Final = 6
"""Spans that one look may ask for; further ones are left out."""


class Span(BaseModel):
    """Turns to be read in full, both ends included."""

    model_config = ConfigDict(extra="forbid")

    first: int
    last: int


def readable_spans(spans: Sequence[Span], turns: int) -> tuple[range, ...]:
    """The spans that lie in a run of so many turns, cut to it; ends may be given in any order."""
    cut = [
        range(max(0, min(span.first, span.last)), min(turns, max(span.first, span.last) + 1))
        for span in spans[:MOST_SPANS]
    ]
    return tuple(span for span in cut if span)
