"""OpenAI chat completions: a record with `messages`, as requests and fine-tuning files have them.

    {"messages": [{"role": "user", "content": "Where is order 77?"}, ...], "tools": [...]}

Tool results are paired with their calls by id. A record may name its conversation
(`conversation_id`, `session_id`, `thread_id`, `id`); otherwise a hash of its content is the case id.
The last answer of the model may stand beside the messages, as `response` or `choices`.
"""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import Case, Transcript
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
    sequence,
)
from assizes.judge.formats.shared.messages import (
    ConversationBuilder,
    tools_of,
    usage_of,
    with_last_answer,
)
from assizes.judge.formats.shared.openai_messages import add_openai_messages, completion_messages

_RECORD_FIELDS: Final = {
    *CONVERSATION_IDS,
    *("messages", "tools", "functions", "metadata", "usage", "model", "user", "agent"),
    *("agent_version", "created", "created_at", "timestamp", "response", "choices", "object"),
}


class OpenAIChat(Layout):
    """The layout of chat-completions records."""

    name = "openai_chat"

    def fits(self, value: dict[str, Any]) -> bool:
        """Whether an object has a list of messages, the first of which has a role."""
        messages = decode_if_json(value.get("messages"))
        if not isinstance(messages, list):
            return False
        return not messages or (isinstance(messages[0], dict) and "role" in messages[0])

    def read(self, value: Any) -> Case:
        """Return the case of one record.

        Raises:
            DataError: `schema`, when a field has another type.
        """
        builder = ConversationBuilder()
        builder.tally.count_unread(value, _RECORD_FIELDS, "record")
        add_openai_messages(messages_of(value), builder)
        add_openai_messages(completion_messages(value), builder)
        started = moment(value.get("created_at") or value.get("timestamp") or value.get("created"))
        response = value.get("response")
        used = value.get("usage") or (response.get("usage") if isinstance(response, dict) else None)
        metadata = mapping(decode_if_json(value.get("metadata")), "metadata")
        tools = sequence(decode_if_json(value.get("tools") or value.get("functions")), "tools")
        return Case(
            case_id=first_identifier(value, CONVERSATION_IDS)
            or first_identifier(metadata, CONVERSATION_IDS)
            or content_id(value),
            transcript=Transcript(
                turns=with_last_answer(builder.turns, usage_of(used)),
                system=builder.system_text(),
                tools=tools_of(tools),
                started_at=started,
            ),
            agent=name_of(value.get("agent")) or name_of(value.get("model")),
            agent_version=name_of(value.get("agent_version")),
            cluster=name_of(value.get("user")),
            metadata={**metadata, **builder.metadata()},
        )
