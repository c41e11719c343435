"""OpenAI chat completions: a record with `messages`, as requests and fine-tuning files have them.

    {"messages": [{"role": "user", "content": "Where is order 77?"}, ...], "tools": [...]}

Results are paired with calls by id. A record may name its conversation (`conversation_id`,
`session_id`, `thread_id`, `id`); else its content names it. What the model answered last may stand
beside the messages, as `response` or `choices`.
"""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import Case, ToolCall, Transcript, Turn
from assizes.judge.errors import DataError
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
    string,
)
from assizes.judge.formats.shared.messages import (
    ConversationBuilder,
    call_of,
    tools_of,
    usage_of,
    with_last_answer,
)

IDS: Final = ("conversation_id", "session_id", "thread_id", "id", "request_id", "custom_id")
"""Fields that name the conversation of a record."""

_RECORD: Final = {
    *IDS,
    *("messages", "tools", "functions", "metadata", "usage", "model", "user", "agent"),
    *("agent_version", "created", "created_at", "timestamp", "response", "choices", "object"),
}
_MESSAGE: Final = {
    *("role", "content", "tool_calls", "tool_call_id", "name", "function_call", "refusal"),
    *("reasoning_content", "reasoning"),
}


class OpenAIChat(Layout):
    """Chat completions."""

    name = "openai_chat"

    def fits(self, value: dict[str, Any]) -> bool:
        """An object with messages that have roles."""
        messages = decode_if_json(value.get("messages"))
        if not isinstance(messages, list):
            return False
        return not messages or (isinstance(messages[0], dict) and "role" in messages[0])

    def read(self, value: Any) -> Case:
        """The case of one record.

        Raises:
            DataError: `schema`.
        """
        return chat_case(value)


def chat_case(
    value: dict[str, Any], case_id: str | None = None, builder: ConversationBuilder | None = None
) -> Case:
    """The case of a record with messages.

    Raises:
        DataError: `schema`: a field has another shape.
    """
    builder = builder or ConversationBuilder()
    builder.tally.count_unread(value, _RECORD, "record")
    add_messages(messages_of(value), builder)
    add_messages(completions(value), builder)
    started = moment(value.get("created_at") or value.get("timestamp") or value.get("created"))
    response = value.get("response")
    used = value.get("usage") or (response.get("usage") if isinstance(response, dict) else None)
    metadata = mapping(decode_if_json(value.get("metadata")), "metadata")
    tools = sequence(decode_if_json(value.get("tools") or value.get("functions")), "tools")
    record_id = first_identifier(value, IDS) or first_identifier(metadata, IDS)
    return Case(
        case_id=case_id or record_id or content_id(value),
        transcript=Transcript(
            turns=with_last_answer(builder.turns, usage_of(used)),
            system="\n\n".join(builder.systems) or None,
            tools=tools_of(tools),
            started_at=started,
        ),
        agent=name_of(value.get("agent")) or name_of(value.get("model")),
        agent_version=name_of(value.get("agent_version")),
        cluster=name_of(value.get("user")),
        metadata={**metadata, **builder.metadata()},
    )


def completions(value: dict[str, Any]) -> list[Any]:
    """The message a completion of the record adds, as a list of at most one.

    Raises:
        DataError: `schema`.
    """
    response = decode_if_json(value.get("response"))
    if isinstance(response, str):
        return [{"role": "assistant", "content": response}]
    completion = mapping(response, "response") or value
    if "role" in completion and "messages" not in completion:
        return [completion]
    choices = sequence(completion.get("choices"), "response.choices")
    return [mapping(choices[0], "choices.0").get("message")] if choices else []


def add_messages(messages: list[Any], builder: ConversationBuilder) -> None:
    """Read messages into a talk.

    Raises:
        DataError: `schema`, with the place.
    """
    for place, message in enumerate(messages):
        _add(mapping(message, f"messages.{place}"), f"messages.{place}", builder)


def _add(message: dict[str, Any], path: str, builder: ConversationBuilder) -> None:
    builder.tally.count_unread(message, _MESSAGE, "message")
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
    thought: list[str] = []
    text = builder.text_of(message.get("content"), thought)
    if message.get("refusal"):
        text = "\n".join(filter(None, (text, string(message["refusal"], f"{path}.refusal"))))
    reasonings = (message.get("reasoning_content"), message.get("reasoning"))
    thought.extend(
        reasoning for reasoning in reasonings if reasoning and isinstance(reasoning, str)
    )
    if message.get("name"):
        builder.tally.count("dropped", "message.name")
    calls = sequence(decode_if_json(message.get("tool_calls")), f"{path}.tool_calls")
    tool_calls = [_call(mapping(call, f"{path}.tool_calls"), path) for call in calls]
    if message.get("function_call"):
        old = mapping(message["function_call"], f"{path}.function_call")
        tool_calls.append(call_of(old.get("name"), old.get("arguments"), path=path))
    builder.add_turn(
        Turn.model_validate(
            {"role": message["role"], "text": text, "tool_calls": tuple(tool_calls)}
        ),
        thought,
    )


def _call(call_data: dict[str, Any], path: str) -> ToolCall:
    if call_data.get("custom"):
        custom = mapping(call_data["custom"], f"{path}.custom")
        return ToolCall(
            name=string(custom.get("name"), f"{path}.custom.name"),
            id=name_of(call_data.get("id")),
            raw=string(custom.get("input"), f"{path}.custom.input"),
        )
    inner = mapping(call_data.get("function"), f"{path}.tool_calls.function") or call_data
    return call_of(inner.get("name"), inner.get("arguments"), call_data.get("id"), path=path)
