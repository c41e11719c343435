"""Spans of OpenTelemetry, with GenAI or OpenInference attributes, as spans of a conversation.

Each span first gets one plain shape, from OTLP/JSON or from one span an object. OpenInference
flattens messages into keys such as `llm.input_messages.0.message.role`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from assizes.judge.case import Chunk, ToolCall, ToolResult, Turn
from assizes.judge.errors import DataError
from assizes.judge.formats.shared.json_shapes import (
    as_text,
    decode_if_json,
    first_present,
    mapping,
    name_of,
    objects,
    sequence,
)
from assizes.judge.formats.shared.messages import ConversationBuilder, call_of, tools_of, usage_of
from assizes.judge.formats.shared.parsing import FidelityCounter
from assizes.judge.formats.shared.provider_messages import add_genai_message, add_openai_messages
from assizes.judge.formats.shared.spans import Kind, TraceSpan, span_of

RESOURCE_SPANS: Final = ("resourceSpans", "resource_spans")
_SCOPE_SPANS: Final = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
_CONTEXT: Final = ("context", "spanContext", "span_context")
_PARENT_IDS: Final = ("parent_id", "parentId", "parent_span_id", "parentSpanId")
_START_TIMES: Final = ("start_time", "startTime", "startTimeUnixNano", "start_time_unix_nano")
_END_TIMES: Final = ("end_time", "endTime", "endTimeUnixNano", "end_time_unix_nano")

_INT: Final = re.compile(r"-?[0-9]{1,19}")  # 64 bits; `int` raises beyond 4,300 digits
_MAX_LEVELS: Final = 32
"""Dots of a flattened key that separate levels; further dots belong to the last name."""

_GENAI_KINDS: Final[dict[str, Kind]] = {  # by gen_ai.operation.name
    **dict.fromkeys(("chat", "generate_content", "text_completion"), "llm"),
    **dict.fromkeys(("invoke_agent", "create_agent", "invoke_workflow"), "agent"),
    "execute_tool": "tool",
    "retrieval": "retriever",
}
_READ_CONTENTS: Final = {"gen_ai.input.messages", "gen_ai.output.messages"}
_TOKEN_ATTRIBUTES: Final = ("input_tokens", "output_tokens")  # behind gen_ai.usage.
_EVENT_ROLES: Final = {
    **{f"gen_ai.{role}.message": role for role in ("system", "user", "assistant", "tool")},
    "gen_ai.choice": "assistant",
}
_EVENT_FIELDS: Final = ("role", "content", "tool_calls", "tool_call_id", "name")
_OPENINFERENCE_KINDS: Final[dict[str, Kind]] = {
    "LLM": "llm",
    "AGENT": "agent",
    "CHAIN": "agent",
    "TOOL": "tool",
    "RETRIEVER": "retriever",
}


def plain_spans(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the spans of one object, in one plain shape.

    The keys of a span are `id`, `trace`, `parent`, `name`, `start`, `end`, `attributes` (an object),
    `events` (a list), `failed` (true or false) and, from OTLP, `version` of the service.

    Raises:
        DataError: `schema`, for an object that has neither attributes nor `resourceSpans`.
    """
    resources = first_present(value, RESOURCE_SPANS)
    if resources is not None:
        for resource in sequence(resources, "resourceSpans"):
            yield from _resource_spans(mapping(resource, "resourceSpans"))
    elif "attributes" in value:
        yield _plain(value, mapping(value["attributes"], "attributes"))
    else:
        raise DataError("schema", "record: no span: neither attributes nor resourceSpans")


def _resource_spans(resource: dict[str, Any]) -> Iterator[dict[str, Any]]:
    shared = attributes_of(mapping(resource.get("resource"), "resource").get("attributes"))
    version = shared.get("service.version")
    for scope in sequence(first_present(resource, _SCOPE_SPANS), "scopeSpans"):
        for span in sequence(mapping(scope, "scopeSpans").get("spans"), "spans"):
            span_fields = mapping(span, "spans")
            plain = _plain(span_fields, attributes_of(span_fields.get("attributes")))
            plain["events"] = [
                {
                    "name": event.get("name"),
                    "timestamp": event.get("timeUnixNano", event.get("time_unix_nano")),
                    "attributes": attributes_of(event.get("attributes")),
                }
                for event in (mapping(entry, "events") for entry in plain["events"])
            ]
            yield plain | ({"version": version} if version else {})


