"""Spans as OpenTelemetry writes them down, brought to one plain shape: OTLP/JSON, or one span an object."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from assizes.judge.errors import DataError
from assizes.judge.formats.shared.json_shapes import decoded, mapping, sequence

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
    resources = _either(value, RESOURCE_SPANS)
    if resources is not None:
        for resource in sequence(resources, "resourceSpans"):
            yield from _of_resource(mapping(resource, "resourceSpans"))
    elif "attributes" in value:
        yield _plain(value, mapping(value["attributes"], "attributes"))
    else:
        raise DataError("schema", "record: no span: neither attributes nor resourceSpans")


def _of_resource(resource: dict[str, Any]) -> Iterator[dict[str, Any]]:
    shared = attributes_of(mapping(resource.get("resource"), "resource").get("attributes"))
    version = shared.get("service.version")
    for scope in sequence(_either(resource, _SCOPE_SPANS), "scopeSpans"):
        for span in sequence(mapping(scope, "scopeSpans").get("spans"), "spans"):
            found = mapping(span, "spans")
            plain = _plain(found, attributes_of(found.get("attributes")))
            plain["events"] = [
                {"name": event.get("name"), "attributes": attributes_of(event.get("attributes"))}
                for event in (mapping(one, "events") for one in plain["events"])
            ]
            yield plain | ({"version": version} if version else {})


def _plain(span: dict[str, Any], attributes: dict[str, Any]) -> dict[str, Any]:
    context = mapping(_either(span, _CONTEXT), "context")
    status = span.get("status")
    code = status.get("code", status.get("status_code")) if isinstance(status, dict) else status
    return {
        "id": _any(context, span, ("span_id", "spanId")),
        "trace": _any(context, span, ("trace_id", "traceId")),
        "parent": _either(span, ("parent_id", "parentId", "parent_span_id", "parentSpanId")),
        "name": span.get("name"),
        "start": _either(
            span, ("start_time", "startTime", "startTimeUnixNano", "start_time_unix_nano")
        ),
        "end": _either(span, ("end_time", "endTime", "endTimeUnixNano", "end_time_unix_nano")),
        "attributes": attributes,
        "events": sequence(span.get("events"), "events"),
        "failed": str(code if code is not None else span.get("status_code"))
        .upper()
        .endswith(("ERROR", "2")),
    }


def _any(one: dict[str, Any], other: dict[str, Any], names: tuple[str, ...]) -> Any:
    found = _either(one, names)
    return found if found is not None else _either(other, names)


def _either(found: dict[str, Any], names: tuple[str, ...]) -> Any:
    return next((found[name] for name in names if found.get(name) is not None), None)


def attributes_of(found: Any) -> dict[str, Any]:
    """Attributes as a plain object, from OTLP's list of typed values.

    Raises:
        DataError: `schema`.
    """
    if isinstance(found, dict):
        return found
    listed = (mapping(one, "attributes") for one in sequence(found, "attributes"))
    return {str(one.get("key")): _value(one.get("value")) for one in listed}


def _value(found: Any) -> Any:
    if not isinstance(found, dict) or len(found) != 1:
        return found
    ((kind, value),) = found.items()
    if kind == "intValue":
        return int(value) if _INT.fullmatch(str(value)) else value
    if kind == "arrayValue":
        return [_value(one) for one in sequence(mapping(value, kind).get("values"), kind)]
    if kind == "kvlistValue":
        return attributes_of(mapping(value, kind).get("values"))
    return value


def nested(attributes: dict[str, Any], prefix: str) -> Any:
    """What flattened keys such as `a.0.b.c` say below a prefix: objects, and lists for numbers.

    Openinference writes messages so.
    """
    found: dict[str, Any] = {}
    for key, value in attributes.items():
        if key.startswith(f"{prefix}."):
            _put(found, key[len(prefix) + 1 :].split(".", _DEEPEST), value)
    return _lists(found)


def _put(found: dict[str, Any], steps: list[str], value: Any) -> None:
    for step in steps[:-1]:
        below = found.setdefault(step, {})
        if not isinstance(below, dict):
            return
        found = below
    found.setdefault(steps[-1], decoded(value) if steps[-1] != "content" else value)


def _lists(found: Any) -> Any:
    if not isinstance(found, dict):
        return found
    if found and all(_INT.fullmatch(key) for key in found):
        return [_lists(found[key]) for key in sorted(found, key=int)]
    return {key: _lists(value) for key, value in found.items()}
