"""A server with traces as Langfuse has them; it checks every request by the vendor's description."""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from typing import Any, Literal

from tests.conftest import DATA
from tests.doubles.json_server import Reply, Request

FOLDER = DATA / "integrations" / "langfuse"
KEYS = {"LANGFUSE_PUBLIC_KEY": "pk-lf-test", "LANGFUSE_SECRET_KEY": "sk-lf-test-12345678"}
AUTHORIZATION = "Basic cGstbGYtdGVzdDpzay1sZi10ZXN0LTEyMzQ1Njc4"
GROUPS = {
    "/api/public/v2/observations": (
        "core,basic,time,io,metadata,model,usage,prompt,metrics,trace_context"
    ),
    "/api/public/v3/scores": "details,subject,annotation",
}
LIMITS = {"/api/public/v2/observations": 1000, "/api/public/v3/scores": 100}
_OF_TRACE = {"sessionId", "userId", "release", "version", "tags", "traceName", "environment"}


@cache
def _paths() -> dict[str, Any]:
    text = (FOLDER / "openapi_excerpt.json").read_text("utf-8")
    paths: dict[str, Any] = json.loads(text)["paths"]
    return paths


def public_traces() -> list[dict[str, Any]]:
    with gzip.open(FOLDER / "public_traces.jsonl.gz") as lines:
        return [json.loads(line) for line in lines]


@dataclass
class LangfuseTraces:
    """The traces of a project; `page` caps what one answer holds, whatever the client asks for."""

    generation: Literal["v4", "v3"] = "v4"
    traces: list[dict[str, Any]] = field(default_factory=public_traces)
    page: int = 7
    project: str = "support"

    def answer(self, request: Request) -> Reply:
        if request.headers.get("authorization") != AUTHORIZATION:
            return Reply(401, {"message": "Invalid credentials"})
        assert request.method == "GET", request
        if request.path == "/api/public/projects":
            return Reply(200, {"data": [{"id": "p1", "name": self.project, "metadata": {}}]})
        if self.generation == "v3":
            return self._old(request)
        if request.path not in LIMITS:
            return Reply(404, {"message": "gone"})
        check_by_description(request)
        rows = (
            self._observations(request) if "observations" in request.path else self._scores(request)
        )
        start = int(base64.b64decode(request.params["cursor"])) if "cursor" in request.params else 0
        limit = min(int(request.params["limit"]), self.page)
        end = start + limit
        meta: dict[str, Any] = {"limit": limit}
        if end < len(rows):
            meta["cursor"] = base64.b64encode(str(end).encode()).decode()
        return Reply(200, {"data": rows[start:end], "meta": meta})

    def _observations(self, request: Request) -> list[dict[str, Any]]:
        """The newest first, as the server sorts them."""
        rows = []
        for trace in self.traces:
            context = {
                "traceName": trace["name"],
                **{n: trace.get(n) for n in _OF_TRACE - {"traceName"}},
            }
            for row in trace["observations"]:
                kept = {name: value for name, value in row.items() if name != "metadata"}
                texts = {name: _raw(row.get(name)) for name in ("input", "output")}
                rows.append({**kept, **texts, **context, "updatedAt": f"{len(rows)}"})
        low, high = request.params.get("fromStartTime"), request.params.get("toStartTime")
        within = [row for row in rows if _is_within(row["startTime"], low, high)]
        return sorted(within, key=lambda row: (row["startTime"], row["id"]), reverse=True)

    def _scores(self, request: Request) -> list[dict[str, Any]]:
        traces = set(request.params.get("traceId", "").split(","))
        sessions = set(request.params.get("sessionId", "").split(","))
        rows = []
        for score in (score for trace in self.traces for score in trace["scores"]):
            if score["traceId"] in traces:
                subject = {"kind": "trace", "id": score["traceId"]}
                if score["observationId"]:
                    subject = {
                        "kind": "observation",
                        "id": score["observationId"],
                        "traceId": score["traceId"],
                    }
            elif score.get("sessionId") in sessions:
                subject = {"kind": "session", "id": score["sessionId"]}
            else:
                continue
            skipped = ("traceId", "observationId", "sessionId")
            row = {name: value for name, value in score.items() if name not in skipped}
            rows.append({**row, "projectId": "p1", "subject": subject})
        return rows

    def _old(self, request: Request) -> Reply:
        ended = {"_deprecation": {"message": "use v2"}}
        if request.path == "/api/public/traces":
            params = request.params
            assert set(params) <= {"page", "limit", "fromTimestamp", "toTimestamp", "orderBy"}
            assert params["orderBy"] == "timestamp.asc"
            low, high = params.get("fromTimestamp"), params.get("toTimestamp")
            within = [trace for trace in self.traces if _is_within(trace["timestamp"], low, high)]
            rows = sorted(within, key=lambda trace: trace["timestamp"])
            page, limit = int(params["page"]), min(int(params["limit"]), self.page)
            shown = [
                {**trace, "observations": [o["id"] for o in trace["observations"]]}
                for trace in rows[(page - 1) * limit : page * limit]
            ]
            pages = -(-len(rows) // limit)
            meta = {"page": page, "limit": limit, "totalItems": len(rows), "totalPages": pages}
            return Reply(200, {"data": shown, "meta": meta, **ended})
        trace_id = request.path.removeprefix("/api/public/traces/")
        for trace in self.traces:
            if trace["id"] == trace_id:
                return Reply(200, {**trace, **ended})
        return Reply(404, {"message": "not found"})


def check_by_description(request: Request) -> None:
    """Every parameter is one of the description, of its type and within its limits."""
    known = {each["name"]: each for each in _paths()[request.path]["get"]["parameters"]}
    assert len(request.query) == len(request.params), "a parameter stands twice"
    for name, value in request.params.items():
        assert name in known, f"{request.path} has no parameter {name}"
        schema = known[name]["schema"]
        if schema.get("type") == "integer":
            assert 1 <= int(value) <= LIMITS[request.path], name
        if schema.get("format") == "date-time":
            assert datetime.fromisoformat(value).tzinfo is not None, name
        if name == "fields":
            assert set(value.split(",")) <= set(GROUPS[request.path].split(",")), value
    if request.path == "/api/public/v3/scores":
        assert not {"traceId", "sessionId"} <= set(request.params), "they exclude one another"


def _is_within(moment: str, low: str | None, high: str | None) -> bool:
    when = datetime.fromisoformat(moment)
    return (low is None or when >= datetime.fromisoformat(low)) and (
        high is None or when < datetime.fromisoformat(high)
    )


def _raw(value: Any) -> str | None:
    return (
        value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    )
