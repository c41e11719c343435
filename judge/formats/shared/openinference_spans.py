"""Spans with the attributes of OpenInference, read into spans of a conversation.

OpenInference flattens messages into keys such as `llm.input_messages.0.message.role`.
"""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import ToolResult, Turn
from assizes.judge.formats.shared.fidelity import FidelityCounter
from assizes.judge.formats.shared.genai_spans import chunks_of
from assizes.judge.formats.shared.json_shapes import (
    as_text,
    decode_if_json,
    mapping,
    objects,
    sequence,
)
from assizes.judge.formats.shared.messages import ConversationBuilder, call_of, tools_of, usage_of
from assizes.judge.formats.shared.openai_messages import add_openai_messages
from assizes.judge.formats.shared.otlp import nested_values
from assizes.judge.formats.shared.spans import Kind, TraceSpan, span_of

_KINDS: Final[dict[str, Kind]] = {
    "LLM": "llm",
    "AGENT": "agent",
    "CHAIN": "agent",
    "TOOL": "tool",
    "RETRIEVER": "retriever",
}


def openinference_span(plain: dict[str, Any], tally: FidelityCounter) -> TraceSpan:
    """Return a span of a conversation.

    Guardrails, embeddings, rerankers and evaluators get the kind `other`.

    Args:
        plain: a span in the plain shape of `otlp.plain_spans`.
        tally: counts what the span holds besides the conversation.

    Raises:
        DataError: `schema`, when an attribute has another type.
    """
    attributes = plain["attributes"]
    kind: Kind = _KINDS.get(str(attributes["openinference.span.kind"]).upper(), "other")
    span = span_of(plain, kind)
    if kind == "llm":
        _read_model_call(span, attributes, tally)
    elif kind == "tool":
        _read_tool(span, attributes, failed=plain["failed"])
    elif kind == "retriever":
        span.chunks = chunks_of(nested_values(attributes, "retrieval.documents"))
    elif kind == "agent":
        span.input_turns = _text_turns("user", attributes.get("input.value"))
        span.output_turns = _text_turns("assistant", attributes.get("output.value"))
    return span


def _read_model_call(span: TraceSpan, attributes: dict[str, Any], tally: FidelityCounter) -> None:
    input_builder, output_builder = ConversationBuilder(tally), ConversationBuilder(tally)
    for side, builder in (("input", input_builder), ("output", output_builder)):
        entries = nested_values(attributes, f"llm.{side}_messages")
        for entry in sequence(entries or None, f"llm.{side}_messages"):
            add_openai_messages([_chat_message(mapping(entry, side))], builder)
    span.set_messages(input_builder, output_builder)
    schemas = [
        decode_if_json(mapping(tool.get("tool"), "tool").get("json_schema"))
        for tool in objects(nested_values(attributes, "llm.tools") or None, "llm.tools")
    ]
    span.tools = tools_of([schema for schema in schemas if isinstance(schema, dict)])
    span.usage = usage_of(
        {
            "input_tokens": attributes.get("llm.token_count.prompt"),
            "output_tokens": attributes.get("llm.token_count.completion"),
        }
    )


def _chat_message(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a message in the shape of chat completions."""
    message = mapping(entry.get("message"), "message")
    calls = [
        mapping(call.get("tool_call"), "tool_call")
        for call in objects(message.pop("tool_calls", None), "tool_calls")
    ]
    parts = [
        _part(mapping(part.get("message_content"), "message_content"))
        for part in objects(message.pop("contents", None), "contents")
    ]
    content = message.pop("content", None)
    return {**message, "content": parts or content, **({"tool_calls": calls} if calls else {})}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    return {**part, "type": str(part.get("type", "text"))}


def _read_tool(span: TraceSpan, attributes: dict[str, Any], *, failed: bool) -> None:
    arguments = attributes.get("tool.parameters", attributes.get("input.value"))
    call_id = attributes.get("tool_call.id", attributes.get("tool.id"))
    span.call = call_of(attributes.get("tool.name") or "tool", decode_if_json(arguments), call_id)
    answer = as_text(attributes.get("output.value"))
    span.result = ToolResult(
        content=answer, call_id=span.call.id, name=span.call.name, is_error=failed
    )


def _text_turns(role: str, value: Any) -> tuple[Turn, ...]:
    """Return the input or output of an agent as a turn; an object with one text gives that text."""
    content = decode_if_json(value)
    if isinstance(content, dict):
        texts = [string for string in content.values() if isinstance(string, str)]
        content = texts[0] if len(texts) == 1 else content
    text = as_text(content)
    return (Turn.model_validate({"role": role, "text": text}),) if text else ()
