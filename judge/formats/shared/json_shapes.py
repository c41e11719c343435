"""Typed readings of single JSON values that other programs wrote.

A value of a type that a format does not allow raises a `DataError` with the value's path; an
optional value that cannot be read is None.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from assizes.judge.case import MOST_TOKENS, MOST_USD
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.parsing import FidelityCounter, strict_json
from assizes.judge.rows import as_json

CONVERSATION_IDS: Final = ("conversation_id", "session_id", "thread_id", "id")
"""Fields that may name the conversation of a record, in the order in which they are tried."""

_Kind = TypeVar("_Kind")
_ID_CHARS: Final = 32  # hex digits: 128 bits
_TIME_UNITS: Final = ((1e17, 1e9), (1e14, 1e6), (1e11, 1e3))
"""Units of times since 1970: the smallest number that is read as nano-, micro- or milliseconds, and
how many of the unit make a second. A smaller number is seconds."""


def mapping(value: Any, path: str) -> dict[str, Any]:
    """Return a value as an object, an empty one for JSON null; else `DataError` (`schema`)."""
    return _typed(dict, value, path, "an object") if value is not None else {}


def sequence(value: Any, path: str) -> list[Any]:
    """Return a value as a list, an empty one for JSON null; else `DataError` (`schema`)."""
    return _typed(list, value, path, "a list") if value is not None else []


def objects(value: Any, path: str) -> list[dict[str, Any]]:
    """Return a list of objects, all under one path; JSON null gives an empty list."""
    return [mapping(item, path) for item in sequence(value, path)]


def numbered_objects(value: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield path and element of a list of objects; an element's path is `path.0` and so on."""
    for place, item in enumerate(sequence(value, path)):
        yield f"{path}.{place}", mapping(item, f"{path}.{place}")


def messages_of(value: dict[str, Any]) -> list[Any]:
    """Return the messages of a record; `DataError` (`schema`) where it has no list of them."""
    if value.get("messages") is None:
        raise DataError("schema", "messages: missing")
    return sequence(decode_if_json(value["messages"]), "messages")


def string(value: Any, path: str) -> str:
    """Return a value as text; `DataError` (`schema`) where it is missing or no text."""
    return _typed(str, value, path, "text")


def _typed(kind: type[_Kind], value: Any, path: str, wanted: str) -> _Kind:
    if isinstance(value, kind):
        return value
    raise DataError("schema", f"{path}: found {type(value).__name__}, expected {wanted}")


def decode_if_json(value: Any) -> Any:
    """Decode a text that holds a JSON object, list or string; return anything else unchanged."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "[", '"'):
        try:
            return strict_json(value.encode("utf-8", "surrogatepass"))
        except DataError:
            return value  # a text that only begins like JSON, as `[sic]` does
    return value


def as_text(value: Any) -> str:
    """Return a value as text: a text unchanged, None as empty text, anything else as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def name_of(value: Any) -> str | None:
    """Return an id or a name as text; None for an empty text or a value of another type."""
    if type(value) is str:
        return value or None
    if isinstance(value, bool) or value in (None, ""):  # True is an int in Python, and no name
        return None
    return str(value) if isinstance(value, str | int) else None


def first_identifier(fields: Mapping[str, Any], names: Iterable[str]) -> str | None:
    """Return the first of several fields that holds an id or a name; None when none does."""
    return next((identifier for name in names if (identifier := name_of(fields.get(name)))), None)


def first_present(fields: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return the value of the first of several fields that is there and not None."""
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def tokens(*values: Any) -> int:
    """Return the sum of token counts that are given as numbers or text.

    A value that is no count adds 0. A sum above what one model call can use (`MOST_TOKENS`) is not
    believed and gives 0.
    """
    counts = (amount(value) or 0 for value in values)
    total = sum(int(count) for count in counts if count > 0)
    return total if total <= MOST_TOKENS else 0


def amount(value: Any) -> float | None:
    """Return a finite number, also one that is written as text; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):  # no number; an integer of more than 308 digits
        return None
    return number if math.isfinite(number) else None


def dollars(value: Any) -> float | None:
    """Return an amount in dollars; None for no number, or more than an agent can cost (`MOST_USD`)."""
    usd = amount(value)
    return usd if usd is not None and abs(usd) <= MOST_USD else None


def moment(value: Any) -> datetime | None:
    """Return a point in time; None for a value that is none.

    Times are ISO 8601 text (UTC when no zone is given), or seconds, milli-, micro- or nanoseconds
    since 1970, which are told apart by their size.
    """
    if isinstance(value, str) and not value.strip().isdecimal():  # OTLP writes numbers as text
        try:
            timestamp = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
        return timestamp if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    number = amount(value)
    if not number:  # emitters write 0 for a time that they do not know
        return None
    unit = next((unit for least, unit in _TIME_UNITS if number >= least), 1.0)
    try:
        return datetime.fromtimestamp(number / unit, UTC)
    except (OverflowError, OSError, ValueError):  # beyond the year 9999, or what the system knows
        return None


def between_ms(start: datetime | None, end: datetime | None) -> float | None:
    """Return the milliseconds between two times; None when one is missing or `end` is earlier."""
    if start is None or end is None or end < start:
        return None
    return round((end - start).total_seconds() * 1000, 3)  # to the microsecond


def valid_labels(
    scores: Iterable[tuple[str, float | None]],
    tally: FidelityCounter,
    known_wide: Iterable[str] = (),
) -> dict[str, float]:
    """Return the scores of a case that go from 0 to 1, by name; the last one of a name counts.

    The labels of a case can be no others. Where one score of a name is outside, all of that name
    are on another scale, on which 1 may be the worst. These are counted as dropped. `known_wide`
    are further names whose scores are on another scale.
    """
    known = [(name, float(value)) for name, value in scores if value is not None]
    wide = {*known_wide, *(name for name, value in known if not 0 <= value <= 1)}
    tally.count("dropped", "label on another scale", sum(name in wide for name, _ in known))
    return {name: value for name, value in known if name not in wide}


def conversation_id(record: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    """Return the id that a record or its metadata gives the conversation, else a `content_id`.

    Raises:
        DataError: as `content_id`.
    """
    for fields in (record, metadata):
        if fields:
            for name in CONVERSATION_IDS:
                if (value := fields.get(name)) is not None and (own_id := name_of(value)):
                    return own_id
    return content_id(record)


def content_id(value: Any) -> str:
    """Return an id for a record without one: 32 hex digits of SHA-256 over its canonical JSON.

    Raises:
        DataError: `json`, for a number that is not finite.
    """
    try:
        text = as_json(value).encode("utf-8", "surrogatepass")
    except ValueError as error:
        raise DataError("json", "a number is beyond what 64 bits hold, such as 1e999") from error
    return hashlib.sha256(text).hexdigest()[:_ID_CHARS]
