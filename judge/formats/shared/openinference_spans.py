"""One span with the attributes of OpenInference, whose keys are flattened, as a span of a conversation."""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.case import ToolResult, Turn, Usage
from assizes.judge.formats.readers.openai_chat import add_messages
from assizes.judge.formats.shared.fidelity import Tally
from assizes.judge.formats.shared.genai_spans import chunks_of
from assizes.judge.formats.shared.json_shapes import (
    as_text,
    decoded,
    mapping,
    moment,
    name_of,
    sequence,
    tokens,
)
from assizes.judge.formats.shared.messages import Talk, call_of, tools_of
from assizes.judge.formats.shared.otlp import nested
from assizes.judge.formats.shared.spans import Kind, Span

_KINDS: Final[dict[str, Kind]] = {
    "LLM": "llm",
    "AGENT": "agent",
    "CHAIN": "agent",
    "TOOL": "tool",
    "RETRIEVER": "retriever",
}


def openinference_span(plain: dict[str, Any], tally: Tally) -> Span:
    """A span; guardrails, embeddings, rerankers and evaluators are of kind `other`.

    Raises:
        DataError: `schema`.
    """
    attributes = plain["attributes"]
    kind: Kind = _KINDS.get(str(attributes["openinference.span.kind"]).upper(), "other")
    span = Span(
        id=str(plain["id"]),
        parent=name_of(plain["parent"]),
        trace=str(plain["trace"]),
        kind=kind,
        start=moment(plain["start"]),
        end=moment(plain["end"]),
    )
    if kind == "llm":
        _read_model_call(span, attributes, tally)
    elif kind == "tool":
        _read_tool(span, attributes, failed=plain["failed"])
    elif kind == "retriever":
        span.chunks = chunks_of(nested(attributes, "retrieval.documents"))
    elif kind == "agent":
        span.asked = _said("user", attributes.get("input.value"))
        span.answered = _said("assistant", attributes.get("output.value"))
    return span


def _read_model_call(span: Span, attributes: dict[str, Any], tally: Tally) -> None:
    asked, answered = Talk(tally), Talk(tally)
    for side, talk in (("input", asked), ("output", answered)):
        listed = nested(attributes, f"llm.{side}_messages")
        for one in sequence(listed or None, f"llm.{side}_messages"):
            add_messages([_message(mapping(one, side))], talk)
    span.asked, span.answered = tuple(asked.turns), tuple(answered.turns)
    span.systems = tuple(asked.systems)
    declared = sequence(nested(attributes, "llm.tools") or None, "llm.tools")
    schemas = [
        decoded(mapping(mapping(one, "llm.tools").get("tool"), "tool").get("json_schema"))
        for one in declared
    ]
    span.tools = tools_of([one for one in schemas if isinstance(one, dict)])
    used = (
        tokens(attributes.get("llm.token_count.prompt")),
        tokens(attributes.get("llm.token_count.completion")),
    )
    span.usage = Usage(input_tokens=used[0], output_tokens=used[1]) if any(used) else None


def _message(found: dict[str, Any]) -> dict[str, Any]:
    """A message in the shape of chat completions."""
    told = mapping(found.get("message"), "message")
    calls = [
        mapping(mapping(one, "tool_calls").get("tool_call"), "tool_call")
        for one in sequence(told.pop("tool_calls", None), "tool_calls")
    ]
    parts = [
        _part(mapping(mapping(one, "contents").get("message_content"), "message_content"))
        for one in sequence(told.pop("contents", None), "contents")
    ]
    content = told.pop("content", None)
    return {**told, "content": parts or content, **({"tool_calls": calls} if calls else {})}


def _part(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "type": str(found.get("type", "text"))}


def _read_tool(span: Span, attributes: dict[str, Any], *, failed: bool) -> None:
    arguments = attributes.get("tool.parameters", attributes.get("input.value"))
    call_id = attributes.get("tool_call.id", attributes.get("tool.id"))
    span.call = call_of(attributes.get("tool.name") or "tool", decoded(arguments), call_id)
    answer = as_text(attributes.get("output.value"))
    span.result = ToolResult(
        content=answer, call_id=span.call.id, name=span.call.name, is_error=failed
    )


def _said(role: str, value: Any) -> tuple[Turn, ...]:
    """What an agent was asked or answered, where that is plain text or an object with one text."""
    found = decoded(value)
    if isinstance(found, dict):
        texts = [one for one in found.values() if isinstance(one, str)]
        found = texts[0] if len(texts) == 1 else found
    text = as_text(found)
    return (Turn.model_validate({"role": role, "text": text}),) if text else ()
