"""The project's own format: one case a line, as JSON with the fields of `assizes.judge.case`.

A field with its default value may be left out:

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
"""The version of the format that this reader knows; a record may name it as `schema_version`."""


class Native:
    """The project's own format."""

    name = "native"
    by_line = True

    def fits(self, value: Any) -> bool:
        """Whether a value is an object that begins like a case."""
        return isinstance(value, dict) and not value.keys().isdisjoint({"case_id", "transcript"})

    def records(self, document: bytes) -> list[bytes]:
        """Return the lines of a file that are not blank."""
        return lines_of(document)

    def case(self, record: bytes) -> Case:
        """Return the case of one line.

        Raises:
            DataError: the line is not strict JSON, or not a case.
        """
        # `model_validate_json` silently keeps the last of two equal keys. Strict parsing followed by
        # validation refuses them and reaches 0.8 of its speed; a second pass would cost more.
        value = _without_version(strict_json(record))
        try:
            return Case.model_validate(value)
        except ValidationError as error:
            if not (dropped := drop_negative_times(value)):
                raise schema_error(error) from None
        with schema_errors():
            case = Case.model_validate(value)
        return case.model_copy(update={"metadata": {**case.metadata, DROPPED_TIMES: dropped}})


def _without_version(value: Any) -> Any:
    """Return a record without its `schema_version`, which is optional.

    Raises:
        DataError: `schema_version`, for a version that this reader does not know.
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


def native_line(case: Case) -> bytes:
    """Return a case as one line of a native file, with its line end; default values are left out."""
    return case.model_dump_json(exclude_defaults=True).encode() + b"\n"
