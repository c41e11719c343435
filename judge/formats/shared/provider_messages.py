"""Messages in the shapes of OpenAI, Anthropic, OpenTelemetry's GenAI and LangChain.

Each is read into a conversation. The shape of OpenAI's chat completions is the common one of the
field: span attributes and tracing tools use it as well.
"""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import ToolCall, Turn
from assizes.judge.errors import DataError
from assizes.judge.formats.shared import json_shapes as shapes
from assizes.judge.formats.shared.messages import ConversationBuilder, call_of

_OPENAI_FIELDS: Final = {
    *("role", "content", "tool_calls", "tool_call_id", "name", "function_call", "refusal"),
    *("reasoning_content", "reasoning"),
}

_BLOCK_CALLS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")  # blocks of Anthropic
_ANTHROPIC_KINDS: Final = {*_BLOCK_CALLS, "tool_result", "thinking", "redacted_thinking"}
"""Types of blocks that only Anthropic's API has."""

_RESULT_FIELDS: Final = {"type", "tool_use_id", "content", "is_error", "cache_control"}

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
    for path, message in shapes.numbered_objects(messages, "messages"):
        builder.tally.count_unread(message, _OPENAI_FIELDS, "message")
        role, content = message.get("role"), message.get("content")
        if role in ("system", "developer"):
            builder.add_system(builder.text_of(content))
        elif role in ("tool", "function"):
            builder.add_result(content, message.get("tool_call_id"), message.get("name"))
        elif role in ("user", "assistant"):
            _add_openai_turn(message, path, builder, names_agents=names_agents)
        else:
            raise DataError(
                "schema",
                f"{path}.role: found {str(role)[:40]!r}, expected system, developer, user, "
                "assistant, tool or function",
            )


def _add_openai_turn(
    message: dict[str, Any], path: str, builder: ConversationBuilder, *, names_agents: bool
) -> None:
    thoughts: list[str] = []
    text = builder.text_of(message.get("content"), thoughts)
    if message.get("refusal"):
        text = "\n".join(filter(None, (text, shapes.string(message["refusal"], f"{path}.refusal"))))
    # DeepSeek and vLLM write `reasoning_content`, OpenRouter writes `reasoning`.
    reasonings = (message.get("reasoning_content"), message.get("reasoning"))
    thoughts += [thought for thought in reasonings if thought and isinstance(thought, str)]
    is_agent = names_agents and message["role"] == "assistant"
    agent = shapes.name_of(message.get("name")) if is_agent else None
    if message.get("name") and agent is None:
        builder.tally.count("dropped", "message.name")
    calls = shapes.objects(shapes.decode_if_json(message.get("tool_calls")), f"{path}.tool_calls")
    tool_calls = [_openai_call(call, path) for call in calls]
    if message.get("function_call"):  # the shape of 2023, before `tool_calls`
        old = shapes.mapping(message["function_call"], f"{path}.function_call")
        tool_calls.append(call_of(old.get("name"), old.get("arguments"), path=path))
    fields = {"role": message["role"], "text": text, "tool_calls": tuple(tool_calls)}
    builder.add_turn(Turn.model_validate(fields | {"agent": agent}), thoughts)


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


def has_blocks(message: Any) -> bool:
    """Whether a message holds a block of a type that only the Anthropic API has."""
    content = message.get("content") if isinstance(message, dict) else None
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") in _ANTHROPIC_KINDS for block in content
    )


def add_anthropic_message(
    message: dict[str, Any], builder: ConversationBuilder, path: str = "message"
) -> None:
    """Add one Anthropic message to a conversation; each tool result in it becomes a turn.

    Raises:
        DataError: `schema`, with the path of the value that has another type.
    """
    role, content = message.get("role"), message.get("content")
    builder.tally.count_unread(message, {"role", "content"}, "message")
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
    if not isinstance(content, list):
        builder.add_turn(Turn(role="user", text=builder.text_of(content)))
        return
    results = [part for part in content if _block_kind(part) == "tool_result"]
    for block in results:  # first: they answer calls made before the user spoke
        _add_block_result(block, builder)
    user_parts = [part for part in content if _block_kind(part) != "tool_result"]
    if user_parts or not results:
        text = builder.text_of(user_parts) if user_parts else None
        builder.add_turn(Turn(role="user", text=text))


def _add_block_result(block: dict[str, Any], builder: ConversationBuilder) -> None:
    builder.tally.count_unread(block, _RESULT_FIELDS, "tool_result")
    content = block.get("content")
    failed = block.get("is_error") is True or _block_kind(content).endswith("_error")
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
    return str(block.get("type", "")) if isinstance(block, dict) else ""


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