def _plain(span: dict[str, Any], attributes: dict[str, Any]) -> dict[str, Any]:
    context = mapping(first_present(span, _CONTEXT), "context")
    status = span.get("status")
    code = status.get("code", status.get("status_code")) if isinstance(status, dict) else status
    code = str(code if code is not None else span.get("status_code"))
    return {
        "id": _id_of(context, span, ("span_id", "spanId")),
        "trace": _id_of(context, span, ("trace_id", "traceId")),
        "parent": first_present(span, _PARENT_IDS),
        "name": span.get("name"),
        "start": first_present(span, _START_TIMES),
        "end": first_present(span, _END_TIMES),
        "attributes": attributes,
        "events": sequence(span.get("events"), "events"),
        # ERROR, STATUS_CODE_ERROR, StatusCode.ERROR, or its number in OTLP.
        "failed": code.upper().endswith(("ERROR", "2")),
    }


def _id_of(context: dict[str, Any], span: dict[str, Any], names: tuple[str, ...]) -> Any:
    in_context = first_present(context, names)
    return in_context if in_context is not None else first_present(span, names)


def attributes_of(value: Any) -> dict[str, Any]:
    """Return attributes as a plain object, from OTLP's list of typed values or from an object.

    Raises:
        DataError: `schema`, when the value has another type.
    """
    if isinstance(value, dict):
        return value
    entries = objects(value, "attributes")
    return {str(entry.get("key")): _value(entry.get("value")) for entry in entries}


def _value(typed_value: Any) -> Any:
    if not isinstance(typed_value, dict) or len(typed_value) != 1:  # not typed
        return typed_value
    ((kind, value),) = typed_value.items()
    if kind == "intValue":  # 64 bits, as text in OTLP/JSON
        return int(value) if _INT.fullmatch(str(value)) else value
    if kind == "arrayValue":
        return [_value(item) for item in sequence(mapping(value, kind).get("values"), kind)]
    if kind == "kvlistValue":
        return attributes_of(mapping(value, kind).get("values"))
    return value


def genai_span(plain: dict[str, Any], tally: FidelityCounter) -> TraceSpan:
    """Return a span of `plain_spans` as one of a conversation; the kind is `other` by default.

    Raises:
        DataError: `schema`, when an attribute has another type.
    """
    attributes = plain["attributes"]
    kind: Kind = _GENAI_KINDS.get(str(attributes.get("gen_ai.operation.name")), "other")
    for name, value in attributes.items():
        # Settings such as the temperature do not count.
        if name.startswith("gen_ai.") and name.endswith((".messages", ".message", ".content")):
            tally.count_unread({name: value}, _READ_CONTENTS, "span")
    input_builder, output_builder = ConversationBuilder(tally), ConversationBuilder(tally)
    instructions = decode_if_json(attributes.get("gen_ai.system_instructions"))
    input_builder.add_system(input_builder.text_of(instructions))
    for side, builder in (("input", input_builder), ("output", output_builder)):
        key = f"gen_ai.{side}.messages"
        for message in objects(decode_if_json(attributes.get(key)), key):
            add_genai_message(message, builder)
    if not input_builder.turns and not output_builder.turns:  # older emitters
        _read_events(plain["events"], input_builder, output_builder)
    compacted = attributes.get("gen_ai.conversation.compacted")
    end_reason = name_of(attributes.get("gen_ai.agent.invocation.end_reason"))
    span = span_of(plain, kind)
    definitions = decode_if_json(attributes.get("gen_ai.tool.definitions"))
    span.tools = tools_of(sequence(definitions, "tools"))
    span.usage = usage_of(
        {side: attributes.get(f"gen_ai.usage.{side}") for side in _TOKEN_ATTRIBUTES}
    )
    span.agent = name_of(attributes.get("gen_ai.agent.name"))
    span.message_id = name_of(attributes.get("gen_ai.response.id"))
    span.compacted = compacted is True or compacted == "true"
    span.metadata = {"end_reason": end_reason} if end_reason else {}
    span.set_messages(input_builder, output_builder)
    if kind == "tool":
        span.call, span.result = _tool_call_and_result(attributes, failed=plain["failed"])
    if kind == "retriever":
        span.chunks = chunks_of(decode_if_json(attributes.get("gen_ai.retrieval.documents")))
    return span


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
    if "gen_ai.tool.call.result" not in attributes and not failed:  # content is not recorded
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
    about = decode_if_json(inner.get("metadata"))
    about = about if isinstance(about, dict) else {}
    content = next(
        (inner[name] for name in ("page_content", "content", "text") if name in inner), None
    )
    source = next(
        (about[name] for name in ("doc_uri", "source", "url") if about.get(name)), inner.get("id")
    )
    return Chunk(content=as_text(content), doc_uri=name_of(source))


