"""Anthropic messages: `system` at the top, content in blocks, results inside user messages.

    {"system": "You are Fern.", "messages": [{"role": "user", "content": "Where is order 77?"}, ...]}

A tool result becomes a turn of its own, although the API puts it into a message of the user. The
model's thinking goes into the metadata, which no judge sees. The answer to the last message may
stand beside the messages, as `response` or as the fields of a response: `content`, `stop_reason`,
`usage`.
"""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import Case, Transcript
from assizes.judge.formats.shared.anthropic_blocks import add_anthropic_message, has_blocks
from assizes.judge.formats.shared.containers import Layout
from assizes.judge.formats.shared.json_shapes import (
    CONVERSATION_IDS,
    content_id,
    decode_if_json,
    first_identifier,
    mapping,
    messages_of,
    moment,
    name_of,
    numbered_objects,
    sequence,
)
from assizes.judge.formats.shared.messages import (
    ConversationBuilder,
    tools_of,
    usage_of,
    with_last_answer,
)

_RECORD_FIELDS: Final = {
    *CONVERSATION_IDS,
    *("system", "messages", "tools", "metadata", "usage", "model", "agent", "agent_version"),
    *("created_at", "timestamp", "response", "content", "role", "type", "stop_reason"),
    *("stop_sequence", "anthropic_version"),
}
_RESPONSE_FIELDS: Final = {"id", "model", "content", "role", "type", "usage", "stop_reason"}


class AnthropicMessages(Layout):
    """The layout of records of the Anthropic messages API."""

    name = "anthropic"

    def fits(self, value: dict[str, Any]) -> bool:
        """Whether an object has messages beside a trait that only this API has.

        Such a trait is a system prompt or stop reason at the top, a block of the API's own types,
        or a tool with an `input_schema`.
        """
        if not isinstance(value.get("messages"), list):
            return False
        if not value.keys().isdisjoint({"system", "stop_reason", "anthropic_version"}):
            return True
        return any(map(has_blocks, value["messages"])) or _has_own_tools(value.get("tools"))

    def read(self, value: Any) -> Case:
        """Return the case of one record.

        Raises:
            DataError: `schema`, when a field has another type.
        """
        builder = ConversationBuilder()
        builder.tally.count_unread(value, _RECORD_FIELDS, "record")
        builder.add_system(builder.text_of(value.get("system")))
        for path, message in numbered_objects(messages_of(value), "messages"):
            add_anthropic_message(message, builder, path)
        answer = _add_response(value, builder)
        metadata = mapping(value.get("metadata"), "metadata")
        kept_metadata = {name: item for name, item in metadata.items() if name != "user_id"}
        stop_reason = name_of(answer.get("stop_reason"))
        return Case(
            case_id=first_identifier(value, CONVERSATION_IDS)
            or first_identifier(metadata, CONVERSATION_IDS)
            or content_id(value),
            transcript=Transcript(
                turns=with_last_answer(builder.turns, usage_of(answer.get("usage"))),
                system=builder.system_text(),
                tools=tools_of(sequence(value.get("tools"), "tools")),
                started_at=moment(value.get("created_at") or value.get("timestamp")),
            ),
            agent=name_of(value.get("agent")) or first_identifier(answer, ("model",)),
            agent_version=name_of(value.get("agent_version")),
            cluster=name_of(metadata.get("user_id")),
            metadata={
                **kept_metadata,
                **({"stop_reason": stop_reason} if stop_reason else {}),
                **builder.metadata(),
            },
        )


def _has_own_tools(tools: Any) -> bool:
    return isinstance(tools, list) and any(
        isinstance(tool, dict) and "input_schema" in tool for tool in tools
    )


def _add_response(value: dict[str, Any], builder: ConversationBuilder) -> dict[str, Any]:
    """Add the response of a record to the conversation.

    Returns:
        The record's fields with those of the response over them: usage and model may stand in
        either.
    """
    response = mapping(decode_if_json(value.get("response")), "response")
    if response:
        builder.tally.count_unread(response, _RESPONSE_FIELDS, "response")
    else:
        response = value
    if response.get("content") is not None:
        message = {"role": "assistant", "content": response["content"]}
        add_anthropic_message(message, builder, "response")
    return {**value, **response}
