"""Reading a document of many records although some of its records are broken JSON."""

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
    """A record that is no strict JSON, in a document whose other records can be read.

    Attributes:
        body: the record's bytes in the document.
        fault: the reason why the record cannot be read.
    """

    body: bytes
    fault: DataError


def strict_document(
    document: bytes, name: str | None = None
) -> tuple[Any, dict[int, UnreadableRecord]]:
    """Read a document, and set apart the records in it that are broken.

    Args:
        document: JSON in UTF-8.
        name: the key under which the list of records stands; None: the document is that list.

    Returns:
        The document's value, with None in the place of each broken record, and the broken records
        by their position in the list.

    Raises:
        DataError: as `strict_json`, when the fault lies outside the records, or the records cannot
            be separated.
    """
    try:
        return strict_json(document), {}
    except DataError:
        spans = list(_record_spans(document, name))
        unread = dict(_unreadable_records(document, spans))
        if not unread:
            raise
    parts, copied_to = [], 0
    for position in unread:
        start, stop = spans[position]
        parts += [document[copied_to:start], b"null"]
        copied_to = stop
    return strict_json(b"".join([*parts, document[copied_to:]])), unread


def _unreadable_records(
    document: bytes, spans: list[tuple[int, int]]
) -> Iterator[tuple[int, UnreadableRecord]]:
    for position, (start, stop) in enumerate(spans):
        body = document[start:stop].strip()
        try:
            strict_json(body)
        except DataError as fault:
            yield position, UnreadableRecord(body, fault)


def _record_spans(document: bytes, name: str | None) -> Iterator[tuple[int, int]]:
    """Yield start and end of each record in the list, found by brackets and strings alone."""
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
    """Yield the brackets and commas outside of strings.

    A quote without a closing quote begins no string. Behind the first such quote no string is
    closed either, so the rest is searched for marks only: a search for the end of a string from
    each further quote would take quadratic time.
    """
    for token in _TOKEN.finditer(document):
        if token["mark"]:
            yield token
        elif not token["end"]:
            yield from _MARK.finditer(document, token.start())
            return


def _is_under(document: bytes, bracket: int, name: str | None) -> bool:
    """Whether a list is the document itself, or the value of the document's key `name`.

    Args:
        document: JSON in UTF-8.
        bracket: the position of the list's opening bracket.
        name: the key; None: any list at this depth will do.
    """
    if name is None:
        return True
    before = document[:bracket].rstrip()
    key = before.removesuffix(b":").rstrip()
    return len(key) < len(before) and key.endswith(f'"{name}"'.encode())
