"""Spans with the GenAI attributes of OpenTelemetry, read into spans of a conversation."""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import Chunk, ToolCall, ToolResult, Turn
from assizes.judge.formats.shared.fidelity import FidelityCounter
from assizes.judge.formats.shared.json_shapes import (
    as_text,
    decode_if_json,
    mapping,
    name_of,
    objects,
    sequence,
)
from assizes.judge.formats.shared.messages import ConversationBuilder, call_of, tools_of, usage_of
from assizes.judge.formats.shared.openai_messages import add_openai_messages
from assizes.judge.formats.shared.spans import Kind, TraceSpan, span_of

_KINDS: Final[dict[str, Kind]] = {
    **dict.fromkeys(("chat", "generate_content", "text_completion"), "llm"),
    **dict.fromkeys(("invoke_agent", "create_agent", "invoke_workflow"), "agent"),
    "execute_tool": "tool",
    "retrieval": "retriever",
}
_CALL_KINDS: Final = ("tool_call", "server_tool_call")
_RESULT_KINDS: Final = ("tool_call_response", "server_tool_call_response")
_RESULT_CONTENTS: Final = ("response", "result", "server_tool_call_response")
_KNOWN_ATTRIBUTES: Final = {
    *("gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions"),
    *("gen_ai.tool.definitions", "gen_ai.tool.name", "gen_ai.tool.call.id"),
    *("gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "gen_ai.conversation.id"),
    *("gen_ai.operation.name", "gen_ai.request.model", "gen_ai.agent.name"),
    *("gen_ai.agent.version", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"),
    *("gen_ai.conversation.compacted", "gen_ai.prompt", "gen_ai.completion"),
    *("gen_ai.retrieval.documents", "gen_ai.agent.invocation.end_reason"),
}
_TOKEN_ATTRIBUTES: Final = ("input_tokens", "output_tokens")
_EVENT_ROLES: Final = {
    **{f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")},
    "gen_ai.choice": "assistant",
}
_EVENT_FIELDS: Final = ("role", "content", "tool_calls", "tool_call_id", "name")


def genai_span(plain: dict[str, Any], tally: FidelityCounter) -> TraceSpan:
    """Return a span of a conversation; a span without an operation of GenAI has kind `other`.

    Args:
        plain: a span in the plain shape of `otlp.plain_spans`.
        tally: counts what the span holds besides the conversation.

    Raises:
        DataError: `schema`, when an attribute has another type.
    """
    attributes = plain["attributes"]
    kind: Kind = _KINDS.get(str(attributes.get("gen_ai.operation.name")), "other")
    _count_unread(attributes, tally)
    input_builder, output_builder = ConversationBuilder(tally), ConversationBuilder(tally)
    _read_messages(attributes, input_builder, output_builder)
    if not input_builder.turns and not output_builder.turns:
        _read_events(plain["events"], input_builder, output_builder)
    compacted = attributes.get("gen_ai.conversation.compacted")
    end_reason = name_of(attributes.get("gen_ai.agent.invocation.end_reason"))
    span = span_of(plain, kind)
    definitions = decode_if_json(attributes.get("gen_ai.tool.definitions"))
    span.tools = tools_of(sequence(definitions, "tools"))
    span.usage = usage_of(
        {side: attributes.get(f"gen_ai.usage.{side}") for side in _TOKEN_ATTRIBUTES}
    )
    span.compacted = compacted is True or compacted == "true"
    span.metadata = {"end_reason": end_reason} if end_reason else {}
    span.set_messages(input_builder, output_builder)
    if kind == "tool":
        span.call, span.result = _tool_call_and_result(attributes, failed=plain["failed"])
    if kind == "retriever":
        span.chunks = chunks_of(decode_if_json(attributes.get("gen_ai.retrieval.documents")))
    return span


def _count_unread(attributes: dict[str, Any], tally: FidelityCounter) -> None:
    """Count message attributes that are not read; settings such as the temperature do not count."""
    for name, value in attributes.items():
        if name.startswith("gen_ai.") and name.endswith((".messages", ".message", ".content")):
            tally.count_unread({name: value}, _KNOWN_ATTRIBUTES, "span")


def _read_messages(
    attributes: dict[str, Any],
    input_builder: ConversationBuilder,
    output_builder: ConversationBuilder,
) -> None:
    instructions = decode_if_json(attributes.get("gen_ai.system_instructions"))
    input_builder.add_system(input_builder.text_of(instructions))
    for name, builder in (("input", input_builder), ("output", output_builder)):
        key = f"gen_ai.{name}.messages"
        for message in objects(decode_if_json(attributes.get(key)), key):
            add_genai_message(message, builder)


def add_genai_message(message: dict[str, Any], builder: ConversationBuilder) -> None:
    """Add a message that consists of parts; each tool result in it becomes a turn of its own.

    Raises:
        DataError: `schema`, when a field has another type.
    """
    parts = objects(message.get("parts"), "parts")
    if not parts and message.get("content") is not None:
        add_openai_messages([message], builder)
        return
    role, content_parts, calls = message.get("role"), list[Any](), list[ToolCall]()
    for part in parts:
        kind = part.get("type")
        if kind in _CALL_KINDS:
            arguments = part.get("arguments", part.get("server_tool_call"))
            calls.append(call_of(part.get("name"), arguments, part.get("id")))
        elif kind in _RESULT_KINDS:
            content = next((part[name] for name in _RESULT_CONTENTS if name in part), None)
            builder.add_result(content, part.get("id"))
        else:
            content_parts.append(part)
    if role in ("system", "developer"):
        builder.add_system(builder.text_of(content_parts))
    elif content_parts or calls:
        _add_turn(role, content_parts, calls, builder)


def _add_turn(
    role: Any, content_parts: list[Any], calls: list[ToolCall], builder: ConversationBuilder
) -> None:
    thoughts: list[str] = []
    text = builder.text_of(content_parts, thoughts) if content_parts else None
    known_role = role if role in ("user", "assistant") else ("assistant" if calls else "user")
    if known_role != role:
        builder.tally.count("moved", f"role {str(role)[:20]}")
    fields = {"role": known_role, "text": text or None, "tool_calls": tuple(calls)}
    builder.add_turn(Turn.model_validate(fields), thoughts)


def _read_events(
    events: Any, input_builder: ConversationBuilder, output_builder: ConversationBuilder
) -> None:
    """Read messages that stand in events, one in each: emitters did so until conventions 1.36."""
    for event in objects(events, "events"):
        role = _EVENT_ROLES.get(str(event.get("name")))
        if role is None:
            continue
        attributes = mapping(event.get("attributes"), "events.attributes")
        body = {
            name.removeprefix("gen_ai."): decode_if_json(value)
            for name, value in attributes.items()
        }
        body = {**body, **mapping(event.get("body"), "events.body")}
        inner = body.get("message")
        message = {**(inner if isinstance(inner, dict) else body), "role": role}
        message["tool_call_id"] = message.get("tool_call_id", message.get("id"))
        builder = output_builder if event["name"] == "gen_ai.choice" else input_builder
        known = {name: message[name] for name in _EVENT_FIELDS if name in message}
        add_openai_messages([known], builder)


def _tool_call_and_result(
    attributes: dict[str, Any], *, failed: bool
) -> tuple[ToolCall, ToolResult | None]:
    name, call_id = attributes.get("gen_ai.tool.name"), attributes.get("gen_ai.tool.call.id")
    call = call_of(name or "tool", attributes.get("gen_ai.tool.call.arguments"), call_id)
    if "gen_ai.tool.call.result" not in attributes and not failed:
        return call, None
    answer = as_text(attributes.get("gen_ai.tool.call.result", attributes.get("error.type")))
    return call, ToolResult(content=answer, call_id=call.id, name=call.name, is_error=failed)


def chunks_of(passages: Any) -> tuple[Chunk, ...]:
    """Return retrieved passages, whose text and source have other names in each framework."""
    return tuple(_chunk(passage) for passage in passages) if isinstance(passages, list) else ()


def _chunk(passage: Any) -> Chunk:
    if not isinstance(passage, dict):
        return Chunk(content=as_text(passage))
    inner = mapping(passage.get("document"), "document") or passage
    about = inner.get("metadata")
    about = decode_if_json(about) if isinstance(decode_if_json(about), dict) else {}
    content = next(
        (inner[name] for name in ("page_content", "content", "text") if name in inner), None
    )
    source = next(
        (about[name] for name in ("doc_uri", "source", "url") if about.get(name)), inner.get("id")
    )
    return Chunk(content=as_text(content), doc_uri=name_of(source))
