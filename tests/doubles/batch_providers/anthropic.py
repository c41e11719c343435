"""Anthropic's messages and message batches over real HTTP; every request is held to the protocol.

    python -m tests.doubles.batch_providers.anthropic --port 0

Rules from the published reference: headers, the form of `custom_id`, known parameters, blocks of
texts, at most 4 cache markers, results only once a batch has ended.
"""

from __future__ import annotations

import re
import secrets
import time
from dataclasses import dataclass, field

import orjson
from aiohttp import web

from tests.doubles.batch_providers.desk import Desk, Json, cut, demand, guarded, run
from tests.doubles.openai_filler import answer_text

CUSTOM_ID = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
PARAMETERS = {
    *("model", "messages", "max_tokens", "system", "temperature", "tools", "tool_choice"),
    *("output_format", "output_config", "thinking", "metadata", "stop_sequences", "top_p", "top_k"),
}
MOST_REQUESTS = 100_000
MOST_BYTES = 256_000_000
CACHED_FROM_CHARS = 4 * 1024
"""About 1,024 tokens: a shorter text is not cached."""


@dataclass
class Batch:
    """One message batch."""

    requests: list[Json]
    id: str = field(default_factory=lambda: f"msgbatch_{secrets.token_hex(12)}")
    begun: float = field(default_factory=time.monotonic)
    results: list[Json] | None = None


