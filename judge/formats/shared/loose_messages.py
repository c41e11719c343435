"""Inputs and outputs as tracing tools record them: messages of any provider, an object, or plain text."""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import Turn
from assizes.judge.formats.readers.anthropic_messages import add_anthropic, has_blocks
from assizes.judge.formats.readers.openai_chat import add_messages, completions
from assizes.judge.formats.shared.genai_spans import add_genai_message
from assizes.judge.formats.shared.json_shapes import as_text, decoded, mapping, sequence
from assizes.judge.formats.shared.messages import Talk

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


def add_said(value: Any, role: str, talk: Talk) -> None:
    """Read an input (`role` user) or an output (assistant) into a talk.

    Raises:
        DataError: `schema`, for messages of a role nobody has.
    """
    found = decoded(value)
    if isinstance(found, dict) and isinstance(found.get("messages"), list):
        talk.system(talk.text(found.get("system")))
        found = found["messages"]
    elif isinstance(found, dict) and isinstance(found.get("choices"), list):
        found = completions(found)
    if isinstance(found, dict) and _is_message(found):
        found = [found]
    if isinstance(found, list) and found and all(map(_is_message, found)):
        for message in found:
            _add(dict(message), talk)
    elif text := _plain(found):
        talk.add(Turn.model_validate({"role": role, "text": text}))


def _is_message(found: Any) -> bool:
    return isinstance(found, dict) and (
        "role" in found or (str(found.get("type")) in _ROLES and "content" in found)
    )


def _add(message: dict[str, Any], talk: Talk) -> None:
    if "role" not in message:
        message = _of_langchain(message)
    if isinstance(message.get("parts"), list):
        add_genai_message(message, talk)
    elif has_blocks(message):
        add_anthropic({name: message[name] for name in ("role", "content")}, talk)
    else:
        add_messages([message], talk)


def _of_langchain(message: dict[str, Any]) -> dict[str, Any]:
    """A message in the shape of chat completions, without what the library keeps for itself."""
    extra = mapping(message.get("additional_kwargs"), "additional_kwargs")
    calls = [
        {"id": one.get("id"), "function": {"name": one.get("name"), "arguments": one.get("args")}}
        for one in sequence(message.get("tool_calls"), "tool_calls")
        if isinstance(one, dict)
    ]
    kept: dict[str, Any] = {
        name: message[name] for name in ("content", "tool_call_id", "name") if name in message
    }
    calls = calls or extra.get("tool_calls") or []
    kept = kept if message["type"] == "tool" else {"content": message["content"]}
    return {"role": _ROLES[message["type"]], **kept, **({"tool_calls": calls} if calls else {})}


def _plain(found: Any) -> str:
    """The text of a value: of an object the one field that is text, else its JSON."""
    if isinstance(found, dict):
        named = [found[name] for name in _TEXTS if isinstance(found.get(name), str)]
        texts = named or [one for one in found.values() if isinstance(one, str)]
        found = texts[0] if len(texts) == 1 else found
    return as_text(found) if found not in (None, {}, []) else ""
