"""Bits flipped in files, and what a reader says afterwards: an error that names the file, or no change."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from assizes.judge.errors import AssizesError

CLASSES = {
    "json key": re.compile(rb'"[a-z_0-9]+"(?=:)'),
    "json value": re.compile(rb'(?<=:)("[^"]*"|[0-9.]+)'),
    "json sign": re.compile(rb"[{}\[\]:,]"),
    "line end": re.compile(rb"\n"),
}
"""The classes of the bytes of a text."""


class Flip(NamedTuple):
    """One bit of one file."""

    byte_class: str
    position: int
    bit: int


def flips(name: str, data: bytes, each: int, dice: random.Random) -> Iterator[Flip]:
    """Bits of a file to flip: `each` of every class of bytes that the file has."""
    for byte_class, positions in _classes(name, data):
        for position in dice.sample(positions, min(each, len(positions))):
            yield Flip(byte_class, position, dice.randrange(8))


def _classes(name: str, data: bytes) -> Iterator[tuple[str, range | list[int]]]:
    yield "any", range(len(data))
    if name.endswith(".parquet"):
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        yield "magic", [*range(4), *range(len(data) - 8, len(data))]
        yield "pages", range(4, footer)
        yield "footer and statistics", range(footer, len(data) - 8)
    elif name.endswith((".json", ".lines", ".people", ".commits")):
        for byte_class, pattern in CLASSES.items():
            found = [at for match in pattern.finditer(data) for at in range(*match.span())]
            yield byte_class, found
    else:  # DuckDB: a header, two headers of the database, then blocks; SQLite: a header, then pages
        yield "header", range(min(100, len(data)))
        yield "database headers", range(4096, min(3 * 4096, len(data)))
        filled = [at for at in range(min(len(data), 1 << 22)) if data[at]]
        yield "filled", filled


def silent_flips(
    file: Path, answer: Callable[[], Any], *, each: int, seed: int
) -> tuple[list[tuple[Flip, Any]], int]:
    """The flips of a file after which `answer` was another one, or an error that does not name it.

    Each comes with that answer, or the text of the error.

    The second value is how many of the others were told as an error.
    """
    data, before, dice = file.read_bytes(), answer(), random.Random(seed)
    silent, told = [], 0
    try:
        for flip in flips(file.name, data, each, dice):
            changed = bytearray(data)
            changed[flip.position] ^= 1 << flip.bit
            file.write_bytes(changed)
            try:
                after = answer()
            except AssizesError as error:
                text = str(error)
                if file.name not in text or "\n" in text:
                    silent.append((flip, text))
                told += 1
            else:
                if after != before:
                    silent.append((flip, after))
    finally:
        file.write_bytes(data)
    return silent, told
