"""OpenAI chat completions: a record with `messages`, as requests and fine-tuning files have them.

    {"messages": [{"role": "user", "content": "Where is order 77?"}, ...], "tools": [...]}

Tool results are paired with their calls by id. The `name` of an assistant's message is the agent that
spoke. A record may name its conversation
(`conversation_id`, `session_id`, `thread_id`, `id`); otherwise a hash of its content is the case id.
The last answer of the model may stand beside the messages, as `response` or `choices`.
"""

from __future__ import annotations

import json
from typing import Any, Final

from assizes.judge.case import Case, ToolResult, ToolSpec, Turn
from assizes.judge.formats.shared import json_shapes as shapes
from assizes.judge.formats.shared import messages as chat
from assizes.judge.formats.shared.checked_parts import conversation_case
from assizes.judge.formats.shared.containers import Layout
from assizes.judge.formats.shared.parsing import REASONING
from assizes.judge.formats.shared.provider_messages import add_openai_messages, completion_messages

_RECORD_FIELDS: Final = {
    *shapes.CONVERSATION_IDS,
    *("messages", "tools", "functions", "metadata", "usage", "model", "user", "agent"),
    *("agent_version", "created", "created_at", "timestamp", "response", "choices", "object"),
}


def _fits(value: dict[str, Any]) -> bool:
    messages = shapes.decode_if_json(value.get("messages"))
    if not isinstance(messages, list):
        return False
    # An empty list fits too: the beginning of a file may end in front of the first message.
    return not messages or (isinstance(messages[0], dict) and "role" in messages[0])


def _read(value: dict[str, Any]) -> Case:
    builder = chat.ConversationBuilder()
    builder.tally.count_unread(value, _RECORD_FIELDS, "record")
    add_openai_messages(shapes.messages_of(value), builder, names_agents=True)
    if answer := completion_messages(value):
        add_openai_messages(answer, builder, names_agents=True)
    started = value.get("created_at") or value.get("timestamp") or value.get("created")
    response = value.get("response")
    used = value.get("usage") or (response.get("usage") if isinstance(response, dict) else None)
    metadata = shapes.mapping(shapes.decode_if_json(value.get("metadata")), "metadata")
    tools = shapes.sequence(
        shapes.decode_if_json(value.get("tools") or value.get("functions")), "tools"
    )
    return conversation_case(
        case_id=shapes.conversation_id(value, metadata),
        turns=chat.with_last_answer(builder.turns, chat.usage_of(used)),
        system=builder.system_text(),
        tools=chat.tools_of(tools),
        started_at=shapes.moment(started) if started else None,
        agent=shapes.name_of(value.get("agent")) or shapes.name_of(value.get("model")),
        agent_version=shapes.name_of(value.get("agent_version")),
        cluster=shapes.name_of(value.get("user")),
        metadata={**metadata, **builder.metadata()},
    )


OPENAI_CHAT: Final = Layout("openai_chat", frozenset({"messages"}), _fits, _read)
"""The layout of chat-completions records."""


def openai_record(case: Case) -> dict[str, Any]:
    """Return a case as a chat-completions record."""
    transcript, thoughts = case.transcript, case.metadata.get(REASONING, {})
    system = [{"role": "system", "content": transcript.system}] if transcript.system else []
    messages = [
        _message(turn, thoughts.get(str(place))) for place, turn in enumerate(transcript.turns)
    ]
    return chat.without_empty_fields(
        conversation_id=case.case_id,
        messages=[*system, *messages],
        tools=[_tool(tool) for tool in transcript.tools],
        created_at=transcript.started_at and transcript.started_at.isoformat(),
        usage=chat.last_usage(case, "prompt_tokens", "completion_tokens"),
        agent=case.agent,
        agent_version=case.agent_version,
        user=case.cluster,
        metadata=chat.own_metadata(case),
    )


def _message(turn: Turn, thought: str | None) -> dict[str, Any]:
    if turn.role == "tool":
        answer = turn.tool_result or ToolResult(content="")
        record: dict[str, Any] = {
            "role": "tool",
            "tool_call_id": answer.call_id or "",
            "content": answer.content,
        }
        return record | ({"name": answer.name} if answer.name else {})
    calls = []
    for call in turn.tool_calls:
        # `raw` is what the model wrote where that was no JSON object: given back as it was.
        text = json.dumps(call.arguments, ensure_ascii=False) if call.raw is None else call.raw
        function = {"name": call.name, "arguments": text}
        calls.append({"id": call.id or "", "type": "function", "function": function})
    agent = turn.agent if turn.role == "assistant" else None
    extra = chat.without_empty_fields(name=agent, tool_calls=calls, reasoning_content=thought)
    return {"role": turn.role, "content": turn.text, **extra}


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
