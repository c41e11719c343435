"""Reads observations and scores of Langfuse; on servers older than its v4, whole traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

from assizes.tasks.trace_stores.http_client import JsonClient, TraceStoreError
from assizes.tasks.trace_stores.marks import is_own_score
from assizes.tasks.trace_stores.reading import (
    PageSize,
    TimeWindow,
    TracePage,
    TracePiece,
    no_project,
    object_of,
    rows_of,
    text_of,
    utc_text,
)

_OBSERVATIONS: Final = "/api/public/v2/observations"
_SCORES: Final = "/api/public/v3/scores"
_TRACES: Final = "/api/public/traces"
_PROJECTS: Final = "/api/public/projects"
_FIELDS: Final = "core,basic,time,io,model,usage,metrics,trace_context"
_PAGE: Final = 200  # observations of one page
_TRACE_PAGE: Final = 50  # traces of one page, each of which is asked for by itself
_SCORE_PAGE: Final = 100  # the most that the server allows
_SUBJECTS: Final = 50  # ids in one question for scores
_OLD: Final = "v1:"  # begins the cursor of a server without observations by cursor
_MOST_SCORE_PAGES: Final = 1000  # of the traces of one page
_VOLATILE: Final = ("updatedAt", "createdAt", "bookmarked", "public", "projectId", "htmlPath")
"""Fields that no reader looks at, and that would change the copy of an unchanged trace."""


class LangfuseReader:
    """The project of Langfuse that the keys of the environment open."""

    margin: Final = timedelta(hours=1)

    def __init__(self, client: JsonClient, project: str) -> None:
        self._client, self._project = client, project
        self._size = PageSize(_PAGE)

    def check(self) -> None:
        """Ask which project the keys open, and compare its name or id."""
        answer = self._client.request("GET", _PROJECTS, accepted=(404, 405))
        if answer.status != 200:  # a server that does not tell
            return
        projects = rows_of(answer.body, "data", _PROJECTS)
        known = {str(project.get(name)) for project in projects for name in ("id", "name")}
        if known and self._project not in known:
            names = [str(project.get("name")) for project in projects]
            server = f"langfuse at {self._client.connection.base_url}, with these keys,"
            raise no_project("project", self._project, server, names)

    def page(self, window: TimeWindow, cursor: str | None) -> TracePage:
        """A page of observations with the scores of their traces and sessions."""
        if cursor is not None and cursor.startswith(_OLD):
            return self._old_page(window, int(cursor.removeprefix(_OLD)))
        wide = window.widened(self.margin)
        params = {
            "fields": _FIELDS,
            "cursor": cursor,
            "fromStartTime": wide.since and utc_text(wide.since),
            "toStartTime": utc_text(wide.until),
        }
        accepted = (404, 405) if cursor is None else ()
        answer = self._size.ask(
            lambda rows: self._client.request(
                "GET", _OBSERVATIONS, params={**params, "limit": rows}, accepted=accepted
            )
        )
        if answer.status in (404, 405):
            return self._old_page(window, 1)
        rows = rows_of(answer.body, "data", _OBSERVATIONS)
        pieces = [_observation(row) for row in rows if text_of(row.get("traceId"))]
        pieces += self._scores(pieces)
        return TracePage(pieces, text_of((answer.body.get("meta") or {}).get("cursor")))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _scores(self, pieces: Sequence[TracePiece]) -> Iterator[TracePiece]:
        traces = list(dict.fromkeys(piece.trace for piece in pieces))
        sessions = dict.fromkeys(piece.conversation for piece in pieces if piece.conversation)
        for name, ids in (("traceId", traces), ("sessionId", list(sessions))):
            # Ids are joined by commas; one with a comma in it cannot be asked for.
            asked = [each for each in ids if "," not in each]
            for start in range(0, len(asked), _SUBJECTS):
                yield from self._scores_of(name, asked[start : start + _SUBJECTS])

    def _scores_of(self, name: str, ids: list[str]) -> Iterator[TracePiece]:
        cursor: str | None = None
        for _ in range(_MOST_SCORE_PAGES):
            params = {
                "fields": "details,subject,annotation",
                "limit": _SCORE_PAGE,
                name: ",".join(ids),
                "cursor": cursor,
            }
            answer = self._client.request("GET", _SCORES, params=params, accepted=(404,))
            if answer.status == 404:  # an older server: traces without their scores
                return
            for row in rows_of(answer.body, "data", _SCORES):
                if not is_own_score(row.get("metadata")):
                    yield from _score(row)
            cursor = text_of((answer.body.get("meta") or {}).get("cursor"))
            if cursor is None:
                return
        raise TraceStoreError(f"{_SCORES}: more than {_MOST_SCORE_PAGES} pages for {len(ids)} ids")

    def _old_page(self, window: TimeWindow, number: int) -> TracePage:
        """A page of whole traces, by the calls that Langfuse calls deprecated."""
        params = {
            "page": number,
            "limit": _TRACE_PAGE,
            "fromTimestamp": window.since and utc_text(window.since),
            "toTimestamp": utc_text(window.until),
            "orderBy": "timestamp.asc",  # later traces do not move those of earlier pages
        }
        body = self._client.get(_TRACES, params)
        rows = rows_of(body, "data", _TRACES)
        ids = [trace_id for row in rows if (trace_id := text_of(row.get("id")))]
        pieces = [piece for trace_id in ids if (piece := self._whole_trace(trace_id))]
        pages = (body.get("meta") or {}).get("totalPages")
        is_last = not rows or not isinstance(pages, int) or number >= pages
        return TracePage(pieces, None if is_last else f"{_OLD}{number + 1}")

    def _whole_trace(self, trace_id: str) -> TracePiece | None:
        path = f"{_TRACES}/{quote(trace_id, safe='')}"
        answer = self._client.request("GET", path, accepted=(404,))
        if answer.status == 404:  # deleted since the page
            return None
        trace = _lasting(answer.body if isinstance(answer.body, dict) else {})
        trace.pop("_deprecation", None)
        trace["observations"] = sorted(
            map(_lasting, rows_of(trace, "observations", path)),
            key=lambda row: (str(row.get("startTime")), str(row.get("id"))),
        )
        trace["scores"] = sorted(
            (
                _lasting(row)
                for row in rows_of(trace, "scores", path)
                if not is_own_score(row.get("metadata"))
            ),
            key=lambda row: str(row.get("id")),
        )
        for name in ("latency", "totalCost"):  # sums that the server computes anew
            trace.pop(name, None)
        session = text_of(trace.get("sessionId"))
        return TracePiece(trace_id, session, "", str(trace.get("timestamp") or ""), trace)


def _lasting(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _VOLATILE}


def _observation(row: dict[str, Any]) -> TracePiece:
    trace, session = str(row["traceId"]), text_of(row.get("sessionId"))
    started = str(row.get("startTime") or "")
    return TracePiece(trace, session, f"o {row.get('id')}", started, _lasting(row))


def _score(row: dict[str, Any]) -> Iterator[TracePiece]:
    """A score in the shape of the rows of an export, which the reader of files knows."""
    subject = object_of(row.get("subject"))
    kind, subject_id = subject.get("kind"), text_of(subject.get("id"))
    trace = subject_id if kind == "trace" else text_of(subject.get("traceId"))
    session = subject_id if kind == "session" else None
    if trace is None and session is None:  # of an experiment
        return
    value: Any = row.get("value")
    is_number = isinstance(value, bool | int | float)
    fields = {
        "id": row.get("id"),
        "traceId": trace,
        "sessionId": session,
        "observationId": subject_id if kind == "observation" else None,
        "name": row.get("name"),
        "source": row.get("source"),
        "dataType": row.get("dataType"),
        "value": float(value) if is_number else None,
        "stringValue": None if is_number else value,
        "comment": row.get("comment"),
        "authorUserId": row.get("authorUserId"),
        "timestamp": row.get("timestamp"),
    }
    yield TracePiece(trace or str(session), session, f"s {row.get('id')}", "", fields)
