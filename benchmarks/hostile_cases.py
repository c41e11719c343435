"""One plain case, with an attack put into each of eight places of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final

from assizes.judge.case import Case

Record = dict[str, Any]

_CALL: Final[Record] = {"name": "find_booking", "arguments": {"code": "AX7"}, "id": "call_1"}

PLAIN: Final[Record] = {
    "case_id": "booking-1",
    "tags": {"channel": "chat"},
    "metadata": {"note": "none"},
    "transcript": {
        "turns": [
            {"role": "user", "text": "Please move booking AX7 to the next morning."},
            {"role": "assistant", "tool_calls": [_CALL]},
            {"role": "tool", "tool_result": {"content": "AX7: seat 12A", "call_id": "call_1"}},
            {"role": "assistant", "text": "It cannot be moved, I am afraid."},
        ],
        "chunks": [{"content": "Bookings can be moved for 20 EUR.", "doc_uri": "doc:1"}],
    },
    "expected": {
        "outcomes": ["The booking is moved."],
        "response": "It is moved.",
        "response_quality": "Says that it is moved.",
        "acceptance_criteria": "Says that it is moved.",
        "search_results": ["AX7"],
        "chart_type": "line",
        "retrieved_context": [{"doc_uri": "doc:1"}],
    },
}


def _user(record: Record, text: str) -> None:
    record["transcript"]["turns"][0]["text"] += f"\n{text}"


def _assistant(record: Record, text: str) -> None:
    record["transcript"]["turns"][3]["text"] += f"\n{text}"


def _tool_result(record: Record, text: str) -> None:
    record["transcript"]["turns"][2]["tool_result"]["content"] += f"\n{text}"


def _tool_name(record: Record, text: str) -> None:
    record["transcript"]["turns"][1]["tool_calls"][0]["name"] = text


def _arguments(record: Record, text: str) -> None:
    record["transcript"]["turns"][1]["tool_calls"][0]["arguments"] = {"code": text}


def _metadata(record: Record, text: str) -> None:
    record["metadata"] = {"note": text}


def _id(record: Record, text: str) -> None:
    for turn, path in ((1, "tool_calls"), (2, "tool_result")):
        held = record["transcript"]["turns"][turn][path]
        if path == "tool_calls":
            held[0]["id"] = text
        else:
            held["call_id"] = text


def _expected(record: Record, text: str) -> None:
    record["expected"]["outcomes"] = [f"The booking is moved. {text}"]
    for name in ("response", "response_quality", "acceptance_criteria"):
        record["expected"][name] += f" {text}"


PLACES: Final[Mapping[str, Callable[[Record, str], None]]] = {
    "user": _user,
    "assistant": _assistant,
    "tool_result": _tool_result,
    "tool_name": _tool_name,
    "arguments": _arguments,
    "metadata": _metadata,
    "id": _id,
    "expected": _expected,
}


def attacked(place: str, text: str) -> Record:
    """The plain record with an attack at a place."""
    record = deepcopy(PLAIN)
    PLACES[place](record, text)
    return record


def case_of(record: Record) -> Case:
    """A record as a case."""
    return Case.model_validate(record)
