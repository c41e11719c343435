"""Who&When: failed runs of several agents, with the agent and the step that people blamed.

The dataset has two layouts. In the algorithm-generated part a message has a `name`; in the
hand-crafted part its `role` names the agent, as in `Orchestrator (-> WebSurfer)`. The index of a
turn is the index of its message, to which the label `mistake_step` refers. The labels go into the
metadata, which no judge sees.
"""

from __future__ import annotations

import re
from typing import Any, Final

from assizes.judge.case import Case, Expected, ToolResult, Transcript, Turn
from assizes.judge.errors import DataError
from assizes.judge.formats.shared import json_shapes as shapes
from assizes.judge.formats.shared.containers import Layout
from assizes.judge.formats.shared.parsing import FidelityCounter

_LABELS: Final = ("mistake_agent", "mistake_step", "mistake_reason")
_FACTS: Final = ("level", "question", "file")
_IDS: Final = ("question_ID", "question_id", "id")
_TRUTHS: Final = ("ground_truth", "groundtruth")
_CORRECT: Final = ("is_correct", "is_corrected")  # the second is how the hand-crafted part has it
_RECORD_FIELDS: Final = {*_LABELS, *_FACTS, *_IDS, *_TRUTHS, *_CORRECT, "history", "system_prompt"}
_MESSAGE_FIELDS: Final = {"content", "role", "name"}

_USERS: Final = frozenset({"human", "user", "user_proxy"})
_CHAT_ROLES: Final = frozenset({"user", "assistant"})  # say nothing beside a `name`
_EXECUTORS: Final = frozenset({"computerterminal", "terminal", "codeexecutor"})
"""Names of agents that only run code, without the signs between words: their turns are results."""

_NOTE: Final = re.compile(r"\s\([^()]*\)\Z")  # `(thought)`, `(-> WebSurfer)` behind a name
_EXIT_CODE: Final = re.compile(r"\s{0,9}exit ?code:\s{0,9}(-?\d{1,9})\b", re.IGNORECASE)


def _fits(value: dict[str, Any]) -> bool:
    history = value.get("history")
    if not isinstance(history, list):
        return False
    # The value may be cut off in its first message: then its labels are not known yet.
    first = history[0] if history else {}
    return isinstance(first, dict) and first.keys() <= _MESSAGE_FIELDS


def _read(value: dict[str, Any]) -> Case:
    tally = FidelityCounter()
    tally.count_unread(value, _RECORD_FIELDS, "record")
    turns = tuple(
        _turn(message, path, tally)
        for path, message in shapes.numbered_objects(value.get("history"), "history")
    )
    if not turns:
        raise DataError("schema", "history: no messages")
    truth = next((shapes.as_text(value[name]) for name in _TRUTHS if name in value), "").strip()
    correct = next((str(value[name]).strip().casefold() for name in _CORRECT if name in value), "")
    is_known = correct in ("true", "false")
    return Case(
        case_id=shapes.first_identifier(value, _IDS) or shapes.content_id(value),
        transcript=Transcript(turns=turns, system=_system(value.get("system_prompt"))),
        expected=Expected(response=truth or None),
        labels={"reward": float(correct == "true")} if is_known else {},
        metadata={
            **{name: value[name] for name in (*_FACTS, *_LABELS) if value.get(name) is not None},
            **tally.metadata(),
        },
    )


def _turn(message: dict[str, Any], path: str, tally: FidelityCounter) -> Turn:
    tally.count_unread(message, _MESSAGE_FIELDS, "message")
    role, name = shapes.name_of(message.get("role")), shapes.name_of(message.get("name"))
    if role is None and name is None:
        raise DataError("schema", f"{path}.role: missing")
    if name is None and role is not None:
        name = _NOTE.sub("", role)
        tally.count("dropped", "note behind the name of an agent", int(name != role))
    text = shapes.as_text(message.get("content"))
    if name is None or (name == role and role in _CHAT_ROLES):
        return Turn.model_validate({"role": role, "text": text})
    if name.casefold() in _USERS:
        return Turn(role="user", text=text)
    exit_code = _EXIT_CODE.match(text)
    if exit_code or re.sub(r"[\W_]", "", name).casefold() in _EXECUTORS:
        is_error = exit_code is not None and int(exit_code[1]) != 0
        result = ToolResult(content=text, name=name, is_error=is_error)
        return Turn(role="tool", tool_result=result, agent=name)
    return Turn(role="assistant", text=text, agent=name)


def _system(prompts: Any) -> str | None:
    """The system prompts of all agents as one text, each under the name of its agent."""
    if isinstance(prompts, str) or prompts is None:
        return prompts or None
    by_agent = shapes.mapping(prompts, "system_prompt")
    texts = [f"# {name}\n{shapes.as_text(text)}" for name, text in by_agent.items() if text]
    return "\n\n".join(texts) or None


WHO_AND_WHEN: Final = Layout("who_and_when", frozenset({"history"}), _fits, _read)
"""The layout of Who&When, both parts."""
