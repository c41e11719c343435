"""The project's own format: one case a line, as JSON with the fields of `assizes.judge.case`.

A field that has its default may be left out:

    {"case_id": "c1", "transcript": {"turns": [{"role": "user", "text": "Hi"}]}}
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import ValidationError

from assizes.judge.case import Case
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.oddities import DROPPED_TIMES
from assizes.judge.formats.shared.parsing import (
    drop_negative_times,
    lines_of,
    schema_error,
    schema_errors,
    strict_json,
)

SCHEMA_VERSION: Final = 1
"""What a record may say of itself as `schema_version`."""


class Native:
    """Cases as they are."""

    name = "native"
    by_line = True

    def fits(self, value: Any) -> bool:
        """An object that begins like a case."""
        return isinstance(value, dict) and not value.keys().isdisjoint({"case_id", "transcript"})

    def records(self, document: bytes) -> list[bytes]:
        """The lines that are not blank."""
        return lines_of(document)

    def case(self, record: bytes) -> Case:
        """The case of one line.

        Raises:
            DataError: the line is not strict JSON, or not a case.
        """
        # `model_validate_json` keeps the last of two equal keys without a word; a parser that
        # refuses them, then validation, reads at 0.8 of its speed. A second pass costs more.
        value = _of_this_version(strict_json(record))
        try:
            return Case.model_validate(value)
        except ValidationError as error:
            if not (dropped := drop_negative_times(value)):
                raise schema_error(error) from None
        with schema_errors():
            return _with_dropped_times(Case.model_validate(value), dropped)


def _of_this_version(value: Any) -> Any:
    """A record without its `schema_version`, which may be left out.

    Raises:
        DataError: `schema_version`, for any other than ours: nothing is guessed about it.
    """
    if not isinstance(value, dict) or "schema_version" not in value:
        return value
    version = value.pop("schema_version")
    if version != SCHEMA_VERSION or isinstance(version, bool):
        raise DataError(
            "schema_version",
            f"written in version {str(version)[:20]!r} of the format, this reader knows {SCHEMA_VERSION}",
        )
    return value


def _with_dropped_times(case: Case, dropped: int) -> Case:
    return case.model_copy(update={"metadata": {**case.metadata, DROPPED_TIMES: dropped}})


def native_line(case: Case) -> bytes:
    """The case as one line of a native file, line end included; fields at default left out."""
    return case.model_dump_json(exclude_defaults=True).encode() + b"\n"
