"""Formats of transcripts: one record a line, one document of records, or pieces of conversations.

A document is read although some of its records are broken JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from assizes.judge.case import Case
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.parsing import (
    lines_of,
    schema_error,
    schema_errors,
    strict_json,
)

# Possessive (`*+`): `*` would keep a state for each character, some 120 times the string's memory.
_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+(?P<end>"?)|(?P<mark>[\[\]{},])', re.DOTALL)
_MARK: Final = re.compile(rb"[\[\]{},]")

LIST_MARK: Final = b" "
"""Stands behind a JSON list that is no piece, and tells it from the list of joined pieces."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """A reader of one transcript format."""

    name: str  # as in `[transcripts] format`; with `.document` behind it for one JSON document
    # A file of this format begins with an object, or a list of objects, that has one of these keys.
    keys: frozenset[str]
    # Whether a file that begins with a value has the format. The value may be cut short: it is
    # parsed from the first bytes of the file.
    fits: Callable[[Any], bool]
    case: Callable[[Any], Case]  # the case that a record holds; `DataError` where it holds none
    # The records of a whole file, in order, each complete in itself; `DataError` where the file as
    # a whole cannot be read.
    records: Callable[[bytes], list[Any]] = lines_of
    by_line: bool = True  # False: one document of many records
    # Whether a value that begins a line is such a document as a whole, on the only line of its file.
    fills_a_line: Callable[[Any], bool] = lambda _: False


@dataclass(frozen=True)
class Layout:
    """How one record of a format is read, whatever container the record came in."""

    name: str
    keys: frozenset[str]  # as `Format.keys`
    fits: Callable[[dict[str, Any]], bool]  # as `Format.fits`, of one record
    read: Callable[[dict[str, Any]], Case]  # `DataError` where the record holds no case
    # The records of a document; None: the elements of a list, or the document itself.
    split_document: Callable[[Any], list[Any]] | None = None
    # As `Format.fills_a_line`, of an object.
    fills_a_line: Callable[[dict[str, Any]], bool] = lambda _: False

    def line_format(self) -> Format:
        """Return the format with one record of this layout a line."""
        return Format(
            name=self.name,
            keys=self.keys,
            fits=lambda value: isinstance(value, dict) and self.fits(value),
            case=lambda record: self._case(strict_json(record)),
        )

    def document_format(self) -> Format:
        """Return the format with one JSON document: a list of records, or a single record."""

        def fits(value: Any) -> bool:
            first = value[0] if isinstance(value, list) and value else value
            return isinstance(first, dict) and self.fits(first)

        def records(document: bytes) -> list[Any]:
            value = strict_json(document)
            if self.split_document is not None:
                return self.split_document(value)
            return value if isinstance(value, list) else [value]

        return Format(
            name=f"{self.name}.document",
            keys=self.keys,
            fits=fits,
            case=self._case,
            records=records,
            by_line=False,
            fills_a_line=lambda value: isinstance(value, dict) and self.fills_a_line(value),
        )

    def _case(self, value: Any) -> Case:
        if not isinstance(value, dict):
            raise DataError("schema", f"record: found {type(value).__name__}, expected an object")
        try:
            return self.read(value)
        except ValidationError as error:
            raise schema_error(error) from None  # as `schema_errors`, which costs more


class Piece(NamedTuple):
    """A part of a conversation."""

    part: str  # id of what the piece belongs to, such as a trace
    conversation_id: str | None  # of the whole part; None where this piece does not name it
    value: Any


class FileFacts(NamedTuple):
    """What some pieces tell of the conversations of their whole file, such as a score's scale."""

    told: Callable[[Any], Iterable[str]]  # the facts that the value of one piece tells
    # The values of a conversation, marked with what of the file's facts concerns them.
    marked: Callable[[list[Any], Collection[str]], list[Any]]


_NO_FACTS: Final = FileFacts(lambda _: (), lambda values, _: values)


@dataclass(frozen=True, kw_only=True)
class PieceFormat(Format):
    """A format whose conversations are scattered over a file in pieces, such as spans.

    The pieces of one conversation are joined first. A record is then one line: the JSON list of the
    conversation's pieces.
    """

    # Of one line, or of one element of a document; `DataError` where the value holds none.
    pieces: Callable[[Any], Iterable[Piece]]
    # Keys of the objects that a manifest lists.
    other_objects: Callable[[Any], list[str]] = lambda _: []
    # Splits pieces that were joined under one id but belong to several conversations; None where an
    # id has one conversation only.
    split_conversation: Callable[[list[Any]], list[list[Any]]] | None
    file_facts: FileFacts = _NO_FACTS


