"""Events `gen_ai.evaluation.result` as log records over OTLP, for every other place that takes them.

A log record has no key by which a server could tell a repeat, so an event arrives at least once: it
is sent again only where the answer to it was lost. Its attribute `assizes.delivery_id` tells repeats.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from assizes.judge.errors import ConfigurationError
from assizes.judge.privacy.secret_masking import mask_credentials, register_secrets
from assizes.tasks.publishing.destination import chunks, one_line, refusal
from assizes.tasks.publishing.entry import (
    DeliveryAnswer,
    LabelThere,
    Parcel,
    TraceTarget,
    traces_of,
)
from assizes.tasks.trace_stores.connection import ServerConnection
from assizes.tasks.trace_stores.http_client import JsonClient, TraceStoreError

EVENT: Final = "gen_ai.evaluation.result"
_SEVERITY: Final = 9  # INFO
_TRACE: Final = re.compile(r"[0-9a-f]{32}")
_SPAN: Final = re.compile(r"[0-9a-f]{16}")
_SAFE_TO_REPEAT: Final = (429, 502, 503, 504)  # the specification: the server took nothing


class Otlp:
    """The receiver of logs that the variables of the OpenTelemetry SDK name."""

    batch_size: Final = 100

    def __init__(
        self, client: JsonClient | None = None, environment: Mapping[str, str] = os.environ
    ) -> None:
        base_url, self._path, headers = _receiver(environment)
        self._client = client or JsonClient(ServerConnection("otlp", base_url, headers))
        self.uri = f"otlp at {base_url}{self._path}"

    def target(self, case: dict[str, Any], given: TraceTarget) -> TraceTarget | None:
        """The ids that the case states, else its own id as that of a trace or a conversation."""
        if given.session_id and (traces := traces_of(case)):
            return replace(given, trace_id=given.trace_id or traces[-1])
        if given != TraceTarget():
            return given
        case_id = case["case_id"].removeprefix("tr-")
        if _TRACE.fullmatch(case_id):
            return TraceTarget(trace_id=case_id)
        return TraceTarget(session_id=case["case_id"])

    def takes_span(self, span_id: str) -> bool:
        """An event can belong to a span, whose id has 16 hex digits."""
        return _SPAN.fullmatch(span_id) is not None

    def send(self, parcels: Sequence[Parcel]) -> Iterator[tuple[Parcel, DeliveryAnswer]]:
        """Send the events, in requests of bounded size."""
        for chunk in chunks(parcels, _record):
            records = [record for _, record in chunk]
            yield from zip((parcel for parcel, _ in chunk), self._send(records), strict=True)

    def withdraw(self, row: dict[str, Any]) -> DeliveryAnswer:
        """Nothing can be deleted over OTLP."""
        return DeliveryAnswer("sent", row["remote_id"], "OTLP has no way to delete")

    def write_access(self) -> str:
        """Send a request without events, as the protocol allows it."""
        self._client.request("POST", self._path, body={"resourceLogs": []})
        return "it takes events"

    def labels(self, targets: Sequence[TraceTarget]) -> Iterator[LabelThere]:
        """Refuse: a receiver of logs can only be written to."""
        raise ConfigurationError(
            "otlp: labels cannot be read over OTLP; accepted: langfuse://, mlflow://, phoenix://"
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send(self, records: list[dict[str, Any]]) -> list[DeliveryAnswer]:
        scope = {"name": "assizes", "version": version("assizes")}
        resource = {"attributes": [_attribute("service.name", "assizes")]}
        logs = {"resource": resource, "scopeLogs": [{"scope": scope, "logRecords": records}]}
        try:
            # Repeated only where the server says that it took nothing.
            answer = self._client.request(
                "POST", self._path, body={"resourceLogs": [logs]}, repeated=_SAFE_TO_REPEAT
            )
        except TraceStoreError as error:
            return [refusal(error)] * len(records)
        body = answer.body if isinstance(answer.body, dict) else {}
        partial = body.get("partialSuccess") or {}
        rejected = int(partial.get("rejectedLogRecords") or 0)
        if rejected >= len(records):
            return [
                DeliveryAnswer("refused", detail=one_line(str(partial.get("errorMessage"))))
            ] * len(records)
        # Which ones were rejected, the protocol does not say; they must not be sent again.
        count = f"{rejected} of {len(records)} events of one request were rejected"
        detail = one_line(f"{count}: {partial.get('errorMessage')}") if rejected else ""
        return [DeliveryAnswer("sent", detail=detail)] * len(records)


def _record(parcel: Parcel) -> dict[str, Any]:
    """A log record in the JSON encoding of OTLP: ids in hexadecimal digits, 64-bit numbers as text."""
    finding, target = parcel.finding, parcel.target
    nanoseconds = str(_nanoseconds(finding.at))
    attributes: dict[str, Any] = {
        "gen_ai.evaluation.name": finding.name,
        "gen_ai.evaluation.score.value": finding.value,
        "gen_ai.evaluation.score.label": finding.label,
        "gen_ai.evaluation.explanation": finding.explanation,
        "error.type": finding.error,
        "gen_ai.response.id": target.response_id,
        "gen_ai.conversation.id": target.session_id,
        "assizes.annotator": finding.annotator,
        "assizes.source": finding.source,
        **parcel.metadata(),
    }
    record: dict[str, Any] = {
        "timeUnixNano": nanoseconds,
        "observedTimeUnixNano": nanoseconds,
        "severityNumber": _SEVERITY,
        "severityText": "INFO",
        "eventName": EVENT,
        "attributes": [_attribute(k, v) for k, v in attributes.items() if v is not None],
    }
    trace_id = (target.trace_id or "").removeprefix("tr-")
    if _TRACE.fullmatch(trace_id):
        record["traceId"] = trace_id
        if target.span_id and _SPAN.fullmatch(target.span_id):
            record["spanId"] = target.span_id
    return record


def _attribute(key: str, value: str | float) -> dict[str, Any]:
    kind = "stringValue" if isinstance(value, str) else "doubleValue"
    return {"key": key, "value": {kind: value}}


def _nanoseconds(at: datetime) -> int:
    since = at - datetime(1970, 1, 1, tzinfo=UTC)
    return ((since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds) * 1_000


def _receiver(environment: Mapping[str, str]) -> tuple[str, str, dict[str, str]]:
    """The address of the server, the path of its logs, and headers, as the SDK reads them."""
    own = environment.get("OTEL_EXPORTER_OTLP_LOGS_ENDPOINT", "")
    shared = environment.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    name = "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT" if own else "OTEL_EXPORTER_OTLP_ENDPOINT"
    if not own and not shared:
        raise ConfigurationError(
            "otlp: no receiver; set OTEL_EXPORTER_OTLP_ENDPOINT to its address for OTLP over HTTP, "
            "such as http://localhost:4318"
        )
    written = own or f"{shared.rstrip('/')}/v1/logs"
    parts = urlsplit(written)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
        raise ConfigurationError(
            f"{name} is {mask_credentials(own or shared)!r}; give an address such as "
            "http://localhost:4318, and keys in OTEL_EXPORTER_OTLP_HEADERS"
        )
    return f"{parts.scheme}://{parts.netloc}", parts.path or "/", _headers(environment)


def _headers(environment: Mapping[str, str]) -> dict[str, str]:
    """The headers of both variables, `key=value` with commas between; those of logs win."""
    headers: dict[str, str] = {}
    for name in ("OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_LOGS_HEADERS"):
        for pair in environment.get(name, "").split(","):
            key, parted, value = pair.partition("=")
            if parted and key.strip():
                plain = unquote(value).strip()
                register_secrets([value.strip(), plain, plain.rpartition(" ")[2]])
                headers[unquote(key).strip().lower()] = plain
    return headers
