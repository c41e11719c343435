"""Inputs and outputs as tracing tools record them: messages of any provider, an object, or plain text."""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import Turn
from assizes.judge.formats.readers.anthropic_messages import add_anthropic, has_blocks
from assizes.judge.formats.readers.openai_chat import add_messages, completions
from assizes.judge.formats.shared.genai_spans import add_genai_message
from assizes.judge.formats.shared.json_shapes import as_text, decode_if_json, mapping, sequence
from assizes.judge.formats.shared.messages import ConversationBuilder

_ROLES: Final = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
"""What LangChain calls the roles, in `type`."""

_TEXTS: Final = (
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
    """Read an input (`role` user) or an output (assistant) into a talk.

    Raises:
        DataError: `schema`, for messages of a role nobody has.
    """
    content = decode_if_json(value)
    if isinstance(content, dict) and isinstance(content.get("messages"), list):
        builder.add_system(builder.text_of(content.get("system")))
        content = content["messages"]
    elif isinstance(content, dict) and isinstance(content.get("choices"), list):
        content = completions(content)
    if isinstance(content, dict) and _is_message(content):
        content = [content]
    if isinstance(content, list) and content and all(map(_is_message, content)):
        for message in content:
            _add(dict(message), builder)
    elif text := _plain_text(content):
        builder.add_turn(Turn.model_validate({"role": role, "text": text}))


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and (
        "role" in value or (str(value.get("type")) in _ROLES and "content" in value)
    )


def _add(message: dict[str, Any], builder: ConversationBuilder) -> None:
    if "role" not in message:
        message = _of_langchain(message)
    if isinstance(message.get("parts"), list):
        add_genai_message(message, builder)
    elif has_blocks(message):
        add_anthropic({name: message[name] for name in ("role", "content")}, builder)
    else:
        add_messages([message], builder)


def _of_langchain(message: dict[str, Any]) -> dict[str, Any]:
    """A message in the shape of chat completions, without what the library keeps for itself."""
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
    """The text of a value: of an object the one field that is text, else its JSON."""
    if isinstance(value, dict):
        named_texts = [value[name] for name in _TEXTS if isinstance(value.get(name), str)]
        texts = named_texts or [text for text in value.values() if isinstance(text, str)]
        value = texts[0] if len(texts) == 1 else value
    return as_text(value) if value not in (None, {}, []) else ""
