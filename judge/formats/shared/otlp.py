"""Spans of OpenTelemetry in one plain shape, from OTLP/JSON or from one span an object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from assizes.judge.errors import DataError
from assizes.judge.formats.shared.json_shapes import (
    decode_if_json,
    first_present,
    mapping,
    objects,
    sequence,
)

RESOURCE_SPANS: Final = ("resourceSpans", "resource_spans")
_SCOPE_SPANS: Final = ("scopeSpans", "scope_spans", "instrumentationLibrarySpans")
_CONTEXT: Final = ("context", "spanContext", "span_context")
_PARENT_IDS: Final = ("parent_id", "parentId", "parent_span_id", "parentSpanId")
_START_TIMES: Final = ("start_time", "startTime", "startTimeUnixNano", "start_time_unix_nano")
_END_TIMES: Final = ("end_time", "endTime", "endTimeUnixNano", "end_time_unix_nano")

_INT: Final = re.compile(r"-?[0-9]{1,19}")
_MAX_LEVELS: Final = 32
"""Dots of a flattened key that separate levels; further dots belong to the last name."""


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
                {"name": event.get("name"), "attributes": attributes_of(event.get("attributes"))}
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
    """Return what stands under a prefix in flattened keys such as `a.0.b.c`.

    Names become keys of objects, numbers become places in lists. OpenInference writes its messages
    in such keys.
    """
    tree: dict[str, Any] = {}
    for key, value in attributes.items():
        if key.startswith(f"{prefix}."):
            _insert(tree, key[len(prefix) + 1 :].split(".", _MAX_LEVELS), value)
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
