"""Anthropic messages: `system` at the top, content in blocks, results inside user messages.

    {"system": "You are Fern.", "messages": [{"role": "user", "content": "Where is order 77?"}, ...]}

A result becomes a turn of its own and is none of the user's. The model's thinking is kept in the
metadata, where no judge sees it. The answer to the last message may stand beside, as `response`, or
as the fields of a response: `content`, `stop_reason`, `usage`.
"""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import Case, ToolCall, Transcript, Turn
from assizes.judge.errors import DataError
from assizes.judge.formats.readers.openai_chat import IDS
from assizes.judge.formats.shared.containers import Layout
from assizes.judge.formats.shared.json_shapes import (
    content_id,
    decoded,
    first_name,
    mapping,
    messages_of,
    moment,
    name_of,
    sequence,
)
from assizes.judge.formats.shared.messages import (
    Talk,
    call_of,
    tools_of,
    usage_of,
    with_last_answer,
)

_CALLS: Final = ("tool_use", "server_tool_use", "mcp_tool_use")
_BLOCKS: Final = {*_CALLS, "tool_result", "thinking", "redacted_thinking"}
_RECORD: Final = {
    *IDS,
    *("system", "messages", "tools", "metadata", "usage", "model", "agent", "agent_version"),
    *("created_at", "timestamp", "response", "content", "role", "type", "stop_reason"),
    *("stop_sequence", "anthropic_version"),
}
_RESPONSE: Final = {"id", "model", "content", "role", "type", "usage", "stop_reason"}


class AnthropicMessages(Layout):
    """Messages of the Anthropic API."""

    name = "anthropic"

    def fits(self, value: dict[str, Any]) -> bool:
        """Messages beside a system prompt or a stop reason, or with blocks only this API has."""
        if not isinstance(value.get("messages"), list):
            return False
        if not value.keys().isdisjoint({"system", "stop_reason", "anthropic_version"}):
            return True
        return any(map(has_blocks, value["messages"])) or _declares(value.get("tools"))

    def read(self, value: Any) -> Case:
        """The case of one record.

        Raises:
            DataError: `schema`.
        """
        talk = Talk()
        talk.tally.unread(value, _RECORD, "record")
        talk.system(talk.text(value.get("system")))
        for place, message in enumerate(messages_of(value)):
            add_anthropic(mapping(message, f"messages.{place}"), talk, f"messages.{place}")
        answer = _answer(value, talk)
        told = mapping(value.get("metadata"), "metadata")
        return Case(
            case_id=first_name(value, IDS) or first_name(told, IDS) or content_id(value),
            transcript=Transcript(
                turns=with_last_answer(talk.turns, usage_of(answer.get("usage"))),
                system="\n\n".join(talk.systems) or None,
                tools=tools_of(sequence(value.get("tools"), "tools")),
                started_at=moment(value.get("created_at") or value.get("timestamp")),
            ),
            agent=name_of(value.get("agent")) or first_name(answer, ("model",)),
            agent_version=name_of(value.get("agent_version")),
            cluster=name_of(told.get("user_id")),
            metadata={**_others(told), **_stop(answer), **talk.metadata()},
        )


def has_blocks(message: Any) -> bool:
    """Whether a message holds blocks that only this API has."""
    content = message.get("content") if isinstance(message, dict) else None
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") in _BLOCKS for block in content
    )


def _declares(tools: Any) -> bool:
    return isinstance(tools, list) and any(
        isinstance(tool, dict) and "input_schema" in tool for tool in tools
    )


def _answer(value: dict[str, Any], talk: Talk) -> dict[str, Any]:
    """The response of a record, read into the talk; usage and model may stand in the record."""
    found = mapping(decoded(value.get("response")), "response")
    if found:
        talk.tally.unread(found, _RESPONSE, "response")
    else:
        found = value
    if found.get("content") is not None:
        add_anthropic({"role": "assistant", "content": found["content"]}, talk, "response")
    return {**value, **found}


def _others(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name != "user_id"}


def _stop(answer: dict[str, Any]) -> dict[str, Any]:
    reason = name_of(answer.get("stop_reason"))
    return {"stop_reason": reason} if reason else {}


def add_anthropic(message: dict[str, Any], talk: Talk, path: str = "message") -> None:
    """Read one message into a talk.

    Raises:
        DataError: `schema`, with the place.
    """
    role, content = message.get("role"), message.get("content")
    talk.tally.unread(message, {"role", "content"}, "message")
    if role == "system":
        talk.system(talk.text(content))
    elif role == "user":
        _add_user(content, talk)
    elif role == "assistant":
        _add_agent(content, path, talk)
    else:
        found = str(role)[:40]
        raise DataError("schema", f"{path}.role: found {found!r}, expected user, assistant, system")


def _add_user(content: Any, talk: Talk) -> None:
    """Results first, as turns of their tools; what is left was said by the user."""
    if not isinstance(content, list):
        talk.add(Turn(role="user", text=talk.text(content)))
        return
    results = [one for one in content if _kind(one) == "tool_result"]
    for block in results:
        _add_result(block, talk)
    said = [one for one in content if _kind(one) != "tool_result"]
    if said or not results:
        talk.add(Turn(role="user", text=talk.text(said) if said else None))


def _add_result(block: dict[str, Any], talk: Talk) -> None:
    known = {"type", "tool_use_id", "content", "is_error", "cache_control"}
    talk.tally.unread(block, known, "tool_result")
    content, failed = block.get("content"), block.get("is_error") is True
    talk.result(content, block.get("tool_use_id"), is_error=failed or _is_error(content))


def _is_error(content: Any) -> bool:
    return isinstance(content, dict) and str(content.get("type", "")).endswith("_error")


def _add_agent(content: Any, path: str, talk: Talk) -> None:
    """A message of the agent; tools the provider ran itself answer inside it, and split it."""
    blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
    if content is None:
        blocks = []
    waiting: list[Any] = []
    for block in blocks:
        if _kind(block).endswith("_tool_result"):
            _add_blocks(waiting, path, talk)
            waiting = []
            _add_result(block, talk)
        else:
            waiting.append(block)
    if waiting or not blocks:
        _add_blocks(waiting, path, talk)


def _add_blocks(blocks: list[Any], path: str, talk: Talk) -> None:
    thought: list[str] = []
    calls: list[ToolCall] = []
    said: list[Any] = []
    for block in blocks:
        if _kind(block) in _CALLS:
            calls.append(call_of(block.get("name"), block.get("input"), block.get("id"), path=path))
        elif _kind(block) == "redacted_thinking":
            talk.tally.count("dropped", "redacted_thinking")
        else:
            said.append(block)
    text = talk.text(said, thought) if said else None
    # Thinking alone leaves nothing that was said.
    talk.add(Turn(role="assistant", text=text or None, tool_calls=tuple(calls)), thought)


def _kind(block: Any) -> str:
    return str(block.get("type", "")) if isinstance(block, dict) else ""
