"""Annotations of traces, spans and sessions in Phoenix.

An annotation of the same target, name and identifier is updated in place, so our id as `identifier`
makes repeats harmless.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final
from urllib.parse import quote

from assizes.tasks.publishing.destination import (
    PROJECT,
    UNKNOWN_ACCESS,
    batches,
    chunks,
    moment_there,
    refusal,
)
from assizes.tasks.publishing.entry import (
    ID_KEY,
    DeliveryAnswer,
    LabelThere,
    Parcel,
    TraceTarget,
    target_of,
)
from assizes.tasks.trace_stores.connection import connection_to
from assizes.tasks.trace_stores.http_client import JsonClient, TraceStoreError

_TRACE: Final = re.compile(r"[0-9a-f]{32}")
_SPAN: Final = re.compile(r"[0-9a-f]{16}")
_IDS_AT_ONCE: Final = 50  # in the address of one request
_PAGE: Final = 100
_MOST_PAGES: Final = 10_000
_UNSAID: Final = (400, 404, 422)  # of a server that takes no empty list
_RESERVED: Final = "note"  # a name that the server ignores

Level = str  # span, trace or session


class Phoenix:
    """One project of the Phoenix server that the environment names."""

    batch_size: Final = 50

    def __init__(self, project: str, client: JsonClient | None = None) -> None:
        self._project = project
        self._client = client or JsonClient(connection_to("phoenix"))
        self.uri = f"phoenix at {self._client.connection.base_url}{PROJECT}{project}"

    def target(self, case: dict[str, Any], given: TraceTarget) -> TraceTarget | None:
        """The ids that the case states, else its own id as that of a trace or a session."""
        if given.span_id or given.trace_id or given.session_id:
            return given
        if _TRACE.fullmatch(case["case_id"]):
            return TraceTarget(trace_id=case["case_id"])
        return TraceTarget(session_id=case["case_id"])

    def takes_span(self, span_id: str) -> bool:
        """An annotation can be about a span, whose id has 16 hex digits."""
        return _SPAN.fullmatch(span_id) is not None

    def send(self, parcels: Sequence[Parcel]) -> Iterator[tuple[Parcel, DeliveryAnswer]]:
        """Send annotations, those of spans, traces and sessions in requests of their own."""
        by_level: defaultdict[Level, list[Parcel]] = defaultdict(list)
        for parcel in parcels:
            by_level[_level(parcel.target)].append(parcel)
        for level, own in by_level.items():
            for chunk in chunks(own, _annotation):
                answers = self._send(level, [annotation for _, annotation in chunk])
                yield from zip((parcel for parcel, _ in chunk), answers, strict=True)

    def withdraw(self, row: dict[str, Any]) -> DeliveryAnswer:
        """Delete the annotation with our identifier."""
        level = _level(target_of(row["target"]))
        path = f"/v1/projects/{quote(self._project, safe='')}/{level}_annotations"
        wanted = {"identifier": row["delivery_id"], "delete_all": "true"}
        self._client.request("DELETE", path, params=wanted, accepted=(404,))
        return DeliveryAnswer("withdrawn")

    def write_access(self) -> str:
        """Send an empty list of annotations, which is refused where the key may not write."""
        body: dict[str, Any] = {"data": []}
        answer = self._client.request("POST", "/v1/span_annotations", body=body, accepted=_UNSAID)
        return UNKNOWN_ACCESS if answer.status in _UNSAID else "its key may write"

    def labels(self, targets: Sequence[TraceTarget]) -> Iterator[LabelThere]:
        """Yield the annotations of kind HUMAN of the traces, their spans, and the sessions."""
        traces = [target.trace_id for target in targets if target.trace_id]
        sessions = [target.session_id for target in targets if target.session_id]
        spans = {target.span_id: target for target in targets if target.span_id}
        for some in batches(traces, _IDS_AT_ONCE):
            for span in self._pages("spans", {"trace_id": some}):
                context = span.get("context") or {}
                own = TraceTarget(trace_id=context.get("trace_id"), span_id=context.get("span_id"))
                spans.setdefault(own.span_id or "", own)
        wanted = {"trace": traces, "session": sessions, "span": list(spans)}
        for level, ids in wanted.items():
            for some in batches(ids, _IDS_AT_ONCE):
                for annotation in self._pages(f"{level}_annotations", {f"{level}_ids": some}):
                    is_own = ID_KEY in (annotation.get("metadata") or {})
                    if annotation.get("annotator_kind") == "HUMAN" and not is_own:
                        yield _label(annotation, spans)

    def _pages(self, what: str, wanted: dict[str, Any]) -> Iterator[dict[str, Any]]:
        path = f"/v1/projects/{quote(self._project, safe='')}/{what}"
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            parameters = {**wanted, "limit": _PAGE, "cursor": cursor}
            body = self._client.request("GET", path, params=parameters, accepted=(404,)).body or {}
            yield from body.get("data") or []
            cursor = body.get("next_cursor")
            if not cursor:
                return

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send(self, level: Level, annotations: list[dict[str, Any]]) -> list[DeliveryAnswer]:
        try:
            # `sync`: without it the server does not say that it knows no such target.
            answer = self._client.request(
                "POST",
                f"/v1/{level}_annotations",
                params={"sync": "true"},
                body={"data": annotations},
            )
        except TraceStoreError as error:
            refused = refusal(error)
            if len(annotations) == 1:
                return [refused]
            # One unknown target makes the server refuse all of them.
            return [answer for each in annotations for answer in self._send(level, [each])]
        body = answer.body if isinstance(answer.body, dict) else {}
        ids = [str(item.get("id") or "") for item in body.get("data") or []]
        if len(ids) != len(annotations):
            ids = [""] * len(annotations)
        return [DeliveryAnswer("sent", remote_id) for remote_id in ids]


def _level(target: TraceTarget) -> Level:
    return "span" if target.span_id else "trace" if target.trace_id else "session"


def _annotation(parcel: Parcel) -> dict[str, Any]:
    """An annotation as the interface describes it; a failed one has a label and no score."""
    finding, target = parcel.finding, parcel.target
    result = {"label": finding.label, "score": finding.value, "explanation": finding.explanation}
    metadata = {**parcel.metadata(), "assizes.source": finding.source}
    if finding.error is not None:
        result |= {"label": "failed", "score": None}
        metadata |= {"assizes.error": finding.error}
    level = _level(target)
    return {
        f"{level}_id": getattr(target, f"{level}_id"),
        "name": f"{finding.name}_" if finding.name == _RESERVED else finding.name,
        "annotator_kind": finding.annotator,
        "result": {key: value for key, value in result.items() if value is not None},
        "metadata": metadata,
        "identifier": parcel.delivery_id,
    }


def _label(annotation: dict[str, Any], spans: dict[str, TraceTarget]) -> LabelThere:
    result = annotation.get("result") or {}
    span_id = annotation.get("span_id")
    target = TraceTarget(
        trace_id=annotation.get("trace_id"), session_id=annotation.get("session_id")
    )
    score, label = result.get("score"), result.get("label")
    value = label if score is None else score
    return LabelThere(
        remote_id=f"{annotation.get('id')}",
        target=spans.get(str(span_id), target) if span_id else target,
        name=str(annotation.get("name")),
        value=value if isinstance(value, bool | int | float | str) else None,
        rater=str(annotation.get("user_id") or annotation.get("identifier") or ""),
        note=str(result.get("explanation") or ""),
        at=moment_there(annotation.get("updated_at") or annotation.get("created_at")),
    )
