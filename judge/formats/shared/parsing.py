"""What all readers share: strict JSON, checks of records and cases, and what a case does not say.

A reader notes two things, which a run counts: its fidelity, that is the parts of a transcript for
which a case has no place (each with its fate: marked, moved, dropped, ...), so that nothing is lost
silently, and the oddities of a case that is judged all the same.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, Final

import jiter
from pydantic import ValidationError

from assizes.judge.case import Case
from assizes.judge.errors import DataError

FIDELITY: Final = "fidelity"
"""Key of `Case.metadata`: counts such as `{"marked image": 2, "dropped message.audio": 1}`."""

REASONING: Final = "reasoning"
"""Key of `Case.metadata`: the model's own thinking, by turn index; no judge sees it."""

HUMAN_LABELS: Final = "human_labels"
"""Key of `Case.metadata`: ratings that people gave the case, as rows of a labels file."""

DROPPED_TIMES: Final = "dropped_times"
"""Key of `Case.metadata`: how many times in the record ran backwards and were left out."""

_FATES: Final = {
    "marked": "a note in the text stands for it",
    "aside": "kept in the metadata, which no judge sees",
    "moved": "kept in another place",
    "repeated": "stands elsewhere in the conversation already",
    "dropped": "a case has no place for it",
    "unread": "[transcripts.columns] names no such column; tags = [...] keeps it",
    "unchecked": "ground truth that no judge here can check; the cases' summary lines name it",
}
"""The fates of a part, each with its meaning."""

SALVAGED: Final = "salvaged"
"""The code of a record that stands for the lost rest of a broken packed object."""

_ODDITY_TEXTS: Final = {
    SALVAGED: "in place of the lost rest of a broken packed object, whose whole lines before that "
    "place were read",
    "time_order": "with times that run backwards: turns stay as in the file, negative latencies "
    "are left out",
    "call_without_result": "with tool calls that nothing answered",
    "result_without_call": "with tool results that nobody asked for",
    "malformed_arguments": "with tool arguments that are no JSON object",
    "no_agent_turn": "in which the agent never speaks",
    "empty_passage": "with retrieved passages without content, which no judge of retrieval can read",
}
"""The codes, each with the words that follow `n records` in its warning."""

_BOM: Final = b"\xef\xbb\xbf"
_MAX_PATH_CHARS: Final = 120  # keys of a record may be of any length
# UTF-32 comes first: its text also reads as UTF-16 with a NUL behind each character.
_WIDE: Final = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")
_PLACE: Final = re.compile(r"line \d+ column \d+\Z")  # how jiter ends its messages


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
            cache_mode="keys",  # texts of a transcript hardly repeat, its keys do
            catch_duplicate_keys=True,
        )
    except ValueError as error:
        raise _fault(data, str(error)) from error


def _fault(data: bytes, reason: str) -> DataError:
    # From the most certain reason to the least: jiter has one kind of error, with words.
    try:
        data.decode()
    except UnicodeDecodeError as error:
        detail = f"not UTF-8: byte {error.start} ({error.reason}); save the file as UTF-8"
        return DataError("encoding", detail)
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


def check_bounds(case: Case, max_turns: int) -> None:
    """Check that a case has at most `max_turns` turns, and only finite numbers.

    `1e999` is valid JSON, and parsers read it as infinity in the free-form values of a case.

    Raises:
        DataError: `too_large` for more turns, `json` for a number that is not finite.
    """
    turns, expected = case.transcript.turns, case.expected
    if len(turns) > max_turns:
        raise DataError(
            "too_large", f"{len(turns)} turns; [transcripts] max_turns allows {max_turns}"
        )
    free_values: list[Any] = [
        *(call.arguments for turn in turns for call in turn.tool_calls),
        *(call.arguments for call in expected.tool_calls or ()),
        *(expected.additional_input, expected.rubrics, expected.search_results),
    ]
    while free_values:  # a stack of our own: values nest up to 200 levels deep
        value = free_values.pop()
        if isinstance(value, dict | list | tuple):
            free_values += value.values() if isinstance(value, dict) else value
        elif isinstance(value, float) and not math.isfinite(value):
            raise DataError("json", "a number is beyond what 64 bits hold, such as 1e999")


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


def schema_error(error: ValidationError) -> DataError:
    """Return a `schema` error with the path of the first fault, and the number of the others."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    path = ".".join(str(step) for step in first["loc"]) or "record"
    shown = path if len(path) <= _MAX_PATH_CHARS else f"{path[: _MAX_PATH_CHARS - 3]}..."
    others = error.error_count() - 1
    more = f" (and {others} more)" if others else ""
    return DataError("schema", f"{shown}: {first['msg']}{more}")


def drop_negative_times(value: Any) -> int:
    """Set every negative latency and duration of a record to None, in place, and count them.

    A clock that is set back causes them; the conversation itself is still good.
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


