"""The project's own format: one case a line, as JSON with the fields of `assizes.judge.case`.

A field with its default value may be left out:

    {"case_id": "c1", "transcript": {"turns": [{"role": "user", "text": "Hi"}]}}
"""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from assizes.judge.case import Case
from assizes.judge.errors import DataError
from assizes.judge.formats.shared import parsing
from assizes.judge.formats.shared.containers import Format

SCHEMA_VERSION: Final = 1
"""The version of the format that this reader knows; a record may name it as `schema_version`."""


def _case(record: bytes) -> Case:
    # `model_validate_json` silently keeps the last of two equal keys. Strict parsing followed by
    # validation refuses them and reaches 0.8 of its speed; a second pass would cost more.
    value = parsing.strict_json(record)
    if isinstance(value, dict) and "schema_version" in value:
        version = value.pop("schema_version")
        if version != SCHEMA_VERSION or isinstance(version, bool):  # True == 1 in Python
            raise DataError(
                "schema_version",
                f"written in version {str(version)[:20]!r} of the format, "
                f"this reader knows {SCHEMA_VERSION}",
            )
    try:
        return Case.model_validate(value)  # negative times are looked for after a fault only
    except ValidationError as error:
        if not (dropped := parsing.drop_negative_times(value)):
            raise parsing.schema_error(error) from None
    with parsing.schema_errors():
        case = Case.model_validate(value)
    return case.model_copy(update={"metadata": {**case.metadata, parsing.DROPPED_TIMES: dropped}})


def native_line(case: Case) -> bytes:
    """Return a case as one line of a native file, with its line end; default values are left out."""
    return case.model_dump_json(exclude_defaults=True).encode() + b"\n"


NATIVE: Final = Format(
    name="native",
    keys=frozenset({"case_id", "transcript"}),
    fits=lambda value: isinstance(value, dict),
    case=_case,
)
"""The project's own format."""
