"""A receiver of logs over OTLP/HTTP that checks each event by the semantic conventions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tests.doubles.json_server import Reply, Request

KNOWN = {
    "gen_ai.evaluation.name": "stringValue",
    "gen_ai.evaluation.score.value": "doubleValue",
    "gen_ai.evaluation.score.label": "stringValue",
    "gen_ai.evaluation.explanation": "stringValue",
    "gen_ai.response.id": "stringValue",
    "gen_ai.conversation.id": "stringValue",
    "error.type": "stringValue",
}


@dataclass
class OtlpLogs:
    """The events that arrived, each as its record with `values`, its attributes as plain values."""

    events: list[dict[str, Any]] = field(default_factory=list)
    partial: dict[str, Any] | None = None

    def answer(self, request: Request) -> Reply:
        assert (request.method, request.path) == ("POST", "/v1/logs")
        assert request.headers["content-type"] == "application/json"
        if request.headers.get("x-key") != "otlp secret":
            return Reply(401, {"message": "no key"})
        if request.body == {"resourceLogs": []}:  # asks whether events are taken
            return Reply(200, {})
        (resource,) = request.body["resourceLogs"]
        (scope,) = resource["scopeLogs"]
        for record in scope["logRecords"]:
            self.events.append({**record, "values": _checked(record)})
        return Reply(200, {"partialSuccess": self.partial} if self.partial else {})


def _checked(record: dict[str, Any]) -> dict[str, Any]:
    assert record["eventName"] == "gen_ai.evaluation.result"
    assert record["severityNumber"] == 9
    assert re.fullmatch(r"\d{19}", record["timeUnixNano"])
    values: dict[str, Any] = {}
    for attribute in record["attributes"]:
        ((kind, value),) = attribute["value"].items()
        key = attribute["key"]
        assert key not in values
        assert KNOWN.get(key, "stringValue") == kind
        assert key in KNOWN or key.startswith("assizes.")
        values[key] = value
    assert values["gen_ai.evaluation.name"]
    has_score = (
        "gen_ai.evaluation.score.value" in values or "gen_ai.evaluation.score.label" in values
    )
    assert has_score != ("error.type" in values)
    assert re.fullmatch(r"[0-9a-f]{32}", record.get("traceId", "0" * 32))
    assert "spanId" not in record or ("traceId" in record and len(record["spanId"]) == 16)
    # Parented where a span is known, else the response or the conversation is named.
    named = {"gen_ai.response.id", "gen_ai.conversation.id"} & values.keys()
    assert "traceId" in record or named
    return values
