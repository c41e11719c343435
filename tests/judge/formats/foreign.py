"""Fixtures that the libraries of other projects wrote, and helpers that read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from assizes.judge.case import Case, Turn
from assizes.judge.formats import FORMATS, detect_format

FIXTURES = Path(__file__).parent / "fixtures"


def cases_in(document: bytes) -> list[Case]:
    """Return all cases of a file, whose format is detected."""
    format_ = detect_format(document[: 1 << 16])
    return [format_.case(record) for record in format_.records(document)]


def fixture(name: str) -> list[Case]:
    """Return all cases of a fixture."""
    return cases_in((FIXTURES / name).read_bytes())


def lines(*values: Any) -> bytes:
    """Return values as lines of JSON."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def joined(name: str, *values: Any) -> Case:
    """Return the only case of the values, read in one format."""
    format_ = FORMATS[name]
    (record,) = format_.records(lines(*values))
    return format_.case(record)


def turn_lines(case: Case) -> list[str]:
    """Return one line for each turn: its role, then its text, calls and result."""
    return [_short(turn) for turn in case.transcript.turns]


def _short(turn: Turn) -> str:
    calls = [f"{call.name}({json.dumps(call.arguments)})" for call in turn.tool_calls]
    answer = [turn.tool_result.content] if turn.tool_result else []
    return " ".join([f"{turn.role}:", *([turn.text] if turn.text else []), *calls, *answer])
