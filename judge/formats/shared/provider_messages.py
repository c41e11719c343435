"""Messages in the shapes of OpenAI, OpenTelemetry's GenAI and LangChain, and values of any shape.

Each is read into a conversation. The shape of OpenAI's chat completions is the common one of the
field: span attributes and tracing tools use it as well.
"""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import ToolCall, Turn
from assizes.judge.errors import DataError
from assizes.judge.formats.shared import json_shapes as shapes
from assizes.judge.formats.shared.anthropic_blocks import add_anthropic_message, has_blocks
from assizes.judge.formats.shared.checked_parts import message_turn
from assizes.judge.formats.shared.messages import ConversationBuilder, call_of, tool_call

_OPENAI_FIELDS: Final = {
    *("role", "content", "tool_calls", "tool_call_id", "name", "function_call", "refusal"),
    *("reasoning_content", "reasoning"),
}

_OPENAI_RARE: Final = frozenset(
    ("name", "refusal", "reasoning_content", "reasoning", "function_call")
)

_PART_CALLS: Final = ("tool_call", "server_tool_call")  # parts of OpenTelemetry
_PART_RESULTS: Final = ("tool_call_response", "server_tool_call_response")
_PART_CONTENTS: Final = ("response", "result", "server_tool_call_response")

_LANGCHAIN_ROLES: Final = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
"""The roles under the names that LangChain gives them, in the field `type`."""

_TEXT_FIELDS: Final = (  # of an object that holds one question or answer
    *("content", "text", "question", "query", "input"),
    *("output", "answer", "response", "result"),
)


def completion_messages(value: dict[str, Any]) -> list[Any]:
    """Return the message of the completion that a record holds, as a list of at most one.

    The completion stands under `response` (text, a message or a response object), or the record
    itself has `choices`. Only the first choice is read.

    Raises:
        DataError: `schema`, when a field has another type.
    """
    response = shapes.decode_if_json(value.get("response"))
    if isinstance(response, str):
        return [{"role": "assistant", "content": response}]
    completion = shapes.mapping(response, "response") or value
    if "role" in completion and "messages" not in completion:
        return [completion]
    choices = shapes.sequence(completion.get("choices"), "response.choices")
    return [shapes.mapping(choices[0], "choices.0").get("message")] if choices else []


def add_openai_messages(
    messages: list[Any], builder: ConversationBuilder, *, names_agents: bool = False
) -> None:
    """Add chat-completions messages to a conversation, in order.

    With `names_agents`, the `name` of an assistant's message is the agent that spoke. Where the same
    messages come again with and without it, as in the requests of a log, it must not tell them apart.

    Raises:
        DataError: `schema`, with the path of the value that has another type.
    """
    add_turn, knows = builder.turns.append, _OPENAI_FIELDS.issuperset
    for place, item in enumerate(shapes.sequence(messages, "messages")):
        message = item if type(item) is dict else shapes.mapping(item, f"messages.{place}")
        if not knows(message):
            builder.tally.count_unread(message, _OPENAI_FIELDS, "message")
        role, content = message.get("role"), message.get("content")
        if role in ("user", "assistant"):
            if (content is None or type(content) is str) and _OPENAI_RARE.isdisjoint(message):
                listed = message.get("tool_calls")
                calls = () if listed is None else _openai_calls(listed, place)
                add_turn(message_turn(role, content, calls))
            else:
                _add_openai_turn(message, place, builder, names_agents=names_agents)
        elif role in ("tool", "function"):
            builder.add_result(content, message.get("tool_call_id"), message.get("name"))
        elif role in ("system", "developer"):
            builder.add_system(builder.text_of(content))
        else:
            raise DataError(
                "schema",
                f"messages.{place}.role: found {str(role)[:40]!r}, expected system, developer, user, "
                "assistant, tool or function",
            )


def _add_openai_turn(
    message: dict[str, Any], place: int, builder: ConversationBuilder, *, names_agents: bool
) -> None:
    path, thoughts = f"messages.{place}", list[str]()
    field = message.get
    text = builder.text_of(field("content"), thoughts)
    if field("refusal"):
        text = "\n".join(filter(None, (text, shapes.string(message["refusal"], f"{path}.refusal"))))
    # DeepSeek and vLLM write `reasoning_content`, OpenRouter writes `reasoning`.
    for thought in (field("reasoning_content"), field("reasoning")):
        if thought and isinstance(thought, str):
            thoughts.append(thought)
    agent = None
    if name := field("name"):
        is_agent = names_agents and message["role"] == "assistant"
        agent = shapes.name_of(name) if is_agent else None
        if agent is None:
            builder.tally.count("dropped", "message.name")
    listed = field("tool_calls")
    tool_calls = () if listed is None else _openai_calls(listed, place)
    if field("function_call"):  # the shape of 2023, before `tool_calls`
        old = shapes.mapping(message["function_call"], f"{path}.function_call")
        tool_calls += (call_of(old.get("name"), old.get("arguments"), path=path),)
    builder.add_turn(message_turn(message["role"], text, tool_calls, agent), thoughts)


