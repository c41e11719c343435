"""A document of many records, one of which cannot be read: the others are no worse for it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from assizes.judge.errors import DataError
from assizes.judge.formats.shared.parsing import strict_json

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+(?P<end>"?)|(?P<mark>[\[\]{},])', re.DOTALL)
_MARK: Final = re.compile(rb"[\[\]{},]")


@dataclass(frozen=True, slots=True)
class UnreadableRecord:
    """Stands in the place of a record that is no strict JSON, in a document that is otherwise.

    Attributes:
        body: its bytes in the document.
        fault: what is wrong with it.
    """

    body: bytes
    fault: DataError


def strict_document(
    document: bytes, name: str | None = None
) -> tuple[Any, dict[int, UnreadableRecord]]:
    """The value of a document, and the records in it that could not be read, by position.

    Args:
        document: JSON in UTF-8.
        name: the key under which the list of records stands; null: the document is that list.

    Returns:
        The value with null in the place of each such record.

    Raises:
        DataError: as `strict_json`, when the fault is not within records, or these cannot be told
            apart.
    """
    try:
        return strict_json(document), {}
    except DataError:
        spans = list(_records(document, name))
        unread = dict(_unread(document, spans))
        if not unread:
            raise
    parts, copied_to = [], 0
    for position in unread:
        start, stop = spans[position]
        parts += [document[copied_to:start], b"null"]
        copied_to = stop
    return strict_json(b"".join([*parts, document[copied_to:]])), unread


def _unread(
    document: bytes, spans: list[tuple[int, int]]
) -> Iterator[tuple[int, UnreadableRecord]]:
    for position, (start, stop) in enumerate(spans):
        body = document[start:stop].strip()
        try:
            strict_json(body)
        except DataError as fault:
            yield position, UnreadableRecord(body, fault)


def _records(document: bytes, name: str | None) -> Iterator[tuple[int, int]]:
    """Where each record of the list stands; brackets and strings are all that is looked at."""
    depth, start, within = 0, 0, None
    wanted = 1 if name is None else 2
    for token in _marks(document):
        mark = token.group()
        if within is None:
            if mark == b"[" and depth == wanted - 1 and _is_under(document, token.start(), name):
                within, start = depth + 1, token.end()
        elif depth == within and mark in (b",", b"]"):
            if mark == b"," or document[start : token.start()].strip():
                yield start, token.start()
            if mark == b"]":
                return
            start = token.end()
        depth += (mark in (b"[", b"{")) - (mark in (b"]", b"}"))


def _marks(document: bytes) -> Iterator[re.Match[bytes]]:
    """Brackets and commas that stand in no string; a string without an end is taken for none.

    No string behind the first such one has an end either: looking for it again from each of its
    quotes would take quadratic time.
    """
    for token in _TOKEN.finditer(document):
        if token["mark"]:
            yield token
        elif not token["end"]:
            yield from _MARK.finditer(document, token.start())
            return


def _is_under(document: bytes, bracket: int, name: str | None) -> bool:
    """Whether the list that opens here is the document, or the value of its key `name`."""
    if name is None:
        return True
    before = document[:bracket].rstrip()
    key = before.removesuffix(b":").rstrip()
    return len(key) < len(before) and key.endswith(f'"{name}"'.encode())
