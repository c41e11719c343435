"""Assessments on traces of MLflow 3. The server knows no key of ours: a second POST is a second one.

So a finding whose answer was lost is looked for among the assessments of its trace, by our id in
their metadata, before it is sent again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Any, Final
from urllib.parse import quote

from assizes.judge.errors import ConfigurationError
from assizes.tasks.publishing.destination import UNKNOWN_ACCESS, moment_there, refusal
from assizes.tasks.publishing.entry import (
    HASH_KEY,
    ID_KEY,
    DeliveryAnswer,
    LabelThere,
    Parcel,
    TraceTarget,
    target_of,
    traces_of,
)
from assizes.tasks.trace_stores.connection import connection_to
from assizes.tasks.trace_stores.http_client import JsonClient, TraceStoreError

_TRACES: Final = "/api/3.0/mlflow/traces"
_TRACE: Final = re.compile(r"tr-[0-9a-f]{32}")
_SPAN: Final = re.compile(r"[0-9a-f]{16}")
_UPDATED: Final = "assessmentName,feedback,rationale,metadata"
_NOT_TAKEN: Final = (429, 503)  # the server did nothing
_SOURCES: Final = {"LLM": "LLM_JUDGE", "CODE": "CODE", "HUMAN": "HUMAN"}


class Mlflow:
    """One experiment of the MLflow server that MLFLOW_TRACKING_URI names."""

    batch_size: Final = 50

    def __init__(self, experiment: str, client: JsonClient | None = None) -> None:
        self._experiment = experiment  # its name or id
        self._client = client or JsonClient(connection_to("mlflow"))
        self.uri = f"mlflow at {self._client.connection.base_url}"
        self._experiment_id: str | None = None

    def target(self, case: dict[str, Any], given: TraceTarget) -> TraceTarget | None:
        """The trace of a case; of a session its last trace, as only traces take assessments."""
        trace_id = given.trace_id or case["case_id"]
        if re.fullmatch(r"[0-9a-f]{32}", trace_id):
            trace_id = f"tr-{trace_id}"
        if given.trace_id or _TRACE.fullmatch(trace_id):
            return TraceTarget(trace_id=trace_id, span_id=given.span_id)
        session = given.session_id or case["case_id"]
        last = next(reversed(traces_of(case)), None) or self._last_trace(session)
        return None if last is None else TraceTarget(trace_id=last)

    def takes_span(self, span_id: str) -> bool:
        """An assessment can be about a span of its trace, whose id has 16 hex digits."""
        return _SPAN.fullmatch(span_id) is not None

    def send(self, parcels: Sequence[Parcel]) -> Iterator[tuple[Parcel, DeliveryAnswer]]:
        """Send assessments one by one."""
        known: dict[str, dict[str, dict[str, Any]]] = {}  # by trace: assessments by our id
        for parcel in parcels:
            try:
                yield parcel, self._send(parcel, known)
            except TraceStoreError as error:
                yield parcel, refusal(error)

    def withdraw(self, row: dict[str, Any]) -> DeliveryAnswer:
        """Delete an assessment; one whose answer was lost is looked for first."""
        trace_id = target_of(row["target"]).trace_id or ""
        own_id = row["delivery_id"]
        remote_id = row["remote_id"] or self._own(trace_id).get(own_id, {}).get("assessment_id")
        if remote_id:
            path = f"{_TRACES}/{quote(trace_id)}/assessments/{quote(remote_id)}"
            self._client.request("DELETE", path, accepted=(404,))
        return DeliveryAnswer("withdrawn")

    def write_access(self) -> str:
        """Say that it is not known: the server takes no assessment that is about nothing."""
        return UNKNOWN_ACCESS

    def labels(self, targets: Sequence[TraceTarget]) -> Iterator[LabelThere]:
        """Yield the assessments whose source is HUMAN, of the traces of the targets."""
        for trace_id in dict.fromkeys(target.trace_id for target in targets if target.trace_id):
            for assessment in self._assessments(trace_id):
                source = assessment.get("source") or {}
                is_current = assessment.get("valid", True)  # false: replaced by a later one
                if source.get("source_type") != "HUMAN" or not is_current:
                    continue
                if ID_KEY not in _metadata(assessment) and "feedback" in assessment:
                    yield _label(assessment, trace_id)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send(self, parcel: Parcel, known: dict[str, dict[str, dict[str, Any]]]) -> DeliveryAnswer:
        trace_id = parcel.target.trace_id or ""
        path = f"{_TRACES}/{quote(trace_id)}/assessments"
        remote_id = parcel.remote_id
        if parcel.may_have_arrived:
            if trace_id not in known:
                known[trace_id] = self._own(trace_id)
            there = known[trace_id].get(parcel.delivery_id)
            remote_id = "" if there is None else str(there["assessment_id"])
            is_same = (_metadata(there or {})).get(HASH_KEY) == parcel.finding.content_hash()
            if there is not None and is_same:
                return DeliveryAnswer("sent", remote_id)
        body = {"assessment": _assessment(parcel)}
        if remote_id:
            body["assessment"]["assessment_id"] = remote_id
            changed = {**body, "update_mask": _UPDATED}
            answer = self._client.request(
                "PATCH", f"{path}/{quote(remote_id)}", body=changed, accepted=(404,)
            )
            if answer.status != 404:
                return DeliveryAnswer("sent", remote_id)
            del body["assessment"]["assessment_id"]  # somebody deleted it there
        answer = self._client.request("POST", path, body=body, repeated=_NOT_TAKEN)
        made = answer.body.get("assessment") if isinstance(answer.body, dict) else None
        return DeliveryAnswer("sent", str((made or {}).get("assessment_id") or ""))

    def _own(self, trace_id: str) -> dict[str, dict[str, Any]]:
        """The assessments of a trace that this program made, by our id."""
        return {
            own_id: each
            for each in self._assessments(trace_id)
            if (own_id := _metadata(each).get(ID_KEY)) is not None
        }

    def _assessments(self, trace_id: str) -> list[dict[str, Any]]:
        body = self._client.request("GET", f"{_TRACES}/{quote(trace_id)}", accepted=(404,)).body
        trace = (body or {}).get("trace") or {}
        return (trace.get("trace_info") or {}).get("assessments") or []

    def _last_trace(self, session: str) -> str | None:
        """The newest trace of a session; None where the experiment has none."""
        if "'" in session or "\\" in session:  # would end the text in the filter
            return None
        location = {
            "type": "MLFLOW_EXPERIMENT",
            "mlflow_experiment": {"experiment_id": self.experiment_id()},
        }
        body = {
            "locations": [location],
            "filter": f"metadata.`mlflow.trace.session` = '{session}'",
            "max_results": 1,
            "order_by": ["timestamp_ms DESC"],
        }
        found = self._client.request("POST", f"{_TRACES}/search", body=body).body or {}
        traces = found.get("traces") or []
        return str(traces[0]["trace_id"]) if traces else None

    def experiment_id(self) -> str:
        """The id of the experiment.

        Raises:
            ConfigurationError: the server has no such experiment.
        """
        if self._experiment_id is None:
            by_name = {"experiment_name": self._experiment}
            path = "/api/2.0/mlflow/experiments/get-by-name"
            answer = self._client.request("GET", path, params=by_name, accepted=(404,))
            if answer.status == 404:
                by_id = {"experiment_id": self._experiment}
                path = "/api/2.0/mlflow/experiments/get"
                answer = self._client.request("GET", path, params=by_id, accepted=(400, 404))
            if answer.status != 200:
                raise ConfigurationError(
                    f"{self.uri}: no experiment {self._experiment!r}; give its name or its id"
                )
            self._experiment_id = str(answer.body["experiment"]["experiment_id"])
        return self._experiment_id


def _assessment(parcel: Parcel) -> dict[str, Any]:
    """An assessment as the interface describes it; a failed one has an error and no value."""
    finding, target = parcel.finding, parcel.target
    feedback: dict[str, Any] = {"value": finding.label if finding.value is None else finding.value}
    if finding.error is not None:
        error = {"error_code": finding.error, "error_message": finding.explanation or ""}
        feedback = {"error": error}
    elif finding.kind == "verdict" and finding.value is not None:
        feedback = {"value": bool(finding.value)}
    metadata = parcel.metadata()
    if finding.label is not None and finding.value is not None:
        metadata["assizes.label"] = finding.label
    at = finding.at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    assessment = {
        "assessment_name": finding.name.replace(".", "_"),  # MLflow allows no dot
        "trace_id": target.trace_id,
        "source": {
            "source_type": _SOURCES[finding.annotator],
            "source_id": finding.source or "assizes",
        },
        "create_time": at,
        "last_update_time": at,
        "feedback": feedback,
        "rationale": finding.explanation,
        "metadata": metadata,
        "valid": True,
    }
    if target.span_id and _SPAN.fullmatch(target.span_id):
        assessment["span_id"] = target.span_id
    return {key: value for key, value in assessment.items() if value is not None}


def _label(assessment: dict[str, Any], trace_id: str) -> LabelThere:
    value = (assessment.get("feedback") or {}).get("value")
    return LabelThere(
        remote_id=str(assessment.get("assessment_id")),
        target=TraceTarget(trace_id=trace_id),
        name=str(assessment.get("assessment_name")),
        value=value if isinstance(value, bool | int | float | str) else None,
        rater=str((assessment.get("source") or {}).get("source_id") or ""),
        note=str(assessment.get("rationale") or ""),
        at=moment_there(assessment.get("last_update_time") or assessment.get("create_time")),
    )


def _metadata(assessment: dict[str, Any]) -> dict[str, Any]:
    metadata = assessment.get("metadata")
    return metadata if isinstance(metadata, dict) else {}
