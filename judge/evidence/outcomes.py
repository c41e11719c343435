"""Results of tools and of code that was run: which failed, which brought nothing, and whose they are.

Every pattern runs in linear time, because the texts are untrusted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from assizes.judge.case import Transcript
from assizes.judge.evidence.outages import is_outage
from assizes.judge.evidence.steps import json_value

_HEAD_CHARS: Final = 200
"""Characters at the beginning and at the end of a result in which its exit code is looked for."""
_READ_CHARS: Final = 20_000
"""Characters of the longest result that is read as JSON."""

_EXIT_CODE: Final = re.compile(
    r"\bexit(?:ed with)? ?(?:code|status)\W{0,3}(-?\d{1,9})\b", re.IGNORECASE
)
_EMPTY: Final = re.compile(
    r"\W*(?:(?:found )?no (?:\w{1,20} ){0,3}(?:results?|match(?:es)?|documents?|passages?|records?|data)"
    r"|nothing (?:was )?found|0 results|none found)\b",
    re.IGNORECASE,
)
_BARRED: Final = re.compile(
    r"\W*(?:error\W{1,3})?(?:access (?:is )?denied|403\b|forbidden|captcha|log ?in required)",
    re.IGNORECASE,
)
_LISTS: Final = ("results", "documents", "items", "matches", "hits", "data", "rows", "records")


@dataclass(frozen=True, slots=True)
class Outcome:
    """A result of a tool or of code, and the turn that brought it about."""

    turn: int  # of the result
    act: int  # of the agent's turn; that of the result where no agent spoke before
    tool: str
    content: str
    has_failed: bool
    is_out: bool  # an outage or a time-out, by no fault of the agent
    is_code: bool  # code that was run, with its exit code


def outcomes_of(transcript: Transcript) -> Iterator[Outcome]:
    """Yield the results of tools and of code in order, each with the turn that brought it about."""
    names = {call.id: call.name for _, call in transcript.calls() if call.id}
    places = {call.id: index for index, call in transcript.calls() if call.id}
    last_agent: int | None = None
    for index, turn in enumerate(transcript.turns):
        if turn.role == "assistant":
            last_agent = index
        result = turn.tool_result
        if result is None:
            continue
        content = result.content
        codes = _EXIT_CODE.search(content[:_HEAD_CHARS]) or _EXIT_CODE.search(
            content[-_HEAD_CHARS:]
        )
        is_out = codes is None and is_outage(content, is_error=result.is_error)
        failed = result.is_error or is_out or (codes is not None and int(codes[1]) != 0)
        act = places.get(result.call_id or "", last_agent)
        yield Outcome(
            turn=index,
            act=index if act is None or act > index else act,
            tool=names.get(result.call_id or "") or result.name or "tool",
            content=content,
            has_failed=failed,
            is_out=is_out,
            is_code=codes is not None,
        )


def is_empty(outcome: Outcome) -> bool:
    """Whether a result says that nothing was found, or that access was barred."""
    if _BARRED.match(outcome.content[:_HEAD_CHARS]):
        return True
    if outcome.has_failed:
        return False
    if _EMPTY.match(outcome.content[:_HEAD_CHARS]):
        return True
    value: Any = json_value(outcome.content[:_READ_CHARS])
    if isinstance(value, dict):
        value = next((value[name] for name in _LISTS if name in value), None)
    return isinstance(value, list) and not value
