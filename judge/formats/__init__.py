"""Foreign transcripts into cases: one file a format, one table of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

import jiter

from judge.case import Case
from judge.errors import DataError
from judge.formats.agent_evaluation import AgentEvaluation
from judge.formats.native import Native, native_line
from judge.formats.tau2 import Tau2
from judge.formats.tau_bench import TauBench

__all__ = ["FORMATS", "Format", "detect", "native_line"]


class Format(Protocol):
    """How one kind of object is read."""

    @property
    def name(self) -> str:
        """The name `[transcripts] format` takes."""

    @property
    def by_line(self) -> bool:
        """True: one record a line; false: one document of many records."""

    def fits(self, value: Any) -> bool:
        """Whether a file that begins with this value is of the format.

        The value may be cut short: it is what a parser makes of the first bytes.
        """

    def records(self, document: bytes) -> list[Any]:
        """The records of a whole document, in order, each complete in itself.

        Raises:
            DataError: when the document as a whole cannot be read.
        """

    def case(self, record: Any) -> Case:
        """The case a record holds.

        Raises:
            DataError: when it holds none.
        """


FORMATS: Final[dict[str, Format]] = {
    one.name: one for one in (Native(), TauBench(), Tau2(), AgentEvaluation())
}


def detect(head: bytes) -> Format:
    """The format of an object, from its first few thousand decompressed bytes.

    Raises:
        DataError: `format`, naming the ones that are known.
    """
    for value in _beginnings(head):
        for one in FORMATS.values():
            if one.fits(value):
                return one
    known = ", ".join(FORMATS)
    raise DataError("format", f"not recognised as one of {known}; set [transcripts] format")


def _beginnings(head: bytes) -> Iterator[Any]:
    # A document may be cut anywhere; of a file by lines, the first ones may be broken, and of a
    # document a record that is not the first.
    whole = head.decode("utf-8-sig", "ignore")
    cuts = (whole[: len(whole) >> halved] for halved in range(1, len(whole).bit_length()))
    for text in (whole, *whole.split("\n"), *cuts):
        try:
            yield jiter.from_json(text.encode(), partial_mode="trailing-strings")
        except ValueError:
            continue
