"""The part of SARIF 2.1.0 that `assizes ci` writes, as JSON Schema; nothing else is allowed."""

from __future__ import annotations

from typing import Any


def _object(required: tuple[str, ...], **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "required": list(required),
        "properties": properties,
        "additionalProperties": False,
    }


TEXT = {"type": "string"}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
MESSAGE = _object(("text",), text={"type": "string", "minLength": 1})
RULE = _object(("id",), id=TEXT, name=TEXT, shortDescription=MESSAGE)
DRIVER = _object(
    ("name",),
    name=TEXT,
    version=TEXT,
    rules={"type": "array", "uniqueItems": True, "items": RULE},
)
NOTIFICATION = _object(("message",), level=LEVEL, message=MESSAGE)
INVOCATION = _object(
    ("executionSuccessful",),
    executionSuccessful={"type": "boolean"},
    exitCode={"type": "integer"},
    exitCodeDescription=TEXT,
    toolExecutionNotifications={"type": "array", "items": NOTIFICATION},
)
PHYSICAL_LOCATION = _object(
    ("artifactLocation",),
    artifactLocation=_object(
        (), uri={"type": "string", "pattern": r"^[A-Za-z0-9%._~/-]+$"}, uriBaseId=TEXT
    ),
    region=_object((), startLine={"type": "integer", "minimum": 1}),
)
RESULT = _object(
    ("message",),
    ruleId=TEXT,
    ruleIndex={"type": "integer", "minimum": -1},
    level=LEVEL,
    message=MESSAGE,
    partialFingerprints={"type": "object", "additionalProperties": TEXT},
    baselineState={"enum": ["new", "unchanged", "updated", "absent"]},
    locations={
        "type": "array",
        "items": _object((), physicalLocation=PHYSICAL_LOCATION),
    },
)
RUN = _object(
    ("tool",),
    tool=_object(("driver",), driver=DRIVER),
    automationDetails=_object((), id=TEXT),
    invocations={"type": "array", "items": INVOCATION},
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    results={"type": "array", "items": RESULT},
)
SARIF: dict[str, Any] = _object(
    ("version", "runs"),
    **{"$schema": {"type": "string", "format": "uri"}},
    version={"const": "2.1.0"},
    runs={"type": "array", "items": RUN},
)