def refusal(status: int, message: str) -> Json:
    kind = {404: "not_found_error", 529: "overloaded_error"}.get(status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def texts(content: object, where: str) -> list[Json]:
    """The text blocks of a content."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    demand(isinstance(content, list) and content, f"{where}: expected blocks")
    for block in content:
        demand(set(block) <= {"type", "text", "cache_control"}, f"{where}: {sorted(block)}")
        demand(block["type"] == "text" and block["text"], f"{where}: an empty text")
        mark = block.get("cache_control")
        demand(mark is None or mark == {"type": "ephemeral"}, f"{where}: cache_control {mark}")
    return list(content)


def check_params(params: object, betas: str) -> None:
    """Hold the parameters of a message to the protocol."""
    demand(isinstance(params, dict), "params: expected an object")
    extra = set(params) - PARAMETERS
    demand(not extra, f"{sorted(extra)}: Extra inputs are not permitted")
    demand({"model", "messages", "max_tokens"} <= set(params), "params: a field is missing")
    demand(isinstance(params["max_tokens"], int) and params["max_tokens"] > 0, "max_tokens")
    demand([one["role"] for one in params["messages"]] == ["user"], "messages: roles")
    blocks = texts(params["messages"][0]["content"], "messages.0")
    blocks += texts(params.get("system", "none"), "system")
    demand(sum("cache_control" in block for block in blocks) <= 4, "more than 4 cache markers")
    if "output_format" in params:
        demand("structured-outputs-2025-11-13" in betas, "output_format: no beta header")
        demand(params["output_format"]["type"] == "json_schema", "output_format.type")


def message(params: Json, desk: Desk) -> Json:
    """The right answer to a message, with a prompt cache that works."""
    desk.remember(params)
    system = texts(params.get("system", "none"), "system")
    user = "".join(block["text"] for block in texts(params["messages"][0]["content"], "user"))
    schema = params.get("output_format", {}).get("schema")
    tools = params.get("tools") or []
    wanted = schema or (tools[0]["input_schema"] if tools else None)
    text = answer_text(orjson.dumps(wanted) if wanted else None, user)
    content: Json = {"type": "text", "text": text}
    if tools:
        content = {
            **{"type": "tool_use", "id": "toolu_1", "name": tools[0]["name"]},
            "input": orjson.loads(text),
        }
    marked = max((n for n, block in enumerate(system) if "cache_control" in block), default=-1)
    prefix = "".join(block["text"] for block in system[: marked + 1])
    rest = "".join(block["text"] for block in system[marked + 1 :]) + user
    is_cached = len(prefix) >= CACHED_FROM_CHARS
    hit = is_cached and prefix in desk.prefixes
    if is_cached:
        desk.prefixes.add(prefix)
    usage = {
        "input_tokens": (len(rest) + (0 if is_cached else len(prefix))) // 4 + 1,
        "cache_creation_input_tokens": len(prefix) // 4 if is_cached and not hit else 0,
        "cache_read_input_tokens": len(prefix) // 4 if hit else 0,
        "output_tokens": len(text) // 4 + 1,
    }
    for name, tokens in usage.items():
        desk.counts[name] += tokens
    return {
        "id": f"msg_{secrets.token_hex(12)}",
        "type": "message",
        "role": "assistant",
        "model": params["model"],
        "content": [content],
        "stop_reason": "tool_use" if tools else "end_turn",
        "stop_sequence": None,
        "usage": usage,
    }


class Batches:
    """The routes below `/v1/messages`."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.batches: dict[str, Batch] = {}

    def check_headers(self, request: web.Request) -> str:
        demand(request.headers.get("x-api-key"), "x-api-key header is required")
        demand(request.headers.get("anthropic-version") == "2023-06-01", "anthropic-version")
        return request.headers.get("anthropic-beta", "")

    async def live(self, request: web.Request) -> web.StreamResponse:
        betas = self.check_headers(request)
        params = orjson.loads(await request.read())
        check_params(params, betas)
        self.desk.counts["requests"] += 1
        return web.json_response(message(params, self.desk))

    async def create(self, request: web.Request) -> web.StreamResponse:
        betas = self.check_headers(request)
        demand(request.content_type == "application/json", "content-type")
        body = await request.read()
        demand(len(body) <= MOST_BYTES, "request_too_large")
        asked = orjson.loads(body)
        demand(isinstance(asked, dict) and set(asked) == {"requests"}, "only `requests` is known")
        requests = asked["requests"]
        demand(0 < len(requests) <= MOST_REQUESTS, "requests: 1 to 100,000")
        for one in requests:
            demand(set(one) == {"custom_id", "params"}, f"requests: {sorted(one)}")
            demand(CUSTOM_ID.match(one["custom_id"]), f"custom_id {one['custom_id']!r}")
            check_params(one["params"], betas)
        keys = [one["custom_id"] for one in requests]
        demand(len(set(keys)) == len(keys), "custom_id: not unique")
        if statuses := self.desk.orders.get("refuse"):
            status = statuses.pop(0)
            return web.json_response(refusal(status, "Overloaded"), status=status)
        batch = Batch(requests)
        self.batches[batch.id] = batch
        self.desk.note(keys)
        if self.desk.take_order("cut"):
            return await cut(request)
        return web.json_response(self.shown(batch))

    async def listed(self, request: web.Request) -> web.StreamResponse:
        self.check_headers(request)
        limit = int(request.query.get("limit", 20))
        demand(1 <= limit <= 1000, "limit: 1 to 1000")
        demand(set(request.query) <= {"limit", "after_id", "before_id"}, "unknown parameters")
        ids = list(reversed(self.batches))
        after = request.query.get("after_id")
        ids = ids[ids.index(after) + 1 :] if after else ids
        data = [self.shown(self.batches[one]) for one in ids[:limit]]
        return web.json_response(
            {
                "data": data,
                "has_more": len(ids) > limit,
                "first_id": data[0]["id"] if data else None,
                "last_id": data[-1]["id"] if data else None,
            }
        )

    async def batch(self, request: web.Request) -> web.StreamResponse:
        self.check_headers(request)
        return web.json_response(self.shown(self.batches[request.match_info["id"]]))

    async def results(self, request: web.Request) -> web.StreamResponse:
        self.check_headers(request)
        batch = self.batches[request.match_info["id"]]
        demand(self.shown(batch)["processing_status"] == "ended", "the batch has not ended")
        lines = b"".join(orjson.dumps(one) + b"\n" for one in batch.results or [])
        return web.Response(body=lines, content_type="application/x-jsonl")

    def shown(self, batch: Batch) -> Json:
        total = len(batch.requests)
        if batch.results is None and self.desk.is_done(batch.begun):
            batch.results = [
                self.result(one, self.desk.fate(place, total))
                for place, one in enumerate(batch.requests)
            ]
            batch.results.reverse()  # results come in any order
        words = ("succeeded", "errored", "canceled", "expired")
        kinds = [one["result"]["type"] for one in batch.results or []]
        ended = batch.results is not None
        return {
            "id": batch.id,
            "type": "message_batch",
            "processing_status": "ended" if ended else "in_progress",
            "request_counts": {
                "processing": 0 if ended else total,
                **{word: kinds.count(word) for word in words},
            },
            "created_at": "2026-11-27T00:00:00Z",
            "expires_at": "2026-11-28T00:00:00Z",
            "ended_at": "2026-11-27T00:10:00Z" if ended else None,
            "archived_at": None,
            "cancel_initiated_at": None,
            "results_url": f"http://elsewhere.invalid/{batch.id}/results" if ended else None,
        }

    def result(self, request: Json, fate: str) -> Json:
        if fate == "answered":
            result: Json = {"type": "succeeded", "message": message(request["params"], self.desk)}
        elif fate == "failed":
            error = {"type": "error", "error": {"type": "api_error", "message": "It failed."}}
            result = {"type": "errored", "error": error}
        else:
            result = {"type": "expired"}
        return {"custom_id": request["custom_id"], "result": result}


def add_routes(app: web.Application, desk: Desk) -> None:
    batches = Batches(desk)
    for method, path, handler in (
        ("POST", "/v1/messages", batches.live),
        ("POST", "/v1/messages/batches", batches.create),
        ("GET", "/v1/messages/batches", batches.listed),
        ("GET", "/v1/messages/batches/{id}", batches.batch),
        ("GET", "/v1/messages/batches/{id}/results", batches.results),
    ):
        app.router.add_route(method, path, guarded(desk, handler, refusal))


if __name__ == "__main__":
    run(add_routes)
