"""The Gemini API's files and batches over real HTTP; every request is held to the protocol.

python -m tests.doubles.batch_providers.gemini --port 0
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field

import orjson
from aiohttp import web

from tests.doubles.batch_providers.desk import Desk, Json, cut, demand, guarded, run
from tests.doubles.openai_filler import answer_text

KNOWN = {"contents", "system_instruction", "generationConfig", "safetySettings", "tools"}
MODEL = "gemini-2.5-flash"
MOST_BYTES = 2_000_000_000


@dataclass
class Batch:
    """One batch."""

    display_name: str
    requests: list[Json]
    id: str = field(default_factory=lambda: f"batches/{secrets.token_hex(12)}")
    begun: float = field(default_factory=time.monotonic)
    file: str = ""  # of the responses; empty until it has ended
    stats: Json = field(default_factory=dict)


def refusal(status: int, message: str) -> Json:
    words = {404: "NOT_FOUND", 503: "UNAVAILABLE"}
    return {
        "error": {
            "code": status,
            "message": message,
            "status": words.get(status, "INVALID_ARGUMENT"),
        }
    }


def check_content(body: object) -> None:
    """Hold a `GenerateContentRequest` to the protocol."""
    demand(isinstance(body, dict) and body.get("contents"), "contents is not specified")
    demand(set(body) <= KNOWN, f"unknown names: {sorted(set(body) - KNOWN)}")
    demand([one["role"] for one in body["contents"]] == ["user"], "contents: role")
    demand(all(part["text"] for one in body["contents"] for part in one["parts"]), "parts: text")


def generated(body: Json, desk: Desk) -> Json:
    """The right answer."""
    desk.remember(body)
    user = "".join(part["text"] for part in body["contents"][0]["parts"])
    system = body.get("system_instruction", {"parts": []})["parts"]
    wanted = body.get("generationConfig", {}).get("response_json_schema")
    text = answer_text(orjson.dumps(wanted) if wanted else None, user)
    sent = (len(user) + sum(len(part["text"]) for part in system)) // 4 + 1
    usage = {"promptTokenCount": sent, "candidatesTokenCount": len(text) // 4 + 1}
    desk.counts["input_tokens"] += usage["promptTokenCount"]
    desk.counts["output_tokens"] += usage["candidatesTokenCount"]
    content = {"role": "model", "parts": [{"text": text}]}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {**usage, "totalTokenCount": sum(usage.values())},
        "modelVersion": MODEL,
        "responseId": secrets.token_hex(8),
    }


class Batches:
    """The routes of files and batches."""

    def __init__(self, desk: Desk) -> None:
        self.desk = desk
        self.files: dict[str, bytes] = {}
        self.uploads: dict[str, int] = {}
        self.batches: dict[str, Batch] = {}

    def check_key(self, request: web.Request) -> None:
        demand(request.headers.get("x-goog-api-key"), "Method doesn't allow unregistered callers")

    async def live(self, request: web.Request) -> web.StreamResponse:
        body = orjson.loads(await request.read())
        check_content(body)
        self.desk.counts["requests"] += 1
        return web.json_response(generated(body, self.desk))

    async def start(self, request: web.Request) -> web.StreamResponse:
        self.check_key(request)
        said = request.headers
        demand(said.get("X-Goog-Upload-Protocol") == "resumable", "upload protocol")
        demand(said.get("X-Goog-Upload-Command") == "start", "upload command")
        demand(said.get("X-Goog-Upload-Header-Content-Type"), "content type of the file")
        size = int(said["X-Goog-Upload-Header-Content-Length"])
        demand(0 < size <= MOST_BYTES, "size of the file")
        upload = secrets.token_hex(8)
        self.uploads[upload] = size
        url = f"http://{request.host}/upload/v1beta/files/{upload}"
        return web.json_response({}, headers={"X-Goog-Upload-URL": url})

    async def upload(self, request: web.Request) -> web.StreamResponse:
        said = request.headers
        demand(said.get("X-Goog-Upload-Offset") == "0", "upload offset")
        demand(said.get("X-Goog-Upload-Command") == "upload, finalize", "upload command")
        size = self.uploads.pop(request.match_info["upload"])
        content = await request.read()
        demand(len(content) == size == request.content_length, "size of the upload")
        name = f"files/{secrets.token_hex(6)}"
        self.files[name] = content
        file = {"name": name, "state": "ACTIVE", "sizeBytes": str(size)}
        return web.json_response({"file": file})

    async def create(self, request: web.Request) -> web.StreamResponse:
        self.check_key(request)
        asked = orjson.loads(await request.read())
        demand(set(asked) == {"batch"}, "only `batch` is known")
        batch = asked["batch"]
        demand(set(batch) == {"display_name", "input_config"}, f"batch: {sorted(batch)}")
        content = self.files[batch["input_config"]["file_name"]]
        requests = [orjson.loads(line) for line in content.splitlines()]
        for one in requests:
            demand(set(one) == {"key", "request"}, f"line: {sorted(one)}")
            check_content(one["request"])
        if statuses := self.desk.orders.get("refuse"):
            status = statuses.pop(0)
            return web.json_response(refusal(status, "The service is overloaded."), status=status)
        made = Batch(batch["display_name"], requests)
        self.batches[made.id] = made
        self.desk.note([one["key"] for one in requests])
        if self.desk.take_order("cut"):
            return await cut(request)
        return web.json_response(self.shown(made))

    async def listed(self, request: web.Request) -> web.StreamResponse:
        self.check_key(request)
        demand(set(request.query) <= {"pageSize", "pageToken"}, "unknown parameters")
        size, start = int(request.query["pageSize"]), int(request.query.get("pageToken", 0))
        all_of_them = list(reversed(self.batches.values()))
        page: Json = {"operations": [self.shown(one) for one in all_of_them[start : start + size]]}
        if start + size < len(all_of_them):
            page["nextPageToken"] = str(start + size)
        return web.json_response(page)

    async def batch(self, request: web.Request) -> web.StreamResponse:
        self.check_key(request)
        return web.json_response(self.shown(self.batches[f"batches/{request.match_info['id']}"]))

    async def download(self, request: web.Request) -> web.StreamResponse:
        self.check_key(request)
        demand(request.query.get("alt") == "media", "alt")
        return web.Response(body=self.files[f"files/{request.match_info['id']}"])

    def shown(self, batch: Batch) -> Json:
        total = len(batch.requests)
        if not batch.file and self.desk.is_done(batch.begun):
            fates = [self.desk.fate(place, total) for place in range(total)]
            lines = [
                self.line(one, fate)
                for one, fate in zip(batch.requests, fates, strict=True)
                if fate != "expired"
            ]
            batch.file = f"files/{secrets.token_hex(6)}"
            self.files[batch.file] = b"".join(orjson.dumps(one) + b"\n" for one in lines)
            good = fates.count("answered")
            batch.stats = {
                "successfulRequestCount": str(good),
                "failedRequestCount": str(total - good),
            }
        stats = {"requestCount": str(total), **batch.stats}
        state = "BATCH_STATE_SUCCEEDED" if batch.file else "BATCH_STATE_RUNNING"
        metadata: Json = {
            "@type": "type.googleapis.com/google.ai.generativelanguage.v1main.GenerateContentBatch",
            **{"displayName": batch.display_name, "state": state, "batchStats": stats},
        }
        shown: Json = {"name": batch.id, "metadata": metadata}
        if batch.file:
            shown |= {"done": True, "response": {"responsesFile": batch.file}}
        return shown

    def line(self, request: Json, fate: str) -> Json:
        if fate == "failed":
            error = {"code": 13, "message": "Internal error."}
            return {"key": request["key"], "error": error}
        return {"key": request["key"], "response": generated(request["request"], self.desk)}


def add_routes(app: web.Application, desk: Desk) -> None:
    batches = Batches(desk)
    for method, path, handler in (
        ("POST", f"/models/{MODEL}:generateContent", batches.live),
        ("POST", "/upload/v1beta/files", batches.start),
        ("POST", "/upload/v1beta/files/{upload}", batches.upload),
        ("POST", f"/v1beta/models/{MODEL}:batchGenerateContent", batches.create),
        ("GET", "/v1beta/batches", batches.listed),
        ("GET", "/v1beta/batches/{id}", batches.batch),
        ("GET", "/download/v1beta/files/{id}:download", batches.download),
    ):
        app.router.add_route(method, path, guarded(desk, handler, refusal))


if __name__ == "__main__":
    run(add_routes)
