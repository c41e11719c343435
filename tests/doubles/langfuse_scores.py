"""A server that takes scores as Langfuse does, and checks every request by the vendor's description."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import jsonschema_rs

from tests.conftest import DATA
from tests.doubles.json_server import Reply, Request

SPEC = DATA / "integrations" / "langfuse" / "openapi_excerpt.json"
Generation = Literal["events", "lists"]
AUTHORIZATION = "Basic cGstbGYtdGVzdDpzay1sZi10ZXN0LTEyMzQ1Njc4"  # pk-lf-test:sk-lf-test-12345678
KEYS = {"LANGFUSE_PUBLIC_KEY": "pk-lf-test", "LANGFUSE_SECRET_KEY": "sk-lf-test-12345678"}
BODY_LIMIT = {"lists": 1_000_000, "events": 3_500_000}


def _schema(name: str) -> Any:
    """A schema of the description, with `nullable` as JSON Schema says it."""
    text = SPEC.read_text("utf-8")
    spec = json.loads(text)

    def plain(node: Any) -> Any:
        if isinstance(node, list):
            return [plain(item) for item in node]
        if not isinstance(node, dict):
            return node
        made = {key: plain(value) for key, value in node.items() if key != "nullable"}
        return {"anyOf": [made, {"type": "null"}]} if node.get("nullable") is True else made

    return {"$ref": f"#/components/schemas/{name}", "components": plain(spec["components"])}


@dataclass
class LangfuseScores:
    """The scores that arrived, by id and time: the same id with another time is another score."""

    generation: Generation
    scores: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    writes: int = 0  # of scores, also of those that were there
    rejects: Callable[[dict[str, Any]], str | None] = lambda _: None
    seen_events: set[str] = field(default_factory=set)
    extra: list[dict[str, Any]] = field(default_factory=list)  # made by people there

    def __post_init__(self) -> None:
        self._one = jsonschema_rs.validator_for(_schema("CreateScoreRequest"))
        self._event = jsonschema_rs.validator_for(_schema("ScoreEvent"))

    def answer(self, request: Request) -> Reply:
        if request.headers.get("authorization") != AUTHORIZATION:
            return Reply(401, {"message": "Invalid credentials"})
        if len(request.raw) > BODY_LIMIT[self.generation]:
            return Reply(413, {"message": "too large"})
        if request.method == "DELETE" and request.path.startswith("/api/public/scores/"):
            return self._delete(request.path.rpartition("/")[2])
        routes = {
            ("POST", "/api/public/scores"): self._list,
            ("POST", "/api/public/ingestion"): self._events,
            ("GET", "/api/public/v3/scores"): self._page,
            ("GET", "/api/public/v2/scores"): self._old_page,
        }
        route = routes.get((request.method, request.path))
        return Reply(404, {"message": "not found"}) if route is None else route(request)

    def _list(self, request: Request) -> Reply:
        body = request.body
        if self.generation == "events" or not isinstance(body, list):
            return Reply(400, {"message": "Invalid request data"})
        errors = [{"message": why} for score in body if (why := self._wrong(score)) is not None]
        for score in body:
            if self._wrong(score) is None:
                self._write(score["id"], score["timestamp"], score)
        if errors:
            done = len(body) - len(errors)
            return Reply(207, {"accepted": done, "rejected": len(errors), "errors": errors})
        return Reply(202, {"message": "Accepted"})

    def _wrong(self, score: dict[str, Any]) -> str | None:
        described = {key: value for key, value in score.items() if key != "timestamp"}
        self._one.validate(described)
        _check_value(score)
        assert score["id"], "a score without an id may be dropped"
        assert ("traceId" in score) != ("sessionId" in score)
        return self.rejects(score)

    def _events(self, request: Request) -> Reply:
        body = request.body
        if self.generation == "lists":
            return Reply(404, {"message": "not found"})
        answer: dict[str, list[dict[str, Any]]] = {"successes": [], "errors": []}
        for event in body["batch"]:
            self._event.validate(event)
            assert event["type"] == "score-create"
            score = event["body"]
            _check_value(score)
            if (why := self.rejects(score)) is not None:
                error = {"id": event["id"], "status": 400, "message": why, "error": why}
                answer["errors"].append(error)
                continue
            if event["id"] not in self.seen_events:
                self.seen_events.add(event["id"])
                self._write(score["id"], "", score)
            answer["successes"].append({"id": event["id"], "status": 201})
        return Reply(207, answer)

    def _write(self, score_id: str, at: str, score: dict[str, Any]) -> None:
        self.writes += 1
        self.scores[(score_id, at)] = score

    def _delete(self, score_id: str) -> Reply:
        gone = [key for key in self.scores if key[0] == score_id]
        for key in gone:
            del self.scores[key]
        return Reply(204) if gone else Reply(404, {"message": "not found"})

    def _page(self, request: Request) -> Reply:
        if self.generation == "events":
            return Reply(404, {"message": "not found"})
        assert request.params.get("source") == "ANNOTATION"
        start, limit = int(request.params.get("cursor", 0)), int(request.params.get("limit", 50))
        assert limit <= 100
        page = self.extra[start : start + limit]
        more = start + limit < len(self.extra)
        return Reply(
            200,
            {
                "data": page,
                "meta": {"limit": limit, **({"cursor": str(start + limit)} if more else {})},
            },
        )

    def _old_page(self, request: Request) -> Reply:
        number, limit = int(request.params.get("page", 1)), int(request.params.get("limit", 50))
        assert limit <= 100
        pages = max(1, -(-len(self.extra) // limit))
        meta = {"page": number, "limit": limit, "totalItems": len(self.extra), "totalPages": pages}
        return Reply(200, {"data": self.extra[(number - 1) * limit : number * limit], "meta": meta})


def _check_value(score: dict[str, Any]) -> None:
    """What the description says in words only."""
    kind, value = score["dataType"], score["value"]
    if kind in ("NUMERIC", "BOOLEAN"):
        assert isinstance(value, int | float)
        assert not isinstance(value, bool)
        assert kind == "NUMERIC" or value in (0, 1)
    else:
        assert isinstance(value, str)
        assert 1 <= len(value) <= 500
