"""Containers of records: one record a line, one document of records, or pieces of conversations."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

from assizes.judge.case import Case
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.parsing import lines_of, schema_errors, strict_json


class Layout(ABC):
    """How one record of a format is read, whatever container the record came in."""

    name: str

    @abstractmethod
    def fits(self, value: dict[str, Any]) -> bool:
        """Whether an object, which may be cut short, begins like a record of this layout."""

    @abstractmethod
    def read(self, value: Any) -> Case:
        """Return the case that a record holds.

        Raises:
            DataError: the record holds no case.
        """

    def split_document(self, document: Any) -> list[Any]:
        """Return the records of a document: the elements of a list, or the document itself."""
        return document if isinstance(document, list) else [document]


class LineFormat:
    """A format with one record of a layout a line."""

    by_line = True

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.name = layout.name

    def fits(self, value: Any) -> bool:
        """Whether a value is an object that fits the layout."""
        return isinstance(value, dict) and self.layout.fits(value)

    def records(self, document: bytes) -> list[bytes]:
        """Return the lines of a file that are not blank."""
        return lines_of(document)

    def case(self, record: bytes) -> Case:
        """Return the case of one line.

        Raises:
            DataError: the line is no strict JSON, or no record of the layout.
        """
        return _case(self.layout, strict_json(record))


class DocumentFormat:
    """A format with one JSON document: a list of records of a layout, or a single record."""

    by_line = False

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.name = f"{layout.name}.document"

    def fits(self, value: Any) -> bool:
        """Whether the value, or the first element of a list, is an object that fits the layout."""
        first = value[0] if isinstance(value, list) and value else value
        return isinstance(first, dict) and self.layout.fits(first)

    def records(self, document: bytes) -> list[Any]:
        """Return the records in order.

        Raises:
            DataError: the document is no strict JSON.
        """
        return self.layout.split_document(strict_json(document))

    def case(self, record: Any) -> Case:
        """Return the case of one record.

        Raises:
            DataError: the value is no record of the layout.
        """
        return _case(self.layout, record)


def _case(layout: Layout, value: Any) -> Case:
    if not isinstance(value, dict):
        raise DataError("schema", f"record: found {type(value).__name__}, expected an object")
    with schema_errors():
        return layout.read(value)


class Piece(NamedTuple):
    """A part of a conversation.

    Attributes:
        part: the id of the part that the piece belongs to, such as a trace.
        conversation_id: the conversation of that part; None when this piece does not name it.
        value: the JSON value of the piece.
    """

    part: str
    conversation_id: str | None
    value: Any


class PieceFormat(ABC):
    """A format whose conversations are scattered over a file in pieces, such as spans.

    The pieces of one conversation are joined first. A record is then one line: the JSON list of the
    conversation's pieces.
    """

    name: str
    by_line = True

    @abstractmethod
    def fits(self, value: Any) -> bool:
        """Whether a value, which may be cut short, begins like a value that holds pieces."""

    @abstractmethod
    def pieces(self, value: Any) -> Iterable[Piece]:
        """Return the pieces in one line, or in one element of a document.

        Raises:
            DataError: the value holds no pieces.
        """

    @abstractmethod
    def join_pieces(self, pieces: list[Any]) -> Case:
        """Return the case of the pieces of one conversation, which are in the order of the file.

        Raises:
            DataError: the pieces make no case.
        """

    def other_objects(self, value: Any) -> list[str]:
        """Return the keys of other objects that a manifest lists; empty for any other value."""
        del value
        return []

    def split_conversation(self, pieces: list[Any]) -> list[list[Any]]:
        """Split pieces that were joined under one id but belong to several conversations."""
        return [pieces]

    def records(self, document: bytes) -> list[bytes]:
        """Return the conversations of a file, joined in memory; `tasks.intake` joins them on disk.

        Raises:
            DataError: the document cannot be read.
        """
        parts: dict[str, list[Any]] = {}
        conversation_ids: dict[str, str] = {}
        for line in values_of(document):
            for piece in self.pieces(line):
                parts.setdefault(piece.part, []).append(piece.value)
                if piece.conversation_id is not None:
                    conversation_ids.setdefault(piece.part, piece.conversation_id)
        pieces_by_conversation: dict[str, list[Any]] = {}
        for part, values in parts.items():
            pieces_by_conversation.setdefault(conversation_ids.get(part, part), []).extend(values)
        conversations = (
            conversation
            for values in pieces_by_conversation.values()
            for conversation in self.split_conversation(values)
        )
        return [
            json.dumps(conversation, ensure_ascii=False).encode() for conversation in conversations
        ]

    def case(self, record: bytes) -> Case:
        """Return the case of one line of joined pieces.

        Raises:
            DataError: the line holds no pieces, or its pieces make no case.
        """
        pieces = strict_json(record)
        if not isinstance(pieces, list):
            next(iter(self.pieces(pieces)), None)  # raises the reason why the value has no pieces
            raise DataError("schema", f"record: nothing of {self.name} in it")
        with schema_errors():
            return self.join_pieces(pieces)


def values_of(document: bytes) -> list[Any]:
    """Return the values of a file: the value of each line, or the elements of one document.

    Raises:
        DataError: the file is neither JSON lines nor a JSON document.
    """
    first = document.lstrip().partition(b"\n")[0]
    try:
        first_value = strict_json(first)
    except DataError:
        value = strict_json(document)
        return value if isinstance(value, list) else [value]
    if isinstance(first_value, list):
        return first_value
    return [strict_json(line) for line in lines_of(document)]
