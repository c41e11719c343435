"""Strict JSON, checks of whole records, and traits that many formats share."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import jiter
from pydantic import BaseModel, ValidationError

from assizes.judge.case import Case, ToolCall, Turn
from assizes.judge.errors import DataError

_BOM: Final = b"\xef\xbb\xbf"
_MAX_PATH_CHARS: Final = 120
# UTF-32 comes first: its text also reads as UTF-16 with a NUL behind each character.
_WIDE: Final = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
# Read backwards: a search for the end of the text from its front takes quadratic time.
_MARKERS_BACKWARDS: Final = re.compile(r"(?:\s*###[A-Z0-9_-]*[A-Z]###)+")
_PLACE: Final = re.compile(r"line \d+ column \d+\Z")


def strict_json(data: bytes) -> Any:
    """Return the value of a JSON text in UTF-8, with or without byte order mark.

    NaN, Infinity, lone surrogates, a key that stands twice in one object and more than 200 levels
    of nesting are refused: parsers differ in what they make of them.

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
    """Return the lines of a file that are not blank."""
    return [line for line in document.split(b"\n") if line and not line.isspace()]


def wide_encoding(head: bytes) -> str | None:
    """Return `UTF-16-LE` or the like when JSON begins in two or four bytes a character, else None."""
    start = head[:64]
    if b"\0" not in start:
        return None
    for encoding in _WIDE:
        text = start[: len(start) - len(start) % 4].decode(encoding, "replace")
        if text.lstrip("\ufeff \t\r\n")[:1] in ("{", "[") and "\0" not in text:
            return encoding.upper()
    return None


def check_size(case: Case, max_turns: int) -> None:
    """Check that a conversation has at most `max_turns` turns.

    Raises:
        DataError: `too_large`, when it has more.
    """
    turns = len(case.transcript.turns)
    if turns > max_turns:
        raise DataError("too_large", f"{turns} turns; [transcripts] max_turns allows {max_turns}")


def check_numbers(case: Case) -> None:
    """Check that all numbers in the free-form values of a case are finite.

    `1e999` is valid JSON, and parsers read it as infinity.

    Raises:
        DataError: `json`, when a number is not finite.
    """
    expected = case.expected
    free_values = (
        [call.arguments for turn in case.transcript.turns for call in turn.tool_calls],
        [call.arguments for call in expected.tool_calls or ()],
        [expected.additional_input, expected.rubrics, expected.search_results],
    )
    if not _is_finite(free_values):
        raise DataError("json", "a number is beyond what 64 bits hold, such as 1e999")


def _is_finite(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
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
    """Turn a validation error of pydantic inside the `with` block into one `DataError`.

    Raises:
        DataError: `schema`, with the first fault.
    """
    try:
        yield
    except ValidationError as error:
        # Not chained: pydantic's own message quotes the record, which may be private.
        raise schema_error(error) from None


def drop_negative_times(value: Any) -> int:
    """Set every negative latency and duration of a record to None, in place.

    A clock that is set back causes them; the conversation itself is still good.

    Returns:
        How many there were.
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
    """Return a `schema` error with the path of the first fault, and the number of the others."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(str(step) for step in first["loc"]) or "record"
    shown = path if len(path) <= _MAX_PATH_CHARS else f"{path[: _MAX_PATH_CHARS - 3]}..."
    others = error.error_count() - 1
    more = f" (and {others} more)" if others else ""
    return DataError("schema", f"{shown}: {first['msg']}{more}")


def tool_call(
    name: str, arguments: str | dict[str, Any] | None, call_id: str | None = None
) -> ToolCall:
    """Return a tool call; a text of arguments that is no JSON object is kept in `raw`."""
    if not isinstance(arguments, str):
        return ToolCall(name=name, arguments=arguments or {}, id=call_id)
    try:
        value = strict_json(arguments.encode())
    except DataError:
        value = None
    if isinstance(value, dict):
        return ToolCall(name=name, arguments=value, id=call_id)
    return ToolCall(name=name, id=call_id, raw=arguments)


class ChatFunction(BaseModel):
    """The function of a tool call in a chat message: its name, and its arguments as JSON."""

    name: str
    arguments: str | dict[str, Any] | None = None


class ChatToolCall(BaseModel):
    """A tool call as a chat message holds it."""

    id: str | None = None
    function: ChatFunction

    def tool_call(self) -> ToolCall:
        """Return the tool call in the terms of a case."""
        return tool_call(self.function.name, self.function.arguments, self.id)


def without_markers(text: str) -> str:
    """Return a text without the markers at its end by which a simulated user stops: `###WORD###`."""
    match = _MARKERS_BACKWARDS.match(text[::-1])
    return text[: len(text) - match.end()].rstrip() if match else text


def without_marker_turn(turns: Sequence[Turn], last_text: str | None) -> tuple[Turn, ...]:
    """Return the turns without a last turn of the user in which only a marker stood.

    Args:
        turns: turns whose markers have been removed.
        last_text: the text of the last message before its markers were removed.
    """
    if turns and turns[-1].role == "user" and turns[-1].text == "" and last_text:
        return tuple(turns[:-1])
    return tuple(turns)
