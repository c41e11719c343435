"""Inputs and outputs as tracing tools record them: messages of any provider, objects, plain text."""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import Turn
from assizes.judge.formats.shared.anthropic_blocks import add_anthropic_message, has_blocks
from assizes.judge.formats.shared.genai_spans import add_genai_message
from assizes.judge.formats.shared.json_shapes import as_text, decode_if_json, mapping, sequence
from assizes.judge.formats.shared.messages import ConversationBuilder
from assizes.judge.formats.shared.openai_messages import add_openai_messages, completion_messages

_ROLES: Final = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
"""The roles under the names that LangChain gives them, in the field `type`."""

_TEXT_FIELDS: Final = (
    "content",
    "text",
    "question",
    "query",
    "input",
    "output",
    "answer",
    "response",
    "result",
)


def add_value(value: Any, role: str, builder: ConversationBuilder) -> None:
    """Add an input or an output to a conversation.

    Args:
        value: a JSON value, or a text that holds JSON.
        role: `user` for an input, `assistant` for an output; messages with their own role keep it.
        builder: the conversation.

    Raises:
        DataError: `schema`, for a message with an unknown role.
    """
    content = decode_if_json(value)
    if isinstance(content, dict) and isinstance(content.get("messages"), list):
        builder.add_system(builder.text_of(content.get("system")))
        content = content["messages"]
    elif isinstance(content, dict) and isinstance(content.get("choices"), list):
        content = completion_messages(content)
    if isinstance(content, dict) and _is_message(content):
        content = [content]
    if isinstance(content, list) and content and all(map(_is_message, content)):
        for message in content:
            _add_message(dict(message), builder)
    elif text := _plain_text(content):
        builder.add_turn(Turn.model_validate({"role": role, "text": text}))


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and (
        "role" in value or (str(value.get("type")) in _ROLES and "content" in value)
    )


def _add_message(message: dict[str, Any], builder: ConversationBuilder) -> None:
    if "role" not in message:
        message = _from_langchain(message)
    if isinstance(message.get("parts"), list):
        add_genai_message(message, builder)
    elif has_blocks(message):
        add_anthropic_message({name: message[name] for name in ("role", "content")}, builder)
    else:
        add_openai_messages([message], builder)


def _from_langchain(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message of LangChain in the shape of chat completions."""
    extra = mapping(message.get("additional_kwargs"), "additional_kwargs")
    calls = [
        {
            "id": call.get("id"),
            "function": {"name": call.get("name"), "arguments": call.get("args")},
        }
        for call in sequence(message.get("tool_calls"), "tool_calls")
        if isinstance(call, dict)
    ]
    fields: dict[str, Any] = {
        name: message[name] for name in ("content", "tool_call_id", "name") if name in message
    }
    calls = calls or extra.get("tool_calls") or []
    fields = fields if message["type"] == "tool" else {"content": message["content"]}
    return {"role": _ROLES[message["type"]], **fields, **({"tool_calls": calls} if calls else {})}


def _plain_text(value: Any) -> str:
    """Return the text of a value; an object gives its only text field, else its JSON."""
    if isinstance(value, dict):
        named_texts = [value[name] for name in _TEXT_FIELDS if isinstance(value.get(name), str)]
        texts = named_texts or [text for text in value.values() if isinstance(text, str)]
        value = texts[0] if len(texts) == 1 else value
    return as_text(value) if value not in (None, {}, []) else ""
