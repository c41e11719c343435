"""Anthropic messages: `system` at the top, content in blocks, results inside user messages.

    {"system": "You are Fern.", "messages": [{"role": "user", "content": "Where is order 77?"}, ...]}

A tool result becomes a turn of its own, although the API puts it into a message of the user. The
model's thinking goes into the metadata, which no judge sees. The answer to the last message may
stand beside the messages, as `response` or as the fields of a response: `content`, `stop_reason`,
`usage`.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

from assizes.judge.case import Case, ToolResult, Turn
from assizes.judge.formats.shared import json_shapes as shapes
from assizes.judge.formats.shared import messages as chat
from assizes.judge.formats.shared.anthropic_blocks import (
    add_anthropic_message,
    add_anthropic_messages,
    has_blocks,
)
from assizes.judge.formats.shared.checked_parts import conversation_case
from assizes.judge.formats.shared.containers import Layout
from assizes.judge.formats.shared.parsing import REASONING

_RECORD_FIELDS: Final = {
    *shapes.CONVERSATION_IDS,
    *("system", "messages", "tools", "metadata", "usage", "model", "agent", "agent_version"),
    *("created_at", "timestamp", "response", "content", "role", "type", "stop_reason"),
    *("stop_sequence", "anthropic_version"),
}
_RESPONSE_FIELDS: Final = {"id", "model", "content", "role", "type", "usage", "stop_reason"}


def _fits(value: dict[str, Any]) -> bool:
    """Whether an object has messages beside a trait that only this API has."""
    if not isinstance(value.get("messages"), list):
        return False
    if not value.keys().isdisjoint({"system", "stop_reason", "anthropic_version"}):
        return True
    tools = value.get("tools")
    return any(map(has_blocks, value["messages"])) or (  # else a block or a tool of its own
        isinstance(tools, list)
        and any(isinstance(tool, dict) and "input_schema" in tool for tool in tools)
    )


def _read(value: dict[str, Any]) -> Case:
    builder = chat.ConversationBuilder()
    builder.tally.count_unread(value, _RECORD_FIELDS, "record")
    builder.add_system(builder.text_of(value.get("system")))
    add_anthropic_messages(shapes.messages_of(value), builder)
    answer = _add_response(value, builder)
    metadata = shapes.mapping(value.get("metadata"), "metadata")
    kept_metadata = metadata.copy()
    # The API's `metadata.user_id` is the cluster of the case.
    cluster = shapes.name_of(kept_metadata.pop("user_id", None))
    if stop_reason := shapes.name_of(answer.get("stop_reason")):
        kept_metadata["stop_reason"] = stop_reason
    started = value.get("created_at") or value.get("timestamp")
    return conversation_case(
        case_id=shapes.conversation_id(value, metadata),
        turns=chat.with_last_answer(builder.turns, chat.usage_of(answer.get("usage"))),
        system=builder.system_text(),
        tools=chat.tools_of(shapes.sequence(value.get("tools"), "tools")),
        started_at=shapes.moment(started) if started else None,
        agent=shapes.name_of(value.get("agent")) or shapes.first_identifier(answer, ("model",)),
        agent_version=shapes.name_of(value.get("agent_version")),
        cluster=cluster,
        metadata=kept_metadata | builder.metadata(),
    )


def _add_response(value: dict[str, Any], builder: chat.ConversationBuilder) -> dict[str, Any]:
    """Add the response of a record; return its fields, over those of the record."""
    stored = value.get("response")
    response: dict[str, Any] = {}
    if stored is not None:
        response = shapes.mapping(shapes.decode_if_json(stored), "response")
    if response:
        builder.tally.count_unread(response, _RESPONSE_FIELDS, "response")
    else:  # the fields of the response stand in the record itself
        response = value
    if response.get("content") is not None:
        message = {"role": "assistant", "content": response["content"]}
        add_anthropic_message(message, builder, "response")
    if response is value:
        return value
    return {**value, **response}  # either may hold model, usage and stop reason


ANTHROPIC: Final = Layout("anthropic", frozenset({"messages"}), _fits, _read)
"""The layout of records of the Anthropic messages API."""


def anthropic_record(case: Case) -> dict[str, Any]:
    """Return a case as a record of Anthropic messages."""
    transcript = case.transcript
    person = {"user_id": case.cluster} if case.cluster else {}
    return chat.without_empty_fields(
        conversation_id=case.case_id,
        system=transcript.system,
        messages=list(_messages(case)),
        tools=[
            {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            for tool in transcript.tools
        ],
        created_at=transcript.started_at and transcript.started_at.isoformat(),
        usage=chat.last_usage(case, "input_tokens", "output_tokens"),
        stop_reason=case.metadata.get("stop_reason"),
        agent=case.agent,
        agent_version=case.agent_version,
        metadata={**chat.own_metadata(case), **person},
    )


def _messages(case: Case) -> Iterator[dict[str, Any]]:
    """Yield the messages; tool results in a row share one user message, as the API requires."""
    thoughts = case.metadata.get(REASONING, {})
    numbered = enumerate(case.transcript.turns)
    for role, turns in groupby(numbered, key=lambda entry: entry[1].role):
        if role == "tool":
            yield {"role": "user", "content": [_result_block(turn) for _, turn in turns]}
            continue
        for place, turn in turns:
            yield {"role": role, "content": _blocks(turn, thoughts.get(str(place)))}


def _result_block(turn: Turn) -> dict[str, Any]:
    answer = turn.tool_result or ToolResult(content="")
    return {
        "type": "tool_result",
        "tool_use_id": answer.call_id or "",
        "content": answer.content,
        "is_error": answer.is_error,
    }


def _blocks(turn: Turn, thought: str | None) -> list[dict[str, Any]]:
    # The provider's signature of the thinking is not kept; a block must have the field.
    thinking = [{"type": "thinking", "thinking": thought, "signature": ""}] if thought else []
    texts = [] if turn.text is None else [{"type": "text", "text": turn.text}]
    calls = [
        {"type": "tool_use", "id": call.id or "", "name": call.name, "input": call.arguments}
        for call in turn.tool_calls
    ]
    return [*thinking, *texts, *calls]
