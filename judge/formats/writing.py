"""Cases written as records of other formats, and the fields that are lost by that."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple

from assizes.judge.case import Case, ToolCall, ToolSpec, Turn
from assizes.judge.formats.readers.anthropic_messages import AnthropicMessages
from assizes.judge.formats.readers.openai_chat import OpenAIChat
from assizes.judge.formats.shared.containers import Layout
from assizes.judge.formats.shared.fidelity import FIDELITY, HUMAN_LABELS, REASONING

_OWN_METADATA: Final = (FIDELITY, REASONING, HUMAN_LABELS, "stop_reason")
"""Keys of the metadata that readers add; a record has another place for them, or none."""


def openai_record(case: Case) -> dict[str, Any]:
    """Return a case as a chat-completions record."""
    transcript, thoughts = case.transcript, case.metadata.get(REASONING, {})
    system = [{"role": "system", "content": transcript.system}] if transcript.system else []
    messages = [
        _openai_message(turn, thoughts.get(str(place)))
        for place, turn in enumerate(transcript.turns)
    ]
    return _without_empty_fields(
        conversation_id=case.case_id,
        messages=[*system, *messages],
        tools=[_openai_tool(tool) for tool in transcript.tools],
        created_at=transcript.started_at and transcript.started_at.isoformat(),
        usage=_usage(case, "prompt_tokens", "completion_tokens"),
        agent=case.agent,
        agent_version=case.agent_version,
        user=case.cluster,
        metadata=_metadata(case),
    )


def _openai_message(turn: Turn, thought: str | None) -> dict[str, Any]:
    if turn.role == "tool":
        answer = turn.tool_result
        tool_name = answer.name if answer else None
        return {
            "role": "tool",
            "tool_call_id": (answer.call_id if answer else None) or "",
            "content": answer.content if answer else "",
            **({"name": tool_name} if tool_name else {}),
        }
    calls = [
        {
            "id": call.id or "",
            "type": "function",
            "function": {"name": call.name, "arguments": _arguments(call)},
        }
        for call in turn.tool_calls
    ]
    extra = _without_empty_fields(tool_calls=calls, reasoning_content=thought)
    return {"role": turn.role, "content": turn.text, **extra}


def _arguments(call: ToolCall) -> str:
    return json.dumps(call.arguments, ensure_ascii=False) if call.raw is None else call.raw


def _openai_tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


def anthropic_record(case: Case) -> dict[str, Any]:
    """Return a case as a record of Anthropic messages."""
    transcript = case.transcript
    person = {"user_id": case.cluster} if case.cluster else {}
    return _without_empty_fields(
        conversation_id=case.case_id,
        system=transcript.system,
        messages=list(_anthropic_messages(case)),
        tools=[
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in transcript.tools
        ],
        created_at=transcript.started_at and transcript.started_at.isoformat(),
        usage=_usage(case, "input_tokens", "output_tokens"),
        stop_reason=case.metadata.get("stop_reason"),
        agent=case.agent,
        agent_version=case.agent_version,
        metadata={**_metadata(case), **person},
    )


def _anthropic_messages(case: Case) -> Iterator[dict[str, Any]]:
    """Yield the messages; tool results in a row share one user message, as the API requires."""
    thoughts = case.metadata.get(REASONING, {})
    numbered = enumerate(case.transcript.turns)
    for role, turns in groupby(numbered, key=lambda entry: entry[1].role):
        if role == "tool":
            yield {"role": "user", "content": [_result_block(turn) for _, turn in turns]}
            continue
        for place, turn in turns:
            blocks = _blocks(turn, thoughts.get(str(place)))
            yield {"role": role, "content": blocks}


def _result_block(turn: Turn) -> dict[str, Any]:
    answer = turn.tool_result
    return {
        "type": "tool_result",
        "tool_use_id": (answer.call_id if answer else None) or "",
        "content": answer.content if answer else "",
        "is_error": bool(answer and answer.is_error),
    }


def _blocks(turn: Turn, thought: str | None) -> list[dict[str, Any]]:
    thinking = [{"type": "thinking", "thinking": thought, "signature": ""}] if thought else []
    texts = [] if turn.text is None else [{"type": "text", "text": turn.text}]
    calls = [
        {"type": "tool_use", "id": call.id or "", "name": call.name, "input": call.arguments}
        for call in turn.tool_calls
    ]
    return [*thinking, *texts, *calls]


def _usage(case: Case, input_key: str, output_key: str) -> dict[str, int] | None:
    """Return the tokens of the agent's last turn: a record has a place for one usage only."""
    last = next(
        (turn for turn in reversed(case.transcript.turns) if turn.role == "assistant"), None
    )
    if last is None or last.usage is None:
        return None
    return {input_key: last.usage.input_tokens, output_key: last.usage.output_tokens}


def _metadata(case: Case) -> dict[str, Any]:
    return {name: value for name, value in case.metadata.items() if name not in _OWN_METADATA}


def _without_empty_fields(**fields: Any) -> dict[str, Any]:
    items = fields.items()
    return {
        name: value
        for name, value in items
        if name == "messages" or value not in (None, [], {}, "")
    }


class Writer(NamedTuple):
    """A format that cases can be written in.

    Attributes:
        record: the function that writes a case as a record.
        layout: the layout that reads such a record back.
    """

    record: Callable[[Case], dict[str, Any]]
    layout: Layout


WRITERS: Final[dict[str, Writer]] = {
    "openai_chat": Writer(openai_record, OpenAIChat()),
    "anthropic": Writer(anthropic_record, AnthropicMessages()),
}
"""The formats that cases can be written in, by name."""


def lost_fields(case: Case, record: dict[str, Any], layout: Layout) -> Counter[str]:
    """Count the fields of a case that are lost when its record is read back.

    Returns:
        The number of lost values by path; a path has no list places: `transcript.turns.chunks`.
    """
    back = layout.read(record)
    skipped = {"metadata": {FIDELITY}}
    before = _leaves(case.model_dump(mode="json", exclude=skipped, exclude_defaults=True))
    after = _leaves(back.model_dump(mode="json", exclude=skipped, exclude_defaults=True))
    missing = dict(before)
    for place, value in after:
        if place in missing and missing[place] == value:
            del missing[place]
    return Counter(_path(place) for place in missing)


def _leaves(value: Any, place: tuple[str | int, ...] = ()) -> list[tuple[Any, Any]]:
    if isinstance(value, dict) and value and place[-1:] not in (("arguments",), ("parameters",)):
        return [leaf for name, item in value.items() for leaf in _leaves(item, (*place, name))]
    if isinstance(value, list) and value:
        return [leaf for at, item in enumerate(value) for leaf in _leaves(item, (*place, at))]
    return [] if value == {} and not place[1:] else [(place, value)]


def _path(place: tuple[str | int, ...]) -> str:
    return ".".join(step for step in place if isinstance(step, str))
