"""Spans as OpenTelemetry writes them down, brought to one plain shape: OTLP/JSON, or one span an object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from assizes.judge.errors import DataError
from assizes.judge.formats.shared.json_shapes import decode_if_json, mapping, sequence

RESOURCE_SPANS: Final = ("resourceSpans", "resource_spans")
_SCOPE_SPANS: Final = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
_CONTEXT: Final = ("context", "spanContext", "span_context")

_INT: Final = re.compile(r"-?[0-9]{1,19}")
_DEEPEST: Final = 32
"""So many dots of a flattened key are levels; any more are part of the last name."""


def plain_spans(value: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The spans of one object: id, parent, trace, name, start, end, attributes, events, failed.

    Raises:
        DataError: `schema`, for an object that is none of the shapes.
    """
    resources = _first_present(value, RESOURCE_SPANS)
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
    for scope in sequence(_first_present(resource, _SCOPE_SPANS), "scopeSpans"):
        for span in sequence(mapping(scope, "scopeSpans").get("spans"), "spans"):
            span_fields = mapping(span, "spans")
            plain = _plain(span_fields, attributes_of(span_fields.get("attributes")))
            plain["events"] = [
                {"name": event.get("name"), "attributes": attributes_of(event.get("attributes"))}
                for event in (mapping(entry, "events") for entry in plain["events"])
            ]
            yield plain | ({"version": version} if version else {})


def _plain(span: dict[str, Any], attributes: dict[str, Any]) -> dict[str, Any]:
    context = mapping(_first_present(span, _CONTEXT), "context")
    status = span.get("status")
    code = status.get("code", status.get("status_code")) if isinstance(status, dict) else status
    return {
        "id": _first_present_in(context, span, ("span_id", "spanId")),
        "trace": _first_present_in(context, span, ("trace_id", "traceId")),
        "parent": _first_present(span, ("parent_id", "parentId", "parent_span_id", "parentSpanId")),
        "name": span.get("name"),
        "start": _first_present(
            span, ("start_time", "startTime", "startTimeUnixNano", "start_time_unix_nano")
        ),
        "end": _first_present(
            span, ("end_time", "endTime", "endTimeUnixNano", "end_time_unix_nano")
        ),
        "attributes": attributes,
        "events": sequence(span.get("events"), "events"),
        "failed": str(code if code is not None else span.get("status_code"))
        .upper()
        .endswith(("ERROR", "2")),
    }


def _first_present_in(first: dict[str, Any], second: dict[str, Any], names: tuple[str, ...]) -> Any:
    value = _first_present(first, names)
    return value if value is not None else _first_present(second, names)


def _first_present(fields: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((fields[name] for name in names if fields.get(name) is not None), None)


def attributes_of(value: Any) -> dict[str, Any]:
    """Attributes as a plain object, from OTLP's list of typed values.

    Raises:
        DataError: `schema`.
    """
    if isinstance(value, dict):
        return value
    entries = (mapping(entry, "attributes") for entry in sequence(value, "attributes"))
    return {str(entry.get("key")): _value(entry.get("value")) for entry in entries}


def _value(typed_value: Any) -> Any:
    if not isinstance(typed_value, dict) or len(typed_value) != 1:
        return typed_value
    ((kind, value),) = typed_value.items()
    if kind == "intValue":
        return int(value) if _INT.fullmatch(str(value)) else value
    if kind == "arrayValue":
        return [_value(item) for item in sequence(mapping(value, kind).get("values"), kind)]
    if kind == "kvlistValue":
        return attributes_of(mapping(value, kind).get("values"))
    return value


def nested_values(attributes: dict[str, Any], prefix: str) -> Any:
    """What flattened keys such as `a.0.b.c` say below a prefix: objects, and lists for numbers.

    Openinference writes messages so.
    """
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        if key.startswith(f"{prefix}."):
            _insert(tree, key[len(prefix) + 1 :].split(".", _DEEPEST), value)
    return _lists(tree)


def _insert(node: dict[str, Any], steps: list[str], value: Any) -> None:
    for step in steps[:-1]:
        below = node.setdefault(step, {})
        if not isinstance(below, dict):
            return
        node = below
    node.setdefault(steps[-1], decode_if_json(value) if steps[-1] != "content" else value)


def _lists(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    if tree and all(_INT.fullmatch(key) for key in tree):
        return [_lists(tree[key]) for key in sorted(tree, key=int)]
    return {key: _lists(value) for key, value in tree.items()}
