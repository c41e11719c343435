"""Reading JSON values whose shape is not ours: one clear reason where a value is of another kind."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from assizes.judge.case import MOST_TOKENS, MOST_USD
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.parsing import strict_json
from assizes.judge.rows import as_json

_ID_CHARS: Final = 32
_UNITS: Final = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""From which number on a time is in nano-, micro- or milliseconds, and how many make a second."""


def mapping(value: Any, path: str) -> dict[str, Any]:
    """The value as an object; null is an empty one.

    Raises:
        DataError: `schema`.
    """
    return _check_type(dict, value, path, "an object") if value is not None else {}


def sequence(value: Any, path: str) -> list[Any]:
    """The value as a list; null is an empty one.

    Raises:
        DataError: `schema`.
    """
    return _check_type(list, value, path, "a list") if value is not None else []


def messages_of(value: dict[str, Any]) -> list[Any]:
    """The messages of a record, which must be there.

    Raises:
        DataError: `schema`.
    """
    if value.get("messages") is None:
        raise DataError("schema", "messages: missing")
    return sequence(decode_if_json(value["messages"]), "messages")


def string(value: Any, path: str) -> str:
    """The value as text, which must be there.

    Raises:
        DataError: `schema`.
    """
    text: str = _check_type(str, value, path, "text")
    return text


def _check_type(kind: type, value: Any, path: str, wanted: str) -> Any:
    if isinstance(value, kind):
        return value
    raise DataError("schema", f"{path}: found {type(value).__name__}, expected {wanted}")


def decode_if_json(value: Any) -> Any:
    """The value of a text that is JSON of an object or a list; anything else as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"'):
        try:
            return strict_json(value.encode("utf-8", "surrogatepass"))
        except DataError:
            return value
    return value


def as_text(value: Any) -> str:
    """A value as a tool or a person would have said it: text as it is, anything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def name_of(value: Any) -> str | None:
    """An id or name as text; null where there is none."""
    if isinstance(value, bool) or value in (None, ""):
        return None
    return str(value) if isinstance(value, str | int) else None


def first_identifier(fields: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """The first of several fields that names something."""
    return next((identifier for name in names if (identifier := name_of(fields.get(name)))), None)


def tokens(*values: Any) -> int:
    """The sum of counts of tokens, given as numbers or text; what is none, or more than a call can
    have, counts as 0.
    """
    total = 0
    for value in values:
        number = amount(value)
        total += int(number) if number is not None and number > 0 else 0
    return total if total <= MOST_TOKENS else 0


def amount(value: Any) -> float | None:
    """A finite number, also one written as text; null for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def dollars(value: Any) -> float | None:
    """An amount of money; null also for more than an agent can cost."""
    usd = amount(value)
    return usd if usd is not None and abs(usd) <= MOST_USD else None


def moment(value: Any) -> datetime | None:
    """A point in time: ISO text, or seconds, milli-, micro- or nanoseconds since 1970; else null."""
    if isinstance(value, str) and not value.strip().isdecimal():
        try:
            timestamp = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
        return timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    number = amount(value)
    if not number:
        return None
    unit = next((unit for least, unit in _UNITS if number >= least), 1.0)
    try:
        return datetime.fromtimestamp(number / unit, UTC)
    except (OverflowError, OSError, ValueError):
        return None


def between_ms(start: datetime | None, end: datetime | None) -> float | None:
    """Milliseconds from one time to another; null where one is missing or they run backwards."""
    if start is None or end is None or end < start:
        return None
    return round((end - start).total_seconds() * 1000, 3)


def content_id(value: Any) -> str:
    """A name for a record that has none: 32 hex digits of SHA-256 over its canonical JSON.

    Raises:
        DataError: `json`, for a number that is not finite.
    """
    try:
        text = as_json(value).encode("utf-8", "surrogatepass")
    except ValueError as error:
        raise DataError("json", "a number is beyond what 64 bits hold, such as 1e999") from error
    return hashlib.sha256(text).hexdigest()[:_ID_CHARS]
