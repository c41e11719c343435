"""Reads traces of an MLflow experiment: a page of their infos, then the spans of each batch."""

from __future__ import annotations

import base64
import binascii
import json
from datetime import datetime, timedelta
from typing import Any, Final

from assizes.tasks.trace_stores.http_client import JsonClient
from assizes.tasks.trace_stores.marks import is_own_score
from assizes.tasks.trace_stores.reading import (
    PageSize,
    TimeWindow,
    TracePage,
    TracePiece,
    no_project,
    rows_of,
    text_of,
)

_TRACES: Final = "/api/3.0/mlflow/traces"
_EXPERIMENTS: Final = "/api/2.0/mlflow/experiments"
_ARTIFACT: Final = "/ajax-api/2.0/mlflow/get-trace-artifact"
_PAGE: Final = 100  # traces
_BATCH: Final = 10  # traces whose spans come in one answer
_VOLATILE: Final = frozenset({"mlflow.artifactLocation", "mlflow.trace.infoFinalized"})


class MlflowReader:
    """An experiment on an MLflow server, named by its name or its id."""

    margin: Final = timedelta(0)

    def __init__(self, client: JsonClient, experiment: str) -> None:
        self._client, self._experiment = client, experiment
        self._size = PageSize(_BATCH)
        self._experiment_id: str | None = None  # not asked for yet

    def check(self) -> None:
        """Look the experiment up."""
        self._find_experiment()

    def page(self, window: TimeWindow, cursor: str | None) -> TracePage:
        """A page of traces, oldest first."""
        bounds = [f"trace.timestamp_ms < {_milliseconds(window.until)}"]
        if window.since is not None:
            bounds.append(f"trace.timestamp_ms >= {_milliseconds(window.since)}")
        place = {"experiment_id": self._find_experiment()}
        body: dict[str, Any] = {
            "locations": [{"type": "MLFLOW_EXPERIMENT", "mlflow_experiment": place}],
            "filter": " AND ".join(bounds),
            "max_results": _PAGE,
            "order_by": ["timestamp_ms ASC"],
            **({"page_token": cursor} if cursor else {}),
        }
        answer = self._client.request("POST", f"{_TRACES}/search", body=body).body
        infos = rows_of(answer, "traces", f"{_TRACES}/search")
        spans = self._spans(infos)
        pieces = [_piece(info, spans.get(str(info.get("trace_id")), [])) for info in infos]
        return TracePage(pieces, text_of(answer.get("next_page_token")))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _find_experiment(self) -> str:
        if self._experiment_id is None:
            name = self._experiment
            path = f"{_EXPERIMENTS}/get-by-name"
            answer = self._client.request(
                "GET", path, params={"experiment_name": name}, accepted=(404,)
            )
            if answer.status == 404 and name.isascii() and name.isdigit():
                path = f"{_EXPERIMENTS}/get"
                answer = self._client.request(
                    "GET", path, params={"experiment_id": name}, accepted=(404,)
                )
            if answer.status == 404:
                server = f"mlflow at {self._client.connection.base_url}"
                raise no_project("experiment", name, server)
            experiment = (answer.body or {}).get("experiment") or {}
            self._experiment_id = str(experiment.get("experiment_id"))
        return self._experiment_id

    def _spans(self, infos: list[dict[str, Any]]) -> dict[str, list[Any]]:
        """The spans of traces, by trace id: from the tracking store, or from files beside it."""
        stored = [str(info.get("trace_id")) for info in infos if _is_in_tracking_store(info)]
        spans: dict[str, list[Any]] = {}
        path = f"{_TRACES}/batchGet"
        while stored:
            asked = list(stored)
            body = self._size.ask(lambda rows: self._client.get(path, {"trace_ids": asked[:rows]}))  # noqa: B023
            stored = stored[self._size.rows :]
            for trace in rows_of(body, "traces", path):
                trace_id = str((trace.get("trace_info") or {}).get("trace_id"))
                spans[trace_id] = [_span(row) for row in rows_of(trace, "spans", "batchGet")]
        for info in infos:
            trace_id = str(info.get("trace_id"))
            if trace_id not in spans and not _is_in_tracking_store(info):
                answer = self._client.request(
                    "GET", _ARTIFACT, params={"request_id": trace_id}, accepted=(404, 500)
                )
                # A trace that is still written has no file yet; its case is then a reject.
                body = answer.body if answer.status == 200 else {}
                spans[trace_id] = [_with_hex_ids(row) for row in rows_of(body, "spans", _ARTIFACT)]
        return spans


def _milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def _is_in_tracking_store(info: dict[str, Any]) -> bool:
    return (info.get("tags") or {}).get("mlflow.trace.spansLocation") == "TRACKING_STORE"


def _piece(info: dict[str, Any], spans: list[Any]) -> TracePiece:
    assessments = sorted(
        (
            row
            for row in rows_of(info, "assessments", "info.assessments")
            if not is_own_score(row.get("metadata"))
        ),
        key=lambda row: str(row.get("assessment_id")),
    )
    kept = {
        **info,
        **({"assessments": assessments} if assessments else {}),
        "tags": {k: v for k, v in (info.get("tags") or {}).items() if k not in _VOLATILE},
    }
    if not assessments:
        kept.pop("assessments", None)
    session = text_of((info.get("trace_metadata") or {}).get("mlflow.trace.session"))
    value = {"info": kept, "data": {"spans": sorted(spans, key=_span_order)}}
    trace_id = str(info.get("trace_id"))
    return TracePiece(trace_id, session, "", str(info.get("request_time") or ""), value)


def _span_order(span: dict[str, Any]) -> tuple[int, str]:
    start = span.get("start_time_unix_nano")
    return (start if isinstance(start, int) else 0, str(span.get("span_id")))


def _span(row: dict[str, Any]) -> dict[str, Any]:
    """A span of the tracking store, in the shape of the files: attributes are JSON texts."""
    attributes = {
        str(entry.get("key")): json.dumps(_plain(entry.get("value")), ensure_ascii=False)
        for entry in rows_of(row, "attributes", "attributes")
    }
    return _with_hex_ids({**row, "attributes": attributes})


def _plain(value: Any) -> Any:
    """The value of an OTLP attribute."""
    if not isinstance(value, dict) or len(value) != 1:
        return None if value == {} else value
    ((kind, inner),) = value.items()
    if kind == "array_value":
        return [_plain(item) for item in (inner or {}).get("values") or []]
    if kind == "kvlist_value":
        entries = (inner or {}).get("values") or []
        return {str(entry.get("key")): _plain(entry.get("value")) for entry in entries}
    return inner


def _with_hex_ids(span: dict[str, Any]) -> dict[str, Any]:
    """The span with its ids in hexadecimal digits, as OpenTelemetry writes them."""
    ids = {
        name: _hex(span[name])
        for name in ("trace_id", "span_id", "parent_span_id")
        if isinstance(span.get(name), str)
    }
    return {**span, **ids}


def _hex(written: str) -> str:
    if not written.endswith("="):  # 8 or 16 bytes in base64 end so
        return written
    try:
        return base64.b64decode(written, validate=True).hex()
    except (ValueError, binascii.Error):
        return written
