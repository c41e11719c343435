"""Parts of cases made of values that a reader has checked, without a second validation.

Readers know the types of what they put together: texts, names and ids are strings or None, roles are
among the three, the keys of objects are strings. Pydantic would look at each of them once more, for
most of the time of reading. What is made here equals what the models make of the same fields, in
every field and in its JSON; tests hold this for all that readers make. Bounds that a reader does not
check are left to the models.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from assizes.judge.case import (
    Case,
    Expected,
    Role,
    ToolCall,
    ToolResult,
    ToolSpec,
    Transcript,
    Turn,
)

_Model = TypeVar("_Model", bound=BaseModel)

# What an instance of a model consists of, set without the guard of frozen models.
_SET_VALUES: Final = BaseModel.__dict__["__dict__"].__set__
_SET_GIVEN: Final = BaseModel.__dict__["__pydantic_fields_set__"].__set__
_SET_EXTRA: Final = BaseModel.__dict__["__pydantic_extra__"].__set__
_SET_PRIVATE: Final = BaseModel.__dict__["__pydantic_private__"].__set__
_NEW: Final = object.__new__

# All fields in their order, with their defaults.
_TURN: Final = dict(Turn(role="tool"))
_CALL: Final = dict(ToolCall(name=""))
_RESULT: Final = dict(ToolResult())
_TOOL: Final = dict(ToolSpec(name=""))
_TRANSCRIPT: Final = dict(Transcript())
_EXPECTED: Final = dict(Expected())
_CASE: Final = dict(Case(case_id="c", transcript=Transcript()))

_MAX_CASE_ID: Final = 512
_YEARS: Final = range(2, 9999)
"""Years whose moments are no year before 1 or after 9999 in any time zone."""


def message_turn(
    role: Role, text: str | None, calls: tuple[ToolCall, ...] = (), agent: str | None = None
) -> Turn:
    """Return the turn of a message of the user or the agent."""
    values = _TURN.copy()
    values["role"] = role
    values["text"] = text
    values["tool_calls"] = calls
    values["agent"] = agent
    turn = _NEW(Turn)
    _SET_VALUES(turn, values)
    _SET_GIVEN(turn, {"role", "text", "tool_calls", "agent"})
    _SET_EXTRA(turn, None)
    _SET_PRIVATE(turn, None)
    return turn


def result_turn(content: str, call_id: str | None, name: str | None, *, is_error: bool) -> Turn:
    """Return the turn of a tool's answer."""
    values = _RESULT.copy()
    values["content"] = content
    values["call_id"] = call_id
    values["name"] = name
    values["is_error"] = is_error
    result = _NEW(ToolResult)
    _SET_VALUES(result, values)
    _SET_GIVEN(result, {"content", "call_id", "name", "is_error"})
    _SET_EXTRA(result, None)
    _SET_PRIVATE(result, None)
    values = _TURN.copy()  # the role of these defaults is that of a tool
    values["tool_result"] = result
    turn = _NEW(Turn)
    _SET_VALUES(turn, values)
    _SET_GIVEN(turn, {"role", "tool_result"})
    _SET_EXTRA(turn, None)
    _SET_PRIVATE(turn, None)
    return turn


def named_call(name: str, arguments: dict[str, Any], call_id: str | None) -> ToolCall:
    """Return a tool call whose arguments are a JSON object."""
    values = _CALL.copy()
    values["name"] = name
    values["arguments"] = arguments
    values["id"] = call_id
    call = _NEW(ToolCall)
    _SET_VALUES(call, values)
    _SET_GIVEN(call, {"name", "arguments", "id"})
    _SET_EXTRA(call, None)
    _SET_PRIVATE(call, None)
    return call


def declared_tool(name: str, description: str, parameters: dict[str, Any]) -> ToolSpec:
    """Return a tool as it was declared to the agent, its parameters as a JSON object."""
    return _instance(
        ToolSpec, _TOOL, {"name": name, "description": description, "parameters": parameters}
    )


def conversation_case(
    turns: tuple[Turn, ...],
    system: str | None,
    tools: tuple[ToolSpec, ...],
    started_at: datetime | None,
    **fields: Any,
) -> Case:
    """Return a case of a conversation; `fields` are those of the case beside its transcript.

    Raises:
        ValidationError: as the models, for an id or a time over their bounds.
    """
    setup: dict[str, Any] = {"turns": turns, "system": system, "tools": tools}
    setup["started_at"] = started_at
    if started_at is None or started_at.year in _YEARS:
        transcript = _instance(Transcript, _TRANSCRIPT, setup)
    else:
        transcript = Transcript(**setup)
    fields["transcript"] = transcript
    if not 0 < len(fields["case_id"]) <= _MAX_CASE_ID:
        return Case(**fields)
    # Each case has objects of its own in the place of defaults that can be changed.
    values = _EXPECTED.copy()
    values["additional_input"], values["rubrics"] = {}, {}
    expected = _NEW(Expected)
    _SET_VALUES(expected, values)
    _SET_GIVEN(expected, set())
    _SET_EXTRA(expected, None)
    _SET_PRIVATE(expected, None)
    values = _CASE.copy()
    values["expected"], values["tags"], values["labels"] = expected, {}, {}
    values.update(fields)
    case = _NEW(Case)
    _SET_VALUES(case, values)
    _SET_GIVEN(case, set(fields))
    _SET_EXTRA(case, None)
    _SET_PRIVATE(case, None)
    return case


def _instance(model: type[_Model], defaults: dict[str, Any], fields: dict[str, Any]) -> _Model:
    made = _NEW(model)
    _SET_VALUES(made, defaults | fields)
    _SET_GIVEN(made, set(fields))
    _SET_EXTRA(made, None)
    _SET_PRIVATE(made, None)
    return made
