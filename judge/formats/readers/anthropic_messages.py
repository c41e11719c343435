"""Anthropic messages: `system` at the top, content in blocks, results inside user messages.

    {"system": "You are Fern.", "messages": [{"role": "user", "content": "Where is order 77?"}, ...]}

A result becomes a turn of its own and is none of the user's. The model's thinking is kept in the
metadata, where no judge sees it. The answer to the last message may stand beside, as `response`, or
as the fields of a response: `content`, `stop_reason`, `usage`.
"""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import Case, ToolCall, Transcript, Turn
from assizes.judge.errors import DataError
from assizes.judge.formats.readers.openai_chat import IDS
from assizes.judge.formats.shared.containers import Layout
from assizes.judge.formats.shared.json_shapes import (
    content_id,
    decode_if_json,
    first_identifier,
    mapping,
    messages_of,
    moment,
    name_of,
    sequence,
)
from assizes.judge.formats.shared.messages import (
    ConversationBuilder,
    call_of,
    tools_of,
    usage_of,
    with_last_answer,
)

_CALLS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")
_BLOCKS: Final = {*_CALLS, "tool_result", "thinking", "redacted_thinking"}
_RECORD: Final = {
    *IDS,
    *("system", "messages", "tools", "metadata", "usage", "model", "agent", "agent_version"),
    *("created_at", "timestamp", "response", "content", "role", "type", "stop_reason"),
    *("stop_sequence", "anthropic_version"),
}
_RESPONSE: Final = {"id", "model", "content", "role", "type", "usage", "stop_reason"}


class AnthropicMessages(Layout):
    """Messages of the Anthropic API."""

    name = "anthropic"

    def fits(self, value: dict[str, Any]) -> bool:
        """Messages beside a system prompt or a stop reason, or with blocks only this API has."""
        if not isinstance(value.get("messages"), list):
            return False
        if not value.keys().isdisjoint({"system", "stop_reason", "anthropic_version"}):
            return True
        return any(map(has_blocks, value["messages"])) or _declares(value.get("tools"))

    def read(self, value: Any) -> Case:
        """The case of one record.

        Raises:
            DataError: `schema`.
        """
        builder = ConversationBuilder()
        builder.tally.count_unread(value, _RECORD, "record")
        builder.add_system(builder.text_of(value.get("system")))
        for place, message in enumerate(messages_of(value)):
            add_anthropic(mapping(message, f"messages.{place}"), builder, f"messages.{place}")
        answer = _answer(value, builder)
        metadata = mapping(value.get("metadata"), "metadata")
        return Case(
            case_id=first_identifier(value, IDS)
            or first_identifier(metadata, IDS)
            or content_id(value),
            transcript=Transcript(
                turns=with_last_answer(builder.turns, usage_of(answer.get("usage"))),
                system="\n\n".join(builder.systems) or None,
                tools=tools_of(sequence(value.get("tools"), "tools")),
                started_at=moment(value.get("created_at") or value.get("timestamp")),
            ),
            agent=name_of(value.get("agent")) or first_identifier(answer, ("model",)),
            agent_version=name_of(value.get("agent_version")),
            cluster=name_of(metadata.get("user_id")),
            metadata={**_metadata_without_user(metadata), **_stop(answer), **builder.metadata()},
        )


def has_blocks(message: Any) -> bool:
    """Whether a message holds blocks that only this API has."""
    content = message.get("content") if isinstance(message, dict) else None
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") in _BLOCKS for block in content
    )


def _declares(tools: Any) -> bool:
    return isinstance(tools, list) and any(
        isinstance(tool, dict) and "input_schema" in tool for tool in tools
    )


def _answer(value: dict[str, Any], builder: ConversationBuilder) -> dict[str, Any]:
    """The response of a record, read into the talk; usage and model may stand in the record."""
    response = mapping(decode_if_json(value.get("response")), "response")
    if response:
        builder.tally.count_unread(response, _RESPONSE, "response")
    else:
        response = value
    if response.get("content") is not None:
        add_anthropic({"role": "assistant", "content": response["content"]}, builder, "response")
    return {**value, **response}


def _metadata_without_user(metadata: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metadata.items() if name != "user_id"}


def _stop(answer: dict[str, Any]) -> dict[str, Any]:
    reason = name_of(answer.get("stop_reason"))
    return {"stop_reason": reason} if reason else {}


def add_anthropic(
    message: dict[str, Any], builder: ConversationBuilder, path: str = "message"
) -> None:
    """Read one message into a talk.

    Raises:
        DataError: `schema`, with the place.
    """
    role, content = message.get("role"), message.get("content")
    builder.tally.count_unread(message, {"role", "content"}, "message")
    if role == "system":
        builder.add_system(builder.text_of(content))
    elif role == "user":
        _add_user(content, builder)
    elif role == "assistant":
        _add_agent(content, path, builder)
    else:
        role_text = str(role)[:40]
        raise DataError(
            "schema", f"{path}.role: found {role_text!r}, expected user, assistant, system"
        )


def _add_user(content: Any, builder: ConversationBuilder) -> None:
    """Results first, as turns of their tools; what is left was said by the user."""
    if not isinstance(content, list):
        builder.add_turn(Turn(role="user", text=builder.text_of(content)))
        return
    results = [part for part in content if _kind(part) == "tool_result"]
    for block in results:
        _add_result(block, builder)
    user_parts = [part for part in content if _kind(part) != "tool_result"]
    if user_parts or not results:
        builder.add_turn(
            Turn(role="user", text=builder.text_of(user_parts) if user_parts else None)
        )


def _add_result(block: dict[str, Any], builder: ConversationBuilder) -> None:
    known = {"type", "tool_use_id", "content", "is_error", "cache_control"}
    builder.tally.count_unread(block, known, "tool_result")
    content, failed = block.get("content"), block.get("is_error") is True
    builder.add_result(content, block.get("tool_use_id"), is_error=failed or _is_error(content))


def _is_error(content: Any) -> bool:
    return isinstance(content, dict) and str(content.get("type", "")).endswith("_error")


def _add_agent(content: Any, path: str, builder: ConversationBuilder) -> None:
    """A message of the agent; tools the provider ran itself answer inside it, and split it."""
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    if content is None:
        blocks = []
    waiting: list[Any] = []
    for block in blocks:
        if _kind(block).endswith("_tool_result"):
            _add_blocks(waiting, path, builder)
            waiting = []
            _add_result(block, builder)
        else:
            waiting.append(block)
    if waiting or not blocks:
        _add_blocks(waiting, path, builder)


def _add_blocks(blocks: list[Any], path: str, builder: ConversationBuilder) -> None:
    thought: list[str] = []
    calls: list[ToolCall] = []
    text_blocks: list[Any] = []
    for block in blocks:
        if _kind(block) in _CALLS:
            calls.append(call_of(block.get("name"), block.get("input"), block.get("id"), path=path))
        elif _kind(block) == "redacted_thinking":
            builder.tally.count("dropped", "redacted_thinking")
        else:
            text_blocks.append(block)
    text = builder.text_of(text_blocks, thought) if text_blocks else None
    # Thinking alone leaves nothing that was said.
    builder.add_turn(Turn(role="assistant", text=text or None, tool_calls=tuple(calls)), thought)


def _kind(block: Any) -> str:
    return str(block.get("type", "")) if isinstance(block, dict) else ""
