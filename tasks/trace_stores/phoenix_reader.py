"""Reads spans of a Phoenix project, with the annotations of the spans and of their traces."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

from assizes.tasks.trace_stores.http_client import JsonClient
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

_PAGE: Final = 200  # spans
_IDS: Final = 50  # of spans or traces in one question for annotations
_ANNOTATION_PAGE: Final = 1000
_MOST_PAGES: Final = 1000  # of annotations of one page of spans
_KIND: Final = "openinference.span.kind"
_RESULT: Final = "gen_ai.evaluation.result"


class PhoenixReader:
    """A project on a Phoenix server, named by its name or its id."""

    margin: Final = timedelta(hours=1)

    def __init__(self, client: JsonClient, project: str) -> None:
        self._client, self._project = client, project
        self._size = PageSize(_PAGE)
        self._path = f"/v1/projects/{quote(project, safe='')}"

    def check(self) -> None:
        """Look the project up."""
        if self._client.request("GET", self._path, accepted=(404,)).status == 404:
            body = self._client.get("/v1/projects", {"limit": 100})
            names = [str(row.get("name")) for row in rows_of(body, "data", "/v1/projects")]
            server = f"phoenix at {self._client.connection.base_url}"
            raise no_project("project", self._project, server, names)

    def page(self, window: TimeWindow, cursor: str | None) -> TracePage:
        """A page of spans with their annotations."""
        wide = window.widened(self.margin)
        params = {
            "cursor": cursor,
            "start_time": wide.since and utc_text(wide.since),
            "end_time": utc_text(wide.until),
        }
        if cursor is None:
            self.check()  # its answer says which projects there are
        path = f"{self._path}/spans"
        body = self._size.ask(lambda rows: self._client.get(path, {**params, "limit": rows}))
        spans = [row for row in rows_of(body, "data", "spans") if _trace_id(row)]
        results = self._results(spans)
        return TracePage([_piece(row, results) for row in spans], text_of(body.get("next_cursor")))

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _results(self, spans: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
        """The annotations of spans, as events of OpenTelemetry, by span id.

        The annotations of a trace stand at its outermost span.
        """
        results: dict[str, list[dict[str, Any]]] = {}
        for row in self._annotations("span", [_span_id(span) for span in spans]):
            results.setdefault(str(row.get("span_id")), []).append(_event(row))
        outermost = {_trace_id(span): _span_id(span) for span in spans if not span.get("parent_id")}
        for row in self._annotations("trace", list(outermost)):
            span_id = outermost.get(str(row.get("trace_id")))
            if span_id is not None:
                results.setdefault(span_id, []).append(_event(row))
        return results

    def _annotations(self, kind: str, ids: list[str]) -> Iterator[dict[str, Any]]:
        """The annotations of spans or traces that others made, in order of name and id."""
        rows: list[dict[str, Any]] = []
        for start in range(0, len(ids), _IDS):
            cursor: str | None = None
            for _ in range(_MOST_PAGES):
                named = {f"{kind}_ids": ids[start : start + _IDS]}
                params = {**named, "limit": _ANNOTATION_PAGE, "cursor": cursor}
                path = f"{self._path}/{kind}_annotations"
                answer = self._client.request("GET", path, params=params, accepted=(404,))
                if answer.status == 404:  # an older server has none for traces
                    break
                rows += rows_of(answer.body, "data", path)
                cursor = text_of(answer.body.get("next_cursor"))
                if cursor is None:
                    break
        others = (row for row in rows if not is_own_score(row.get("metadata")))
        yield from sorted(others, key=lambda row: (str(row.get("name")), str(row.get("id"))))


def _trace_id(span: dict[str, Any]) -> str:
    return str(object_of(span.get("context")).get("trace_id") or "")


def _span_id(span: dict[str, Any]) -> str:
    return str(object_of(span.get("context")).get("span_id"))


def _event(annotation: dict[str, Any]) -> dict[str, Any]:
    result = annotation.get("result") or {}
    attributes = {
        "gen_ai.evaluation.name": annotation.get("name"),
        "gen_ai.evaluation.score.value": result.get("score"),
        "gen_ai.evaluation.score.label": result.get("label"),
        "gen_ai.evaluation.explanation": result.get("explanation"),
        "phoenix.annotator_kind": annotation.get("annotator_kind"),
        "phoenix.user_id": annotation.get("user_id"),
    }
    kept = {name: value for name, value in attributes.items() if value is not None}
    return {"name": _RESULT, "timestamp": annotation.get("updated_at"), "attributes": kept}


def _piece(span: dict[str, Any], results: dict[str, list[dict[str, Any]]]) -> TracePiece:
    attributes = object_of(span.get("attributes"))
    kind = span.get("span_kind")
    value = {
        **{name: each for name, each in span.items() if name != "id"},  # the number of a row
        "attributes": {**attributes, **({_KIND: kind} if kind and kind != "UNKNOWN" else {})},
        "events": [*rows_of(span, "events", "events"), *results.get(_span_id(span), [])],
    }
    session = text_of(attributes.get("gen_ai.conversation.id") or attributes.get("session.id"))
    started = str(span.get("start_time") or "")
    return TracePiece(_trace_id(span), session, _span_id(span), started, value)
