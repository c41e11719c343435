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

from assizes.tasks.publishing.destination import chunks, refusal
from assizes.tasks.publishing.entry import Answer, Parcel, Target, target_of
from assizes.tasks.trace_stores.connection import connection_to
from assizes.tasks.trace_stores.http_client import JsonClient, TraceStoreError

_TRACE: Final = re.compile(r"[0-9a-f]{32}")
_RESERVED: Final = "note"  # a name that the server ignores

Level = str  # span, trace or session


class Phoenix:
    """One project of the Phoenix server that the environment names."""

    batch_size: Final = 50

    def __init__(self, project: str, client: JsonClient | None = None) -> None:
        self._project = project
        self._client = client or JsonClient(connection_to("phoenix"))
        self.uri = f"phoenix at {self._client.connection.base_url}"

    def target(self, case: dict[str, Any], given: Target) -> Target | None:
        """The ids that the case states, else its own id as that of a trace or a session."""
        if given.span_id or given.trace_id or given.session_id:
            return given
        if _TRACE.fullmatch(case["case_id"]):
            return Target(trace_id=case["case_id"])
        return Target(session_id=case["case_id"])

    def send(self, parcels: Sequence[Parcel]) -> Iterator[tuple[Parcel, Answer]]:
        """Send annotations, those of spans, traces and sessions in requests of their own."""
        by_level: defaultdict[Level, list[Parcel]] = defaultdict(list)
        for parcel in parcels:
            by_level[_level(parcel.target)].append(parcel)
        for level, own in by_level.items():
            for chunk in chunks(own, _annotation):
                answers = self._send(level, [annotation for _, annotation in chunk])
                yield from zip((parcel for parcel, _ in chunk), answers, strict=True)

    def withdraw(self, row: dict[str, Any]) -> Answer:
        """Delete the annotation with our identifier."""
        level = _level(target_of(row["target"]))
        path = f"/v1/projects/{quote(self._project, safe='')}/{level}_annotations"
        wanted = {"identifier": row["delivery_id"], "delete_all": "true"}
        self._client.request("DELETE", path, params=wanted, accepted=(404,))
        return Answer("withdrawn")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send(self, level: Level, annotations: list[dict[str, Any]]) -> list[Answer]:
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
        return [Answer("sent", remote_id) for remote_id in ids]


def _level(target: Target) -> Level:
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
