"""What reading a trace store means, whichever it is: a window of time, pages, and pieces of traces."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, Protocol, TypeVar

from assizes.judge.errors import ConfigurationError
from assizes.tasks.trace_stores.http_client import AnswerTooLarge, TraceStoreError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TimeWindow:
    """The traces that began at `since` or later, and before `until`."""

    since: datetime | None  # `None`: from the first trace on
    until: datetime

    def widened(self, margin: timedelta) -> TimeWindow:
        """The window with a margin before and behind it, for the other spans of its traces."""
        return TimeWindow(self.since and self.since - margin, self.until + margin)


class TracePiece(NamedTuple):
    """A part of a trace, as a line of the format of its store."""

    trace: str  # the id of its trace; of a score of a session, that of the session
    conversation: str | None  # what it belongs to; `None`: the piece does not say
    key: str  # unique within the trace: a later piece with the same key replaces the earlier one
    started: str  # when the trace or the span began, in UTC as ISO 8601; empty: not known
    value: dict[str, Any]


class PageSize:
    """How many rows one answer may hold: fewer after an answer was too large."""

    def __init__(self, most: int) -> None:
        self.rows = most

    def ask(self, request: Callable[[int], T]) -> T:
        """The answer to a request for at most so many rows.

        Raises:
            AnswerTooLarge: an answer of one row is too large.
        """
        while True:
            try:
                return request(self.rows)
            except AnswerTooLarge:
                if self.rows == 1:
                    raise
                self.rows = max(1, self.rows // 8)


class TracePage(NamedTuple):
    """One page of an answer."""

    pieces: list[TracePiece]
    cursor: str | None  # where the next page begins; `None`: this page is the last


class TraceReader(Protocol):
    """Reads the traces of one project or experiment, page by page."""

    @property
    def margin(self) -> timedelta:
        """How long after the start of a trace its last span may begin; 0: traces come whole."""

    def check(self) -> None:
        """Ask the server whether the project is there and the keys open it.

        Raises:
            ConfigurationError: the server knows no such project.
            TraceStoreError: the server cannot be reached, or refuses the keys.
        """

    def page(self, window: TimeWindow, cursor: str | None) -> TracePage:
        """The page at a cursor, `None` for the first.

        Raises:
            TraceStoreError: the server cannot be reached, or answers something unexpected.
        """

    def close(self) -> None:
        """Close the connections."""


def utc_text(moment: datetime) -> str:
    """A moment in UTC with milliseconds, as all of the servers take it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def no_project(what: str, name: str, server: str, known: Iterable[str] = ()) -> ConfigurationError:
    """The error for a project or experiment that a server does not know."""
    names = ", ".join(sorted(known)[:20])
    there = f"; there are {names}" if names else "; its web page lists them"
    return ConfigurationError(f"[transcripts] uri: {server} has no {what} {name!r}{there}")


def rows_of(body: Any, key: str, where: str) -> list[dict[str, Any]]:
    """The list of objects that an answer holds under a key; a missing list is empty.

    Raises:
        TraceStoreError: it is something else.
    """
    rows = body.get(key) if isinstance(body, Mapping) else None
    if isinstance(body, Mapping) and rows is None:
        return []
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise TraceStoreError(f"{where}: the answer holds no list {key!r}")
    return rows


def object_of(value: Any) -> dict[str, Any]:
    """The value where it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_line(value: Any) -> bytes:
    """A JSON line; keys stay in their order, since a reader may show an object as text."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return f"{text}\n".encode()


def text_of(value: Any) -> str | None:
    """A text that is not empty, else None; a number as text."""
    if isinstance(value, str | int) and not isinstance(value, bool) and str(value):
        return str(value)
    return None
