"""Messages in the shape of OpenAI's chat completions, read into a conversation.

The shape is the common one of the field: span attributes and tracing tools use it as well.
"""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import ToolCall, Turn
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.json_shapes import (
    decode_if_json,
    mapping,
    name_of,
    numbered_objects,
    objects,
    sequence,
    string,
)
from assizes.judge.formats.shared.messages import ConversationBuilder, call_of

_MESSAGE_FIELDS: Final = {
    *("role", "content", "tool_calls", "tool_call_id", "name", "function_call", "refusal"),
    *("reasoning_content", "reasoning"),
}


def completion_messages(value: dict[str, Any]) -> list[Any]:
    """Return the message of the completion that a record holds, as a list of at most one.

    The completion stands under `response` (text, a message or a response object), or the record
    itself has `choices`. Only the first choice is read.

    Raises:
        DataError: `schema`, when a field has another type.
    """
    response = decode_if_json(value.get("response"))
    if isinstance(response, str):
        return [{"role": "assistant", "content": response}]
    completion = mapping(response, "response") or value
    if "role" in completion and "messages" not in completion:
        return [completion]
    choices = sequence(completion.get("choices"), "response.choices")
    return [mapping(choices[0], "choices.0").get("message")] if choices else []


def add_openai_messages(messages: list[Any], builder: ConversationBuilder) -> None:
    """Add chat-completions messages to a conversation, in order.

    Raises:
        DataError: `schema`, with the path of the value that has another type.
    """
    for path, message in numbered_objects(messages, "messages"):
        _add_message(message, path, builder)


def _add_message(message: dict[str, Any], path: str, builder: ConversationBuilder) -> None:
    builder.tally.count_unread(message, _MESSAGE_FIELDS, "message")
    role, content = message.get("role"), message.get("content")
    if role in ("system", "developer"):
        builder.add_system(builder.text_of(content))
    elif role in ("tool", "function"):
        builder.add_result(content, message.get("tool_call_id"), message.get("name"))
    elif role in ("user", "assistant"):
        _add_turn(message, path, builder)
    else:
        raise DataError(
            "schema",
            f"{path}.role: found {str(role)[:40]!r}, expected system, developer, user, assistant, "
            "tool or function",
        )


def _add_turn(message: dict[str, Any], path: str, builder: ConversationBuilder) -> None:
    thoughts: list[str] = []
    text = builder.text_of(message.get("content"), thoughts)
    if message.get("refusal"):
        text = "\n".join(filter(None, (text, string(message["refusal"], f"{path}.refusal"))))
    # DeepSeek and vLLM write `reasoning_content`, OpenRouter writes `reasoning`.
    reasonings = (message.get("reasoning_content"), message.get("reasoning"))
    thoughts += [thought for thought in reasonings if thought and isinstance(thought, str)]
    if message.get("name"):
        builder.tally.count("dropped", "message.name")
    calls = objects(decode_if_json(message.get("tool_calls")), f"{path}.tool_calls")
    tool_calls = [_tool_call(call, path) for call in calls]
    if message.get("function_call"):  # the shape of 2023, before `tool_calls`
        old = mapping(message["function_call"], f"{path}.function_call")
        tool_calls.append(call_of(old.get("name"), old.get("arguments"), path=path))
    fields = {"role": message["role"], "text": text, "tool_calls": tuple(tool_calls)}
    builder.add_turn(Turn.model_validate(fields), thoughts)


def _tool_call(call: dict[str, Any], path: str) -> ToolCall:
    if call.get("custom"):  # a custom tool takes free text, not a JSON object
        custom = mapping(call["custom"], f"{path}.custom")
        return ToolCall(
            name=string(custom.get("name"), f"{path}.custom.name"),
            id=name_of(call.get("id")),
            raw=string(custom.get("input"), f"{path}.custom.input"),
        )
    function = mapping(call.get("function"), f"{path}.tool_calls.function") or call
    return call_of(function.get("name"), function.get("arguments"), call.get("id"), path=path)
