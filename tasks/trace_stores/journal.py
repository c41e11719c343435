"""The pages of a trace store on disk, as they came: a reading that was cut off goes on where it was.

A journal is a file of JSON lines: where a window of time begins, the pieces of a page, where the
next page begins. A page without its last line does not count, and is asked for again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.formats.shared.parsing import strict_json
from assizes.tasks.trace_stores.http_client import TraceStoreError
from assizes.tasks.trace_stores.reading import (
    TimeWindow,
    TracePage,
    TracePiece,
    TraceReader,
    as_line,
)

_MOST_PAGES: Final = 1_000_000
"""The most pages of one window: a server that turns in circles is not followed for ever."""


class PlacedPiece(NamedTuple):
    """Where a piece stands in the journal."""

    started: str
    offset: int  # of its line, in bytes
    length: int


@dataclass
class PageJournal:
    """The pieces that were read so far; the latest of several with one key counts."""

    path: Path
    forgotten: frozenset[str] = frozenset()  # hashes of conversations that are not written down
    pieces: dict[tuple[str, str], PlacedPiece] = field(default_factory=dict)  # by trace and key
    conversations: dict[str, str] = field(default_factory=dict)  # by trace, where one is named
    window: TimeWindow | None = None  # the last window that was begun
    server: str | None = None
    cursor: str | None = None  # where its next page begins
    is_complete: bool = False  # whether its last page was read

    @classmethod
    def load(cls, path: Path, forgotten: frozenset[str] = frozenset()) -> PageJournal:
        """The journal of a file; what stands behind its last whole page is cut off."""
        journal = cls(path, forgotten)
        if not path.exists():
            return journal
        end = 0  # behind the last whole page
        page: list[tuple[list[Any], int, int]] = []
        with path.open("rb") as lines:
            offset = 0
            for line in lines:
                entry = _entry(line)
                if entry is None:
                    break
                length, at = len(line), offset
                offset += length
                if isinstance(entry, list):
                    page.append((entry, at, length))
                    continue
                journal._take(entry, page)
                page, end = [], offset
        with path.open("r+b") as file:
            file.truncate(end)
        return journal

    def begin(self, window: TimeWindow, server: str) -> None:
        """Begin to read a window of time."""
        since = window.since and window.since.isoformat()
        self._write([{"since": since, "until": window.until.isoformat(), "server": server}])
        self.window, self.server, self.cursor, self.is_complete = window, server, None, False

    def read_on(self, reader: TraceReader, on_pieces: Callable[[int], None]) -> None:
        """Read the pages of the window that are missing; `on_pieces` gets the number of pieces."""
        if self.window is None or self.is_complete:
            return
        for _ in range(_MOST_PAGES):
            page = reader.page(self.window, self.cursor)
            if page.cursor is not None and page.cursor == self.cursor:
                raise TraceStoreError("the server answers the same page again and again")
            self.append(page)
            on_pieces(len(self.pieces))
            if page.cursor is None:
                return
        raise TraceStoreError(f"more than {_MOST_PAGES} pages of traces; give a shorter time")

    def append(self, page: TracePage) -> None:
        """Write a page down."""
        entries: list[Any] = [list(piece) for piece in page.pieces if not self._is_forgotten(piece)]
        end = {"cursor": page.cursor}
        placed = self._write([*entries, end])
        self._take(end, [(entry, *at) for entry, at in zip(entries, placed, strict=False)])

    def values(self, pieces: list[PlacedPiece]) -> Iterator[dict[str, Any]]:
        """The values of pieces, in the given order."""
        with self.path.open("rb") as file:
            for piece in pieces:
                file.seek(piece.offset)
                yield json.loads(file.read(piece.length))[4]

    def remove(self) -> None:
        """Delete the file; the journal is then empty."""
        self.path.unlink(missing_ok=True)

    def _is_forgotten(self, piece: TracePiece) -> bool:
        ids = (piece.trace, piece.conversation, self.conversations.get(piece.trace))
        return bool(self.forgotten) and any(
            conversation_hash(each) in self.forgotten for each in ids if each is not None
        )

    def _write(self, entries: list[Any]) -> list[tuple[int, int]]:
        """Append lines and make them durable; return the offset and length of each."""
        lines = [as_line(entry) for entry in entries]
        places = []
        try:
            with self.path.open("ab") as file:
                offset = file.tell()
                for line in lines:
                    places.append((offset, len(line)))
                    offset += len(line)
                file.write(b"".join(lines))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise ConfigurationError(
                f"[transcripts.traces] copies: {str(self.path)!r} cannot be written: {error.strerror}"
            ) from error
        return places

    def _take(self, end: dict[str, Any], page: list[tuple[list[Any], int, int]]) -> None:
        """Take over a page, or the beginning of a window."""
        if "cursor" not in end:
            since = end["since"] and datetime.fromisoformat(end["since"])
            self.window = TimeWindow(since, datetime.fromisoformat(end["until"]))
            self.server, self.cursor, self.is_complete = end["server"], None, False
            return
        for (trace, conversation, key, started, _), offset, length in page:
            self.pieces[(trace, key)] = PlacedPiece(started, offset, length)
            if conversation is not None:
                self.conversations.setdefault(trace, conversation)
        self.cursor, self.is_complete = end["cursor"], end["cursor"] is None


def conversation_hash(conversation_id: str) -> str:
    """How a forgotten conversation is written down: nobody can read its id from that."""
    return hashlib.blake2b(conversation_id.encode(), digest_size=16).hexdigest()


def _entry(line: bytes) -> Any:
    """The value of a whole line; None for a line that was cut off."""
    if not line.endswith(b"\n"):
        return None
    try:
        return strict_json(line)
    except DataError:
        return None