def openinference_span(plain: dict[str, Any], tally: FidelityCounter) -> TraceSpan:
    """Return a span of `plain_spans` as one of a conversation.

    Guardrails, embeddings, rerankers and evaluators get the kind `other`.

    Raises:
        DataError: `schema`, when an attribute has another type.
    """
    attributes = plain["attributes"]
    kind: Kind = _OPENINFERENCE_KINDS.get(
        str(attributes["openinference.span.kind"]).upper(), "other"
    )
    span = span_of(plain, kind)
    span.agent = name_of(attributes.get("agent.name"))
    if kind == "llm":
        _read_model_call(span, attributes, tally)
    elif kind == "tool":
        arguments = attributes.get("tool.parameters", attributes.get("input.value"))
        call_id = attributes.get("tool_call.id", attributes.get("tool.id"))
        name, answer = attributes.get("tool.name") or "tool", attributes.get("output.value")
        call = span.call = call_of(name, decode_if_json(arguments), call_id)
        span.result = ToolResult(
            content=as_text(answer), call_id=call.id, name=call.name, is_error=plain["failed"]
        )
    elif kind == "retriever":
        span.chunks = chunks_of(_nested_values(attributes, "retrieval.documents"))
    elif kind == "agent":
        span.input_turns = _text_turns("user", attributes.get("input.value"))
        span.output_turns = _text_turns("assistant", attributes.get("output.value"))
    return span


def _read_model_call(span: TraceSpan, attributes: dict[str, Any], tally: FidelityCounter) -> None:
    input_builder, output_builder = ConversationBuilder(tally), ConversationBuilder(tally)
    for side, builder in (("input", input_builder), ("output", output_builder)):
        entries = _nested_values(attributes, f"llm.{side}_messages")
        for entry in sequence(entries or None, f"llm.{side}_messages"):
            add_openai_messages([_chat_message(mapping(entry, side))], builder)
    span.set_messages(input_builder, output_builder)
    schemas = [
        decode_if_json(mapping(tool.get("tool"), "tool").get("json_schema"))
        for tool in objects(_nested_values(attributes, "llm.tools") or None, "llm.tools")
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
    contents = [
        mapping(part.get("message_content"), "message_content")
        for part in objects(message.pop("contents", None), "contents")
    ]
    parts = [{**part, "type": str(part.get("type", "text"))} for part in contents]
    content = message.pop("content", None)
    return {**message, "content": parts or content, **({"tool_calls": calls} if calls else {})}


def _text_turns(role: str, value: Any) -> tuple[Turn, ...]:
    """Return the input or output of an agent as a turn; an object with one text gives that text."""
    content = decode_if_json(value)
    if isinstance(content, dict):
        texts = [string for string in content.values() if isinstance(string, str)]
        content = texts[0] if len(texts) == 1 else content
    text = as_text(content)
    return (Turn.model_validate({"role": role, "text": text}),) if text else ()


def _nested_values(attributes: dict[str, Any], prefix: str) -> Any:
    """Return what stands under a prefix in flattened keys such as `a.0.b.c`.

    Names become keys of objects, numbers become places in lists.
    """
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        if key.startswith(f"{prefix}."):
            _insert(tree, key[len(prefix) + 1 :].split(".", _MAX_LEVELS), value)
    return _lists(tree)


def _insert(node: dict[str, Any], steps: list[str], value: Any) -> None:
    for step in steps[:-1]:
        below = node.setdefault(step, {})
        if not isinstance(below, dict):  # `a` beside `a.b`: the first of the two stays
            return
        node = below
    node.setdefault(steps[-1], decode_if_json(value) if steps[-1] != "content" else value)


def _lists(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if tree and all(_INT.fullmatch(key) for key in tree):
        # By number, not by place: a key such as `9999999999` must not make a list of that length.
        return [_lists(tree[key]) for key in sorted(tree, key=int)]
    return {key: _lists(value) for key, value in tree.items()}