def _openai_calls(listed: Any, place: int) -> tuple[ToolCall, ...]:
    """The tool calls of the message at a place; first as nearly all of them are written."""
    calls: list[ToolCall] = []
    plain: list[Any] = listed if type(listed) is list else [None]
    for call in plain:
        function = call.get("function") if type(call) is dict else None
        if type(function) is not dict or "custom" in call:
            break
        name, arguments = function.get("name"), function.get("arguments")
        if type(name) is not str or type(arguments) is not str or not arguments:
            break
        calls.append(tool_call(name, arguments, shapes.name_of(call.get("id"))))
    else:
        return tuple(calls)
    path = f"messages.{place}"
    objects = shapes.objects(shapes.decode_if_json(listed), f"{path}.tool_calls")
    return tuple(_openai_call(call, path) for call in objects)


def _openai_call(call: dict[str, Any], path: str) -> ToolCall:
    if call.get("custom"):  # a custom tool takes free text, not a JSON object
        custom = shapes.mapping(call["custom"], f"{path}.custom")
        return ToolCall(
            name=shapes.string(custom.get("name"), f"{path}.custom.name"),
            id=shapes.name_of(call.get("id")),
            raw=shapes.string(custom.get("input"), f"{path}.custom.input"),
        )
    function = shapes.mapping(call.get("function"), f"{path}.tool_calls.function") or call
    return call_of(function.get("name"), function.get("arguments"), call.get("id"), path=path)


def add_genai_message(message: dict[str, Any], builder: ConversationBuilder) -> None:
    """Add a message that consists of parts; each tool result in it becomes a turn of its own.

    Raises:
        DataError: `schema`, when a field has another type.
    """
    parts = shapes.objects(message.get("parts"), "parts")
    if not parts and message.get("content") is not None:
        add_openai_messages([message], builder)
        return
    role, content_parts, calls = message.get("role"), list[Any](), list[ToolCall]()
    for part in parts:
        kind = part.get("type")
        if kind in _PART_CALLS:
            arguments = part.get("arguments", part.get("server_tool_call"))
            calls.append(call_of(part.get("name"), arguments, part.get("id")))
        elif kind in _PART_RESULTS:
            content = next((part[name] for name in _PART_CONTENTS if name in part), None)
            builder.add_result(content, part.get("id"))
        else:
            content_parts.append(part)
    if role in ("system", "developer"):
        builder.add_system(builder.text_of(content_parts))
    elif content_parts or calls:
        if role not in ("user", "assistant"):  # such as `tool` with a text beside the results
            builder.tally.count("moved", f"role {str(role)[:20]}")
            role = "assistant" if calls else "user"
        builder.add_message(role, content_parts, calls)


def add_value(value: Any, role: str, builder: ConversationBuilder) -> None:
    """Add an input (role `user`) or an output (`assistant`), as tracing tools record it.

    The value is messages of any provider, which keep their own roles, another JSON value, or a text
    that holds JSON.

    Raises:
        DataError: `schema`, for a message with an unknown role.
    """
    content = shapes.decode_if_json(value)
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
        "role" in value or (str(value.get("type")) in _LANGCHAIN_ROLES and "content" in value)
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
    extra = shapes.mapping(message.get("additional_kwargs"), "additional_kwargs")
    calls = [
        {
            "id": call.get("id"),
            "function": {"name": call.get("name"), "arguments": call.get("args")},
        }
        for call in shapes.sequence(message.get("tool_calls"), "tool_calls")
        if isinstance(call, dict)
    ]
    kept = ("content", "tool_call_id", "name") if message["type"] == "tool" else ("content",)
    fields = {name: message[name] for name in kept if name in message}
    # Older versions keep the provider's own form beside the message.
    calls = calls or extra.get("tool_calls") or []
    role = _LANGCHAIN_ROLES[message["type"]]
    return {"role": role, **fields, **({"tool_calls": calls} if calls else {})}


def _plain_text(value: Any) -> str:
    """Return the text of a value; an object gives its only text field, else its JSON."""
    if isinstance(value, dict):
        named_texts = [value[name] for name in _TEXT_FIELDS if isinstance(value.get(name), str)]
        texts = named_texts or [text for text in value.values() if isinstance(text, str)]
        value = texts[0] if len(texts) == 1 else value
    return shapes.as_text(value) if value not in (None, {}, []) else ""
