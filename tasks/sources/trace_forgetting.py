"""Takes conversations out of the copies of a trace store, and keeps them out of later copies."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import DataError
from assizes.judge.formats import FORMATS
from assizes.judge.formats.shared.containers import Piece, PieceFormat
from assizes.judge.formats.shared.parsing import strict_json
from assizes.tasks.sources.trace_copies import (
    FORGOTTEN,
    copies_folder,
    locked_pages,
)
from assizes.tasks.trace_stores.address import StoreKind, is_trace_store, parse_address
from assizes.tasks.trace_stores.journal import PageJournal, conversation_hash

_FORMATS: Final[dict[StoreKind, str]] = {
    "langfuse": "langfuse",
    "mlflow": "mlflow",
    "phoenix": "otel",
}
"""The format in which the copies of each kind of store are written."""


def forget_traces(config: TranscriptsConfig, case_ids: Collection[str]) -> int:
    """Take conversations out of the copies, and return how many files were rewritten.

    Their hashes are kept, so that a later reading leaves the conversations out. Runs over a
    rewritten file keep their rows, but can no longer show its other conversations.

    Raises:
        ConfigurationError: the copies cannot be written.
    """
    if not is_trace_store(config.uri):
        return 0
    address, copies = parse_address(config.uri), Path(config.trace_settings.copies)
    folder = copies_folder(config.trace_settings, address)
    if not folder.is_dir():
        return 0
    format_ = FORMATS[_FORMATS[address.kind]]
    ids = frozenset(case_ids)
    with locked_pages(folder) as pages:
        _remember(copies / FORGOTTEN, ids)  # first: a kill behind it leaves nothing to come back
        journals = sum(_forget_in_journal(path, ids) for path in sorted(pages.glob("*.jsonl")))
        files = sum(_forget_in_file(path, ids, format_) for path in sorted(folder.glob("*.jsonl")))
    return journals + files


def _remember(path: Path, ids: Iterable[str]) -> None:
    lines = "".join(f"{conversation_hash(each)}\n" for each in sorted(ids))
    with path.open("a") as file:
        file.write(lines)
        file.flush()
        os.fsync(file.fileno())


def _forget_in_journal(path: Path, ids: frozenset[str]) -> bool:
    journal = PageJournal.load(path)

    def keeps(entry: Any) -> bool:
        if not isinstance(entry, list):  # a window, or the end of a page
            return True
        trace, conversation = entry[0], entry[1]
        return ids.isdisjoint({trace, conversation, journal.conversations.get(trace)})

    return _rewrite(path, keeps)


def _forget_in_file(path: Path, ids: frozenset[str], format_: Any) -> bool:
    if not isinstance(format_, PieceFormat):
        return False
    conversations = {
        piece.part: piece.conversation_id
        for value in _values(path)
        for piece in _pieces(format_, value)
        if piece.conversation_id is not None
    }

    def keeps(value: Any) -> bool:
        return all(
            ids.isdisjoint({piece.part, conversations.get(piece.part)})
            for piece in _pieces(format_, value)
        )

    return _rewrite(path, keeps)


def _pieces(format_: PieceFormat, value: Any) -> list[Piece]:
    try:
        return list(format_.pieces(value))
    except DataError:  # a row that says nothing of a conversation
        return []


def _values(path: Path) -> Iterator[Any]:
    with path.open("rb") as lines:
        for line in lines:
            yield strict_json(line)


def _rewrite(path: Path, keeps: Callable[[Any], bool]) -> bool:
    """Leave out the lines whose value is not kept, or cannot be read; whether there were any."""
    draft, left_out = path.with_suffix(".draft"), 0
    try:
        with path.open("rb") as lines, draft.open("wb") as kept:
            draft.chmod(0o600)
            for line in lines:
                if _is_kept(line, keeps):
                    kept.write(line)
                else:
                    left_out += 1
            kept.flush()
            os.fsync(kept.fileno())
        if left_out:
            draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    return left_out > 0


def _is_kept(line: bytes, keeps: Callable[[Any], bool]) -> bool:
    try:
        return keeps(strict_json(line))
    except DataError:
        return False