def piece_format(
    name: str,
    keys: frozenset[str],
    fits: Callable[[Any], bool],
    pieces: Callable[[Any], Iterable[Piece]],
    join_pieces: Callable[[list[Any]], Case],
    split_conversation: Callable[[list[Any]], list[list[Any]]] | None = None,
) -> PieceFormat:
    """Return a format of pieces; `join_pieces` makes a case of those of one conversation."""

    def case(record: bytes) -> Case:
        joined = strict_json(record)
        if not isinstance(joined, list) or record.endswith(LIST_MARK):
            next(iter(pieces(joined)), None)  # raises the reason why the value has no pieces
            raise DataError("schema", f"record: nothing of {name} in it")
        with schema_errors():
            return join_pieces(joined)

    return with_file_facts(
        PieceFormat(
            name=name,
            keys=keys,
            fits=fits,
            case=case,
            pieces=pieces,
            split_conversation=split_conversation,
        ),
        _NO_FACTS,
    )


def with_file_facts(format_: PieceFormat, file_facts: FileFacts) -> PieceFormat:
    """Return a format of pieces that heeds what they tell of their whole file."""
    split = format_.split_conversation

    def records(document: bytes) -> list[bytes]:
        """Join the conversations of a file in memory; `tasks.intake` joins them on disk."""
        parts: dict[str, list[Any]] = {}  # part -> values of its pieces
        conversation_ids: dict[str, str] = {}  # part -> conversation; most pieces name none
        facts: set[str] = set()
        for piece in (piece for value in _values_of(document) for piece in format_.pieces(value)):
            parts.setdefault(piece.part, []).append(piece.value)
            facts.update(file_facts.told(piece.value))
            if piece.conversation_id is not None:
                conversation_ids.setdefault(piece.part, piece.conversation_id)
        joined: dict[str, list[Any]] = {}  # conversation -> values, by first piece
        for part, values in parts.items():
            joined.setdefault(conversation_ids.get(part, part), []).extend(values)
        return [
            json.dumps(conversation, ensure_ascii=False).encode()
            for values in (file_facts.marked(each, facts) for each in joined.values())
            for conversation in (split(values) if split else [values])
        ]

    return replace(format_, file_facts=file_facts, records=records)


def _values_of(document: bytes) -> list[Any]:
    """Return the value of each line, or the elements of one document."""
    try:
        first_value = strict_json(document.lstrip().partition(b"\n")[0])
    except DataError:  # the first line ends within a value, or is broken
        value = strict_json(document)
        return value if isinstance(value, list) else [value]
    if isinstance(first_value, list):  # a document on one line
        return first_value
    return [strict_json(line) for line in lines_of(document)]


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """A record that is no strict JSON, in a document whose other records can be read."""

    body: bytes  # the record as it stands in the document
    fault: DataError  # why it cannot be read


def strict_document(
    document: bytes, name: str | None = None
) -> tuple[Any, dict[int, UnreadableRecord]]:
    """Return the value of a document, with None for each broken record, and these by position.

    The list of records stands under the key `name`; without a name the document is that list.

    Raises:
        DataError: as `strict_json`, when the fault lies outside the records, or the records cannot
            be separated.
    """
    try:
        return strict_json(document), {}
    except DataError:  # rarely: each record is parsed by itself, then the repaired whole
        unread: dict[int, UnreadableRecord] = {}
        parts, copied_to = [], 0  # of the document without its broken records
        for position, (start, stop) in enumerate(_record_spans(document, name)):
            body = document[start:stop].strip()
            try:
                strict_json(body)
            except DataError as fault:
                unread[position] = UnreadableRecord(body, fault)
                parts += [document[copied_to:start], b"null"]
                copied_to = stop
        if not unread:  # the fault lies outside the records
            raise
    return strict_json(b"".join([*parts, document[copied_to:]])), unread


def _record_spans(document: bytes, name: str | None) -> Iterator[tuple[int, int]]:
    """Yield start and end of each record in the list, found by brackets and strings alone."""
    depth, start, within = 0, 0, None  # `within`: the depth inside the list of records
    wanted = 1 if name is None else 2  # a list under a key lies in an object
    for token in _marks(document):
        mark = token.group()
        if within is None:
            if mark == b"[" and depth == wanted - 1 and _is_under(document, token.start(), name):
                within, start = depth + 1, token.end()
        elif depth == within and mark in (b",", b"]"):
            # In front of the closing bracket there may be nothing: an empty list, or a last comma.
            if mark == b"," or document[start : token.start()].strip():
                yield start, token.start()
            if mark == b"]":
                return
            start = token.end()
        depth += (mark in (b"[", b"{")) - (mark in (b"]", b"}"))


def _marks(document: bytes) -> Iterator[re.Match[bytes]]:
    """Yield the brackets and commas outside of strings.

    A quote without a closing quote begins no string. Behind the first such quote no string is
    closed either, so the rest is searched for marks only: a search for the end of a string from
    each further quote would take quadratic time.
    """
    for token in _TOKEN.finditer(document):
        if token["mark"]:
            yield token  # a string with an end yields nothing: brackets in it are text
        elif not token["end"]:
            yield from _MARK.finditer(document, token.start())
            return


def _is_under(document: bytes, bracket: int, name: str | None) -> bool:
    """Whether the list of a bracket is the value of the document's key `name`; None: any list."""
    if name is None:
        return True
    before = document[:bracket].rstrip()
    key = before.removesuffix(b":").rstrip()
    return len(key) < len(before) and key.endswith(f'"{name}"'.encode())
