"""The fixtures that libraries of others wrote, and how tests read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from assizes.judge.case import Case, Turn
from assizes.judge.formats import FORMATS, detect_format

FIXTURES = Path(__file__).parent / "fixtures"


def cases_in(document: bytes) -> list[Case]:
    """All cases of a file, its format found by how it begins."""
    found = detect_format(document[: 1 << 16])
    return [found.case(record) for record in found.records(document)]


def fixture(name: str) -> list[Case]:
    """All cases of a fixture."""
    return cases_in((FIXTURES / name).read_bytes())


def lines(*values: Any) -> bytes:
    """Values as lines of JSON."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def joined(name: str, *values: Any) -> Case:
    """The one case that values make in a format."""
    one = FORMATS[name]
    (record,) = one.records(lines(*values))
    return one.case(record)


def told(case: Case) -> list[str]:
    """The turns in short: who, and what was said, called or answered."""
    return [_short(turn) for turn in case.transcript.turns]


def _short(turn: Turn) -> str:
    calls = [f"{call.name}({json.dumps(call.arguments)})" for call in turn.tool_calls]
    answer = [turn.tool_result.content] if turn.tool_result else []
    return " ".join([f"{turn.role}:", *([turn.text] if turn.text else []), *calls, *answer])
