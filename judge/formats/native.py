"""The project's own format: one case a line, as JSON with the fields of `judge.case`.

A field that has its default may be left out:

    {"case_id": "c1", "transcript": {"turns": [{"role": "user", "text": "Hi"}]}}
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from judge.case import Case
from judge.formats.intake import schema_error, strict_json


class Native:
    """Cases as they are."""

    name = "native"
    by_line = True

    def fits(self, value: Any) -> bool:
        """An object that begins like a case."""
        return isinstance(value, dict) and not value.keys().isdisjoint({"case_id", "transcript"})

    def records(self, document: bytes) -> list[bytes]:
        """The lines that are not blank."""
        return [line for line in document.split(b"\n") if line and not line.isspace()]

    def case(self, record: bytes) -> Case:
        """The case of one line.

        Raises:
            DataError: the line is not strict JSON, or not a case.
        """
        # `model_validate_json` keeps the last of two equal keys without a word; a parser that
        # refuses them, then validation, reads at 0.8 of its speed. A second pass costs more.
        value = strict_json(record)
        try:
            return Case.model_validate(value)
        except ValidationError as error:
            raise schema_error(error) from None


def native_line(case: Case) -> bytes:
    """The case as one line of a native file, line end included; fields at default left out."""
    return case.model_dump_json(exclude_defaults=True).encode() + b"\n"
