"""Messages of the Anthropic API, whose content is a list of blocks, read into a conversation."""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import ToolCall, Turn
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.messages import ConversationBuilder, call_of

_CALL_KINDS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")
_OWN_KINDS: Final = {*_CALL_KINDS, "tool_result", "thinking", "redacted_thinking"}
"""Types of blocks that only this API has."""

_RESULT_FIELDS: Final = {"type", "tool_use_id", "content", "is_error", "cache_control"}


def has_blocks(message: Any) -> bool:
    """Whether a message holds a block of a type that only the Anthropic API has."""
    content = message.get("content") if isinstance(message, dict) else None
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") in _OWN_KINDS for block in content
    )


def add_anthropic_message(
    message: dict[str, Any], builder: ConversationBuilder, path: str = "message"
) -> None:
    """Add one message to a conversation; each tool result in it becomes a turn of its own.

    Raises:
        DataError: `schema`, with the path of the value that has another type.
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
        raise DataError(
            "schema", f"{path}.role: found {str(role)[:40]!r}, expected user, assistant, system"
        )


def _add_user(content: Any, builder: ConversationBuilder) -> None:
    """Add the tool results of a user message first, then what the user said."""
    if not isinstance(content, list):
        builder.add_turn(Turn(role="user", text=builder.text_of(content)))
        return
    results = [part for part in content if _kind(part) == "tool_result"]
    for block in results:
        _add_result(block, builder)
    user_parts = [part for part in content if _kind(part) != "tool_result"]
    if user_parts or not results:
        text = builder.text_of(user_parts) if user_parts else None
        builder.add_turn(Turn(role="user", text=text))


def _add_result(block: dict[str, Any], builder: ConversationBuilder) -> None:
    builder.tally.count_unread(block, _RESULT_FIELDS, "tool_result")
    content = block.get("content")
    failed = block.get("is_error") is True or _kind(content).endswith("_error")
    builder.add_result(content, block.get("tool_use_id"), is_error=failed)


def _add_agent(content: Any, path: str, builder: ConversationBuilder) -> None:
    """Add a message of the agent.

    A tool that the provider ran itself answers inside the message: its result splits the message
    into two turns.
    """
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    if content is None:
        blocks = []
    waiting: list[Any] = []
    for block in blocks:
        if _kind(block).endswith("_tool_result"):
            _add_agent_turn(waiting, path, builder)
            waiting = []
            _add_result(block, builder)
        else:
            waiting.append(block)
    if waiting or not blocks:
        _add_agent_turn(waiting, path, builder)


def _add_agent_turn(blocks: list[Any], path: str, builder: ConversationBuilder) -> None:
    thoughts: list[str] = []
    calls: list[ToolCall] = []
    text_blocks: list[Any] = []
    for block in blocks:
        if _kind(block) in _CALL_KINDS:
            calls.append(call_of(block.get("name"), block.get("input"), block.get("id"), path=path))
        elif _kind(block) == "redacted_thinking":
            builder.tally.count("dropped", "redacted_thinking")
        else:
            text_blocks.append(block)
    text = builder.text_of(text_blocks, thoughts) if text_blocks else None
    # A message of nothing but thinking gives an empty text: the agent said nothing.
    builder.add_turn(Turn(role="assistant", text=text or None, tool_calls=tuple(calls)), thoughts)


def _kind(block: Any) -> str:
    return str(block.get("type", "")) if isinstance(block, dict) else ""
