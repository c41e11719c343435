"""Where records stand: one a line, all in one document, or in pieces that belong together."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

from assizes.judge.case import Case
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.parsing import lines_of, schema_errors, strict_json


class Layout(ABC):
    """How one record of a format is laid out, whatever container it came in."""

    name: str

    @abstractmethod
    def fits(self, value: dict[str, Any]) -> bool:
        """Whether an object, perhaps cut short, begins like a record."""

    @abstractmethod
    def read(self, value: Any) -> Case:
        """The case a record holds.

        Raises:
            DataError: it holds none.
        """

    def split_document(self, document: Any) -> list[Any]:
        """The records of a whole document: its elements, or itself."""
        return document if isinstance(document, list) else [document]


class LineFormat:
    """Records of a layout, one a line."""

    by_line = True

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.name = layout.name

    def fits(self, value: Any) -> bool:
        """As the layout says, of one object."""
        return isinstance(value, dict) and self.layout.fits(value)

    def records(self, document: bytes) -> list[bytes]:
        """The lines that are not blank."""
        return lines_of(document)

    def case(self, record: bytes) -> Case:
        """The case of a line.

        Raises:
            DataError: it is not strict JSON, or no record of the layout.
        """
        return _case(self.layout, strict_json(record))


class DocumentFormat:
    """Records of a layout in one JSON document: a list of them, or a single one."""

    by_line = False

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.name = f"{layout.name}.document"

    def fits(self, value: Any) -> bool:
        """As the layout says, of the value or its first element."""
        first = value[0] if isinstance(value, list) and value else value
        return isinstance(first, dict) and self.layout.fits(first)

    def records(self, document: bytes) -> list[Any]:
        """The records in order.

        Raises:
            DataError: the document is not strict JSON.
        """
        return self.layout.split_document(strict_json(document))

    def case(self, record: Any) -> Case:
        """The case of one record.

        Raises:
            DataError: it is no record of the layout.
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
        part: what it belongs to, such as a trace.
        whole: the conversation that part belongs to, where this piece says so.
        value: JSON.
    """

    part: str
    conversation_id: str | None
    value: Any


class PieceFormat(ABC):
    """A format whose conversations come in pieces; those of one conversation are gathered first.

    A record is then a line of its own: the list of its pieces.
    """

    name: str
    by_line = True

    @abstractmethod
    def fits(self, value: Any) -> bool:
        """Whether a value, perhaps cut short, begins like one that holds pieces."""

    @abstractmethod
    def pieces(self, value: Any) -> Iterable[Piece]:
        """The pieces that one line, or one element of a document, holds.

        Raises:
            DataError: it holds none.
        """

    @abstractmethod
    def join_pieces(self, pieces: list[Any]) -> Case:
        """The case of the pieces of one conversation, in the order of the file.

        Raises:
            DataError: they make none.
        """

    def other_objects(self, value: Any) -> list[str]:
        """Keys of other objects that a value names in place of holding pieces, as a manifest does."""
        del value
        return []

    def split_conversation(self, pieces: list[Any]) -> list[list[Any]]:
        """The pieces of one `whole` that are more than one conversation after all."""
        return [pieces]

    def records(self, document: bytes) -> list[bytes]:
        """The conversations of a whole file, gathered in memory; tasks gather on disk.

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
        """The case of one gathered line.

        Raises:
            DataError: a line that held no pieces, or pieces that make no case.
        """
        pieces = strict_json(record)
        if not isinstance(pieces, list):
            next(iter(self.pieces(pieces)), None)  # it says why there are none
            raise DataError("schema", f"record: nothing of {self.name} in it")
        with schema_errors():
            return self.join_pieces(pieces)


def values_of(document: bytes) -> list[Any]:
    """The values of a file: of each line, or the elements of one document.

    Raises:
        DataError: neither can be read.
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