class FidelityCounter:
    """Counts, by fate and kind, the parts of one record for which a case has no place."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}  # "fate kind" -> number

    def count(self, fate: str, kind: str, number: int = 1) -> None:
        """Add a number of parts of one kind; the fate is marked, aside, moved, repeated, ..."""
        if number:
            name = f"{fate} {kind}"
            self._counts[name] = self._counts.get(name, 0) + number

    def count_unread(
        self, fields: Mapping[str, Any], known: frozenset[str] | set[str], where: str
    ) -> None:
        """Count as dropped every field that is not among the known fields and is not empty."""
        if known.issuperset(fields):
            return
        for name in fields.keys() - known:
            if fields[name] not in (None, "", [], {}):
                self.count("dropped", f"{where}.{name}")

    def metadata(self) -> dict[str, Any]:
        """Return the counts as a part of a case's metadata; empty when there are none."""
        return {FIDELITY: dict(sorted(self._counts.items()))} if self._counts else {}


def fidelity_counts(case: Case) -> Counter[str]:
    """Count the turns, tool calls, tool results and chunks of a case, and add its fidelity counts."""
    turns = case.transcript.turns
    counts = Counter(
        turns=len(turns),
        tool_calls=sum(len(turn.tool_calls) for turn in turns),
        tool_results=sum(turn.tool_result is not None for turn in turns),
        chunks=sum(len(turn.chunks or ()) for turn in turns) + len(case.transcript.chunks or ()),
    )
    counts.update(_noted_counts(case))
    return counts


def _noted_counts(case: Case) -> dict[str, int]:
    """The counts that the reader of a case noted in its metadata."""
    noted = case.metadata.get(FIDELITY)  # from a native file it may be anything
    if not isinstance(noted, dict):
        return {}
    return {str(name): n for name, n in noted.items() if isinstance(n, int)}


def unchecked_truth(case: Case) -> str:
    """What of the ground truth of a case no judge can check, such as `environment assertion 2`."""
    return _counted_kinds("unchecked", _noted_counts(case))


def fidelity_lines(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return one line a fate, such as `marked: image 2 (a note in the text stands for it)`."""
    return tuple(
        f"{fate}: {kinds} ({meaning})"
        for fate, meaning in _FATES.items()
        if (kinds := _counted_kinds(fate, counts))
    )


def _counted_kinds(fate: str, counts: Mapping[str, int]) -> str:
    return ", ".join(
        f"{name.removeprefix(fate).strip()} {count}"
        for name, count in sorted(counts.items())
        if name.startswith(f"{fate} ")
    )


def oddities(case: Case) -> set[str]:
    """Return the codes of what is odd about a case, such as `time_order`."""
    transcript = case.transcript
    turns, calls = transcript.turns, [call for _, call in transcript.calls()]
    starts = (transcript.started_at, *(turn.started_at for turn in turns))
    known_starts = [start for start in starts if start is not None]
    runs_backwards = any(later < earlier for earlier, later in pairwise(known_starts))
    # An agent that runs the code in the texts of others answers no call.
    results = [
        turn.tool_result
        for turn in turns
        if turn.tool_result is not None and (turn.tool_result.call_id or turn.agent is None)
    ]
    call_ids = {call.id for call in calls}
    result_ids = {result.call_id for result in results}
    # Ids pair results with calls. Where some have no id, only the numbers can be compared.
    paired = None not in call_ids | result_ids
    unanswered = call_ids - result_ids if paired else len(results) < len(calls)
    unasked = result_ids - call_ids if paired else len(results) > len(calls)
    codes = {
        "time_order": case.metadata.get(DROPPED_TIMES) or runs_backwards,
        "no_agent_turn": not any(turn.role == "assistant" for turn in turns),
        "empty_passage": not all(chunk.content.strip() for chunk in transcript.retrieved_chunks()),
        "malformed_arguments": any(call.raw is not None for call in calls),
        "call_without_result": unanswered,
        "result_without_call": unasked,
    }
    return {code for code, applies in codes.items() if applies}


def warning_lines(counts: Mapping[str, int]) -> tuple[str, ...]:
    """Return one warning line for each code of an oddity that has a count."""
    return tuple(
        f"{code}: {counts[code]} {'record' if counts[code] == 1 else 'records'} {words}"
        for code, words in _ODDITY_TEXTS.items()
        if counts.get(code)
    )
