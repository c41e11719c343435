"""Small cases for tests: a conversation reads as its turns, one call each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assizes.judge.case import Case, Expected, ToolCall, ToolResult, Transcript, Turn


def case(*turns: Turn, case_id: str = "c1", expected: Expected | None = None, **rest: Any) -> Case:
    """A case of these turns; `rest` goes to the transcript where it has such a field, else to the
    case."""
    of_transcript = {name: rest.pop(name) for name in list(rest) if name in Transcript.model_fields}
    return Case(
        case_id=case_id,
        transcript=Transcript(turns=turns, **of_transcript),
        expected=expected or Expected(),
        **rest,
    )


def user(text: str | None) -> Turn:
    """What the user said."""
    return Turn(role="user", text=text)


def agent(
    text: str | None = None, *, calls: Sequence[ToolCall] = (), latency_ms: float | None = None
) -> Turn:
    """What the agent said or called."""
    return Turn(role="assistant", text=text, tool_calls=tuple(calls), latency_ms=latency_ms)


def call(name: str, id: str | None = "call_1", **arguments: Any) -> ToolCall:
    """One call of a tool."""
    return ToolCall(name=name, arguments=arguments, id=id)


def result(
    content: str,
    *,
    call_id: str | None = "call_1",
    name: str | None = None,
    is_error: bool = False,
) -> Turn:
    """What a tool answered."""
    answer = ToolResult(content=content, call_id=call_id, name=name, is_error=is_error)
    return Turn(role="tool", tool_result=answer)
