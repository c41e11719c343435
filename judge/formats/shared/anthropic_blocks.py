"""Messages of the Anthropic API, whose content is blocks: texts, tool calls, results, thinking.

A tool result stands in a message of the user there; in a case it is a turn of its own.
"""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import ToolCall, Turn
from assizes.judge.errors import DataError
from assizes.judge.formats.shared import json_shapes as shapes
from assizes.judge.formats.shared.checked_parts import message_turn, named_call, result_turn
from assizes.judge.formats.shared.messages import ConversationBuilder, call_of, plain_text

_BLOCK_CALLS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")  # blocks of Anthropic
_ANTHROPIC_KINDS: Final = {*_BLOCK_CALLS, "tool_result", "thinking", "redacted_thinking"}
"""Types of blocks that only Anthropic's API has."""

_MESSAGE_FIELDS: Final = {"role", "content"}
_RESULT_FIELDS: Final = {"type", "tool_use_id", "content", "is_error", "cache_control"}


def has_blocks(message: Any) -> bool:
    """Whether a message holds a block of a type that only the Anthropic API has."""
    content = message.get("content") if isinstance(message, dict) else None
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") in _ANTHROPIC_KINDS for block in content
    )


def add_anthropic_messages(messages: list[Any], builder: ConversationBuilder) -> None:
    """Add Anthropic messages to a conversation, in order.

    Raises:
        DataError: as `add_anthropic_message`.
    """
    add_turn = builder.turns.append
    for place, item in enumerate(messages):
        message = item if type(item) is dict else shapes.mapping(item, f"messages.{place}")
        role, content, turn = message.get("role"), message.get("content"), None
        if type(content) is list and len(message) == 2 and role in ("user", "assistant"):
            text = plain_text(content[0]) if len(content) == 1 else None
            if text is not None:
                turn = message_turn(role, text if role == "user" else text or None)
            elif role == "assistant":
                turn = _plain_agent_turn(content)
            else:
                _add_anthropic_user(content, builder)
                continue
        if turn is not None:
            add_turn(turn)
        else:
            add_anthropic_message(message, builder, f"messages.{place}")


def _plain_agent_turn(content: list[Any]) -> Turn | None:
    """The turn of an agent's content that is texts and tool calls; None for any other."""
    texts: list[str] = []
    calls: list[ToolCall] = []
    for block in content:
        if type(block) is not dict:
            return None
        field = block.get
        kind = field("type")
        if kind == "text" and type(text := field("text")) is str:
            texts.append(text)
        elif kind == "tool_use":
            name, arguments, call_id = field("name"), field("input"), field("id")
            if type(name) is not str or type(arguments) is not dict:
                return None
            if type(call_id) is not str or not call_id:
                call_id = shapes.name_of(call_id)
            calls.append(named_call(name, arguments, call_id))
        else:
            return None
    text = texts[0] if len(texts) == 1 else "\n".join(texts)
    return message_turn("assistant", text or None, tuple(calls))


def add_anthropic_message(
    message: dict[str, Any], builder: ConversationBuilder, path: str = "message"
) -> None:
    """Add one Anthropic message to a conversation; each tool result in it becomes a turn.

    Raises:
        DataError: `schema`, with the path of the value that has another type.
    """
    role, content = message.get("role"), message.get("content")
    if not _MESSAGE_FIELDS.issuperset(message):
        builder.tally.count_unread(message, _MESSAGE_FIELDS, "message")
    if role == "system":
        builder.add_system(builder.text_of(content))
    elif role == "user":
        _add_anthropic_user(content, builder)
    elif role == "assistant":
        _add_anthropic_agent(content, path, builder)
    else:
        raise DataError(
            "schema", f"{path}.role: found {str(role)[:40]!r}, expected user, assistant, system"
        )


def _add_anthropic_user(content: Any, builder: ConversationBuilder) -> None:
    """Add the tool results of a user message, then what the user said."""
    if type(content) is not list:
        builder.turns.append(message_turn("user", builder.text_of(content)))
        return
    user_parts: list[Any] = []
    for block in content:  # results first: they answer calls made before the user spoke
        if type(block) is dict and block.get("type") == "tool_result":
            field = block.get
            result = field("content")
            if type(result) is str and _RESULT_FIELDS.issuperset(block):
                call_id, failed = field("tool_use_id"), field("is_error") is True
                turn = result_turn(result, shapes.name_of(call_id), None, is_error=failed)
                builder.turns.append(turn)
            else:
                _add_block_result(block, builder)
        else:
            user_parts.append(block)
    if user_parts or not content:
        text = builder.text_of(user_parts) if user_parts else None
        builder.turns.append(message_turn("user", text))


def _add_block_result(block: dict[str, Any], builder: ConversationBuilder) -> None:
    if not _RESULT_FIELDS.issuperset(block):
        builder.tally.count_unread(block, _RESULT_FIELDS, "tool_result")
    content = block.get("content")
    failed = block.get("is_error") is True or (
        type(content) is dict and _block_kind(content).endswith("_error")
    )
    builder.add_result(content, block.get("tool_use_id"), is_error=failed)


def _add_anthropic_agent(content: Any, path: str, builder: ConversationBuilder) -> None:
    """Add a message of the agent, in several turns where the provider ran tools itself."""
    text_block = [] if content is None else [{"type": "text", "text": content}]
    blocks = content if isinstance(content, list) else text_block
    waiting: list[Any] = []
    for block in blocks:
        if _block_kind(block).endswith("_tool_result"):
            _add_anthropic_turn(waiting, path, builder)  # the call in front of its result
            waiting = []
            _add_block_result(block, builder)
        else:
            waiting.append(block)
    if waiting or not blocks:
        _add_anthropic_turn(waiting, path, builder)


def _add_anthropic_turn(blocks: list[Any], path: str, builder: ConversationBuilder) -> None:
    calls: list[ToolCall] = []
    text_blocks: list[Any] = []
    for block in blocks:
        if (kind := _block_kind(block)) in _BLOCK_CALLS:
            calls.append(call_of(block.get("name"), block.get("input"), block.get("id"), path=path))
        elif kind == "redacted_thinking":  # encrypted: nobody can read it
            builder.tally.count("dropped", kind)
        else:
            text_blocks.append(block)
    # A message of nothing but thinking gives an empty text: the agent said nothing.
    builder.add_message("assistant", text_blocks, calls)


def _block_kind(block: Any) -> str:
    kind = block.get("type", "") if isinstance(block, dict) else ""
    return kind if type(kind) is str else str(kind)
