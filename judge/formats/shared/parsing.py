"""What reading any format needs: strict JSON, checked shapes, and traits many formats share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import jiter
from pydantic import ValidationError

from assizes.judge.case import Case, Turn
from assizes.judge.errors import DataError

_BOM: Final = b"\xef\xbb\xbf"
_PATH_CHARS: Final = 120
# The longer first: text of four bytes a character also reads as text of two with NULs between.
_WIDE: Final = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
# Read backwards: a search for the end of the text from its front takes quadratic time.
_MARKERS_BACKWARDS: Final = re.compile(r"(?:\s*###[A-Z0-9_-]*[A-Z]###)+")
_PLACE: Final = re.compile(r"line \d+ column \d+\Z")


def strict_json(data: bytes) -> Any:
    """The value of a JSON text in UTF-8, with or without byte order mark.

    Refused: NaN and Infinity, lone surrogates, a key twice in one object, nesting over 200.

    Raises:
        DataError: `encoding`, `duplicate_key`, `too_deep` or `json`.
    """
    try:
        return jiter.from_json(
            data.removeprefix(_BOM),
            allow_inf_nan=False,
            cache_mode="keys",
            catch_duplicate_keys=True,
        )
    except ValueError as error:
        raise _fault(data, str(error)) from error


def lines_of(document: bytes) -> list[bytes]:
    """The lines that are not blank."""
    return [line for line in document.split(b"\n") if line and not line.isspace()]


def wide_encoding(head: bytes) -> str | None:
    """The name of an encoding of two or four bytes a character, where JSON begins in one."""
    start = head[:64]
    if b"\0" not in start:
        return None
    for encoding in _WIDE:
        text = start[: len(start) - len(start) % 4].decode(encoding, "replace")
        if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[") and "\0" not in text:
            return encoding.upper()
    return None


def check_size(case: Case, max_turns: int) -> None:
    """See that a conversation is not too long to be judged.

    Raises:
        DataError: `too_large`.
    """
    turns = len(case.transcript.turns)
    if turns > max_turns:
        raise DataError("too_large", f"{turns} turns; [transcripts] max_turns allows {max_turns}")


def check_numbers(case: Case) -> None:
    """See that every number of free-form values is finite: `1e999` is JSON, and read as infinity.

    Raises:
        DataError: `json`.
    """
    expected = case.expected
    free = (
        [call.arguments for turn in case.transcript.turns for call in turn.tool_calls],
        [call.arguments for call in expected.tool_calls or ()],
        [expected.additional_input, expected.rubrics, expected.search_results],
    )
    if not _finite(free):
        raise DataError("json", "a number is beyond what 64 bits hold, such as 1e999")


def _finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_finite, value))
    return not isinstance(value, float) or math.isfinite(value)


def _fault(data: bytes, reason: str) -> DataError:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return DataError("encoding", f"not UTF-8: byte {error.start} ({error.reason})")
    match = _PLACE.search(reason)
    place = match.group() if match else "unknown place"
    if "duplicate key" in reason:
        return DataError("duplicate_key", f"a key stands twice in one object, {place}")
    if "recursion limit" in reason:
        return DataError("too_deep", f"nested deeper than 200 levels, {place}")
    if b"\0" in data:
        return DataError("encoding", f"byte {data.index(0)} is NUL, which no JSON text holds")
    if "hex escape" in reason:
        return DataError("encoding", f"half of a surrogate pair or a broken escape, {place}")
    return DataError("json", f"not JSON: {reason}")


@contextmanager
def schema_errors() -> Iterator[None]:
    """Turn what pydantic finds wrong with a record into one `DataError`.

    Raises:
        DataError: `schema`.
    """
    try:
        yield
    except ValidationError as error:
        # Not chained: pydantic's own message quotes the record, which may be private.
        raise schema_error(error) from None


def drop_negative_times(value: Any) -> int:
    """Null every latency and duration under 0 in a record's turns, in place; how many there were.

    A clock that is set back makes them; what was said is as good as ever.
    """
    if isinstance(value, list):
        return sum(map(drop_negative_times, value))
    if not isinstance(value, dict):
        return 0
    below = [value[name] for name in ("transcript", "trace", "turns") if name in value]
    dropped = sum(map(drop_negative_times, below))
    for name in ("latency_ms", "duration_ms"):
        number = value.get(name)
        if isinstance(number, int | float) and number < 0:
            value[name] = None
            dropped += 1
    return dropped


def schema_error(error: ValidationError) -> DataError:
    """The first thing pydantic found wrong, by its path, and how many more there are."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(str(step) for step in first["loc"]) or "record"
    shown = path if len(path) <= _PATH_CHARS else f"{path[: _PATH_CHARS - 3]}..."
    others = error.error_count() - 1
    more = f" (and {others} more)" if others else ""
    return DataError("schema", f"{shown}: {first['msg']}{more}")


def parse_arguments(arguments: str | dict[str, Any] | None) -> tuple[dict[str, Any], str | None]:
    """Arguments of a tool call as an object, and the text where it is not a JSON object."""
    if not isinstance(arguments, str):
        return arguments or {}, None
    try:
        value = strict_json(arguments.encode())
    except DataError:
        return {}, arguments
    return (value, None) if isinstance(value, dict) else ({}, arguments)


def without_markers(text: str) -> str:
    """The text without the markers at its end by which a simulated user stops: `###WORD###`."""
    match = _MARKERS_BACKWARDS.match(text[::-1])
    return text[: len(text) - match.end()].rstrip() if match else text


def without_marker_turn(turns: Sequence[Turn], last_text: str | None) -> tuple[Turn, ...]:
    """The turns but a last one of the user that held a marker only; `last_text` had it still."""
    if turns and turns[-1].role == "user" and turns[-1].text == "" and last_text:
        return tuple(turns[:-1])
    return tuple(turns)
