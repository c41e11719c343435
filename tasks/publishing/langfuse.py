"""Scores in Langfuse, whose id and time are fixed, so that the same score is written once.

Three generations of servers take scores in three ways: a list (`POST /api/public/scores`), events
(`POST /api/public/ingestion`), one object. The first two are tried in this order, and the way that
a server takes is kept.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Any, Final

from assizes.tasks.publishing.deliveries import State
from assizes.tasks.publishing.destination import chunks, moment_there, one_line, refusal
from assizes.tasks.publishing.entry import DeliveryAnswer, LabelThere, Parcel, TraceTarget
from assizes.tasks.trace_stores.connection import connection_to
from assizes.tasks.trace_stores.http_client import Answer as HttpAnswer
from assizes.tasks.trace_stores.http_client import JsonClient, TraceStoreError

_SCORES: Final = "/api/public/scores"
_SCORES_V3: Final = "/api/public/v3/scores"
_SCORES_V2: Final = "/api/public/v2/scores"
_PAGE: Final = 100  # labels of one answer; the server takes no larger number
_MOST_PAGES: Final = 10_000
_INGESTION: Final = "/api/public/ingestion"
_TRACE: Final = re.compile(r"[0-9a-f]{32}")  # the id of a trace, as OpenTelemetry writes it
_NO_LIST: Final = (400, 404, 405)  # of a server that takes no list


class Langfuse:
    """The project of Langfuse that the keys of the environment open."""

    batch_size: Final = 50

    def __init__(self, client: JsonClient | None = None) -> None:
        self._client = client or JsonClient(connection_to("langfuse"))
        self.uri = f"langfuse at {self._client.connection.base_url}"
        self._takes_lists: bool | None = None  # None: not known yet

    def target(self, case: dict[str, Any], given: TraceTarget) -> TraceTarget | None:
        """The trace or the session that the case names, else the one of which it has the id."""
        if given.trace_id or given.session_id:
            return given
        if _TRACE.fullmatch(case["case_id"]):
            return TraceTarget(trace_id=case["case_id"])
        return TraceTarget(session_id=case["case_id"])

    def takes_span(self, span_id: str) -> bool:
        """A score can be about any observation, which is what Langfuse calls a span."""
        return bool(span_id)

    def send(self, parcels: Sequence[Parcel]) -> Iterator[tuple[Parcel, DeliveryAnswer]]:
        """Send the scores, in requests of bounded size."""
        for chunk in chunks(parcels, _score):
            answers = self._send([score for _, score in chunk])
            yield from zip((parcel for parcel, _ in chunk), answers, strict=True)

    def withdraw(self, row: dict[str, Any]) -> DeliveryAnswer:
        """Delete a score by its id."""
        path = f"{_SCORES}/{row['delivery_id']}"
        self._client.request("DELETE", path, accepted=(404,))
        return DeliveryAnswer("withdrawn")

    def write_access(self) -> str:
        """Say that they may: the keys of a project have no right less than another."""
        return "its keys may write"

    def labels(self, targets: Sequence[TraceTarget]) -> Iterator[LabelThere]:
        """Yield the scores whose source is ANNOTATION, of the whole project."""
        wanted = {"source": "ANNOTATION", "limit": _PAGE}
        groups = {"fields": "details,subject,annotation"}
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            answer = self._client.request(
                "GET", _SCORES_V3, params={**wanted, **groups, "cursor": cursor}, accepted=(404,)
            )
            if answer.status == 404:  # an older server
                yield from self._older_labels(wanted)
                return
            body = answer.body if isinstance(answer.body, dict) else {}
            yield from (_label(score) for score in _objects(body.get("data")))
            cursor = (body.get("meta") or {}).get("cursor")
            if not cursor:
                return

    def _older_labels(self, wanted: dict[str, Any]) -> Iterator[LabelThere]:
        for page in range(1, _MOST_PAGES):
            body = self._client.get(_SCORES_V2, {**wanted, "page": page}) or {}
            yield from (_label(score) for score in _objects(body.get("data")))
            if page >= int((body.get("meta") or {}).get("totalPages") or 0):
                return

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _send(self, scores: list[dict[str, Any]]) -> list[DeliveryAnswer]:
        if self._takes_lists is False:
            return self._send_events(scores)
        accepted = _NO_LIST if self._takes_lists is None else ()
        try:
            answer = self._client.request("POST", _SCORES, body=scores, accepted=accepted)
        except TraceStoreError as error:
            refused = refusal(error)  # which raises where the error is about the whole server
            return [refused] if len(scores) == 1 else self._send_each(scores)
        if answer.status in _NO_LIST:
            return self._send_first_events(scores, answer.body)
        self._takes_lists = True
        return self._list_answers(scores, answer)

    def _list_answers(
        self, scores: list[dict[str, Any]], answer: HttpAnswer
    ) -> list[DeliveryAnswer]:
        """What became of scores that were sent as a list."""
        body = answer.body if isinstance(answer.body, dict) else {}
        is_partial = answer.status == 207 and (body.get("rejected") or body.get("errors"))
        if not is_partial:
            return [DeliveryAnswer("sent", score["id"]) for score in scores]
        # The answer does not say which score was rejected: each is sent alone, with the same id.
        if len(scores) > 1:
            return self._send_each(scores)
        return [DeliveryAnswer("refused", detail=_first_message(body))]

    def _send_first_events(
        self, scores: list[dict[str, Any]], refused: Any
    ) -> list[DeliveryAnswer]:
        """Send scores as events to a server that took no list; `refused` is its answer to the list."""
        try:
            answers = self._send_events(scores)
        except TraceStoreError as error:
            if error.status not in _NO_LIST:
                raise
            # It takes no events either, so the list was refused for a score in it.
            self._takes_lists = True
            if len(scores) > 1:
                return self._send_each(scores)
            return [DeliveryAnswer("refused", detail=one_line(f"HTTP {error.status}: {refused}"))]
        self._takes_lists = False
        return answers

    def _send_each(self, scores: list[dict[str, Any]]) -> list[DeliveryAnswer]:
        return [answer for score in scores for answer in self._send([score])]

    def _send_events(self, scores: list[dict[str, Any]]) -> list[DeliveryAnswer]:
        """Send scores as events; the answer says of each event what became of it."""
        events = [_event(score) for score in scores]
        body = self._client.request("POST", _INGESTION, body={"batch": events}).body
        answered = body if isinstance(body, dict) else {}
        done = {entry.get("id") for entry in _objects(answered.get("successes"))}
        errors = {entry.get("id"): entry for entry in _objects(answered.get("errors"))}
        answers = []
        for event, score in zip(events, scores, strict=True):
            error = errors.get(event["id"])
            if event["id"] in done:
                answers.append(DeliveryAnswer("sent", score["id"]))
            elif error is None:
                answers.append(
                    DeliveryAnswer("sending", detail="the answer does not name this score")
                )
            else:
                status = error.get("status")
                # An error of the server, not of the score: the next call sends the score again.
                is_server = isinstance(status, int) and status >= 500
                state: State = "sending" if is_server else "refused"
                text = f"HTTP {status}: {error.get('message') or ''} {error.get('error') or ''}"
                answers.append(DeliveryAnswer(state, detail=one_line(text)))
        return answers


def _score(parcel: Parcel) -> dict[str, Any]:
    """A score as the interface describes it; a failed one is a word, never a number."""
    finding, target = parcel.finding, parcel.target
    name, metadata = finding.name, parcel.metadata()
    value: float | str
    if finding.error is not None:
        name, value, kind = f"{name}:status", "failed", "CATEGORICAL"
        metadata |= {"assizes.error": finding.error}
    elif finding.value is None:
        value, kind = finding.label or "", "CATEGORICAL"
    elif finding.kind == "verdict":
        value, kind = finding.value, "BOOLEAN"
    else:
        value, kind = finding.value, "NUMERIC"
    if finding.label and value != finding.label:
        metadata |= {"assizes.label": finding.label}
    if finding.kind == "label":
        metadata |= {"assizes.annotator": "HUMAN"}
    score: dict[str, Any] = {
        "id": parcel.delivery_id,
        "name": name,
        "value": value,
        "dataType": kind,
        "comment": finding.explanation,
        "metadata": metadata,
        # The same id with the same time replaces a score; another time would add one.
        "timestamp": _iso(finding.at),
    }
    if target.trace_id is not None:
        score |= {"traceId": target.trace_id, "observationId": target.span_id}
    else:
        score["sessionId"] = target.session_id
    return {key: part for key, part in score.items() if part is not None}


def _event(score: dict[str, Any]) -> dict[str, Any]:
    """The event that creates a score; its id changes with the content, as servers drop repeats."""
    body = {key: value for key, value in score.items() if key != "timestamp"}
    content = score["metadata"]["assizes.content_hash"]
    event_id = str(uuid.uuid5(uuid.UUID(score["id"]), content))
    return {
        "id": event_id,
        "type": "score-create",
        "timestamp": score["timestamp"],
        "body": body,
    }


def _iso(at: Any) -> str:
    written: str = at.astimezone(UTC).isoformat(timespec="milliseconds")
    return written.replace("+00:00", "Z")


def _objects(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _label(score: dict[str, Any]) -> LabelThere:
    """A label of either version of the interface."""
    subject = score.get("subject") or {}
    kind, subject_id = subject.get("kind"), subject.get("id")
    trace_id = subject_id if kind == "trace" else subject.get("traceId") or score.get("traceId")
    session_id = subject_id if kind == "session" else score.get("sessionId")
    span_id = subject_id if kind == "observation" else score.get("observationId")
    value = score.get("value")
    if value is None:
        value = score.get("stringValue")
    return LabelThere(
        remote_id=str(score.get("id")),
        target=TraceTarget(trace_id=trace_id, span_id=span_id, session_id=session_id),
        name=str(score.get("name")),
        value=value if isinstance(value, bool | int | float | str) else None,
        rater=str(score.get("authorUserId") or ""),
        note=str(score.get("comment") or ""),
        at=moment_there(score.get("updatedAt") or score.get("timestamp")),
    )


def _first_message(body: dict[str, Any]) -> str:
    errors = _objects(body.get("errors"))
    return one_line(str(errors[0].get("message"))) if errors else "rejected without a reason"
