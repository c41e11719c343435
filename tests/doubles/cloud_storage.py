"""Objects of Google Cloud Storage over real HTTP: what its JSON interface says of buckets and objects.

Uploads of a whole object, metadata, downloads with `Range`, lists with `prefix`, `delimiter` and
pages, and deletions. Every request may be checked for a token first.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import Any

from aiohttp import web

Json = dict[str, Any]

MOST_PAGE = 1000
_GENERATIONS = count(1_700_000_000_000_001)


class Refused(Exception):
    """A request that Cloud Storage refuses, with the HTTP status of the refusal."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Stored:
    """One generation of an object."""

    content: bytes
    content_type: str = "application/octet-stream"
    generation: int = field(default_factory=lambda: next(_GENERATIONS))
    updated: str = field(
        default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    )


def refusal(status: int, message: str) -> Json:
    reasons = {401: "authError", 403: "forbidden", 404: "notFound", 412: "conditionNotMet"}
    error = {"message": message, "domain": "global", "reason": reasons.get(status, "invalid")}
    return {"error": {"code": status, "message": message, "errors": [error]}}


class CloudStorage:
    """Buckets, and the routes of their objects."""

    def __init__(self, check: Callable[[web.Request], None] = lambda _: None) -> None:
        self.buckets: dict[str, dict[str, Stored]] = {}
        self.reads: list[str] = []  # names of the objects whose content was asked for
        self._check = check

    def put(self, bucket: str, name: str, content: bytes) -> Stored:
        """Write an object."""
        stored = Stored(content)
        self._bucket(bucket)[name] = stored
        return stored

    def get(self, uri: str) -> bytes:
        """Return the content of an object."""
        bucket, _, name = uri.removeprefix("gs://").partition("/")
        return self._object(bucket, name).content

    def add_routes(self, app: web.Application) -> None:
        """Add the routes to a server."""
        for method, path, handler in (
            ("POST", "/upload/storage/v1/b/{bucket}/o", self._upload),
            ("GET", "/storage/v1/b/{bucket}/o", self._list),
            ("GET", "/storage/v1/b/{bucket}", self._bucket_shown),
            ("GET", "/storage/v1/b/{bucket}/o/{name:.+}", self._read),
            ("GET", "/download/storage/v1/b/{bucket}/o/{name:.+}", self._read),
            ("DELETE", "/storage/v1/b/{bucket}/o/{name:.+}", self._delete),
        ):
            app.router.add_route(method, path, self._guarded(handler))

    def _guarded(self, handler: Any) -> Any:
        async def answering(request: web.Request) -> web.StreamResponse:
            try:
                self._check(request)
                answer: web.StreamResponse = await handler(request)
            except Refused as refused:
                body = refusal(refused.status, str(refused))
                return web.json_response(body, status=refused.status)
            return answer

        return answering

    def _bucket(self, name: str) -> dict[str, Stored]:
        if name not in self.buckets:
            raise Refused(404, "The specified bucket does not exist.")
        return self.buckets[name]

    def _object(self, bucket: str, name: str) -> Stored:
        stored = self._bucket(bucket).get(name)
        if stored is None:
            raise Refused(404, f"No such object: {bucket}/{name}")
        return stored

    async def _upload(self, request: web.Request) -> web.StreamResponse:
        if request.query.get("uploadType") != "media" or not request.query.get("name"):
            raise Refused(400, "uploadType and name")
        bucket, name = request.match_info["bucket"], request.query["name"]
        content = await request.read()
        if len(content) != request.content_length:
            raise Refused(400, "the body is shorter than its length")
        stored = Stored(content, request.content_type)
        self._bucket(bucket)[name] = stored
        return web.json_response(self._shown(bucket, name, stored))

    async def _list(self, request: web.Request) -> web.StreamResponse:
        bucket, query = request.match_info["bucket"], request.query
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        size = int(query.get("maxResults", MOST_PAGE))
        if not 1 <= size <= MOST_PAGE:
            raise Refused(400, "maxResults")
        names = sorted(name for name in self._bucket(bucket) if name.startswith(prefix))
        folders = set()
        if delimiter:
            for name in list(names):
                head, found, _ = name[len(prefix) :].partition(delimiter)
                if found:
                    folders.add(f"{prefix}{head}{delimiter}")
                    names.remove(name)
        entries = sorted([*names, *folders])
        start = int(query.get("pageToken", 0))
        page: Json = {"kind": "storage#objects"}
        shown = entries[start : start + size]
        items = [each for each in shown if each not in folders]
        if items:
            stored = self._bucket(bucket)
            page["items"] = [self._shown(bucket, name, stored[name]) for name in items]
        if prefixes := [each for each in shown if each in folders]:
            page["prefixes"] = prefixes
        if start + size < len(entries):
            page["nextPageToken"] = str(start + size)
        return web.json_response(page)

    async def _bucket_shown(self, request: web.Request) -> web.StreamResponse:
        name = request.match_info["bucket"]
        self._bucket(name)
        return web.json_response({"kind": "storage#bucket", "id": name, "name": name})

    async def _read(self, request: web.Request) -> web.StreamResponse:
        bucket, name = request.match_info["bucket"], request.match_info["name"]
        stored = self._object(bucket, name)
        wanted = request.query.get("generation")
        if wanted and int(wanted) != stored.generation:
            raise Refused(404, f"No such object: {bucket}/{name}#{wanted}")
        if request.query.get("alt") != "media":
            return web.json_response(self._shown(bucket, name, stored))
        self.reads.append(name)
        span = request.http_range
        content = stored.content[span]
        if span.start is not None and span.start >= len(stored.content):
            raise Refused(416, "The requested range cannot be satisfied.")
        headers = {"X-Goog-Generation": str(stored.generation)}
        status = 206 if "Range" in request.headers else 200
        return web.Response(body=content, status=status, headers=headers)

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        bucket, name = request.match_info["bucket"], request.match_info["name"]
        self._object(bucket, name)
        del self._bucket(bucket)[name]
        return web.Response(status=204)

    def _shown(self, bucket: str, name: str, stored: Stored) -> Json:
        digest = base64.b64encode(hashlib.md5(stored.content).digest()).decode()
        crc = base64.b64encode(zlib.crc32(stored.content).to_bytes(4, "big")).decode()
        return {
            **{"kind": "storage#object", "id": f"{bucket}/{name}/{stored.generation}"},
            **{"name": name, "bucket": bucket, "generation": str(stored.generation)},
            **{"contentType": stored.content_type, "size": str(len(stored.content))},
            **{"md5Hash": digest, "crc32c": crc, "etag": f"CP{stored.generation}"},
            **{
                "timeCreated": stored.updated,
                "updated": stored.updated,
                "storageClass": "STANDARD",
            },
            "metageneration": "1",
        }


@contextmanager
def running_storage() -> Iterator[tuple[CloudStorage, str]]:
    """Cloud Storage in a thread of its own, with its address."""
    storage, app = CloudStorage(), web.Application(client_max_size=1 << 26)
    storage.add_routes(app)
    with running_app(app) as url:
        yield storage, url


@contextmanager
def running_app(app: web.Application) -> Iterator[str]:
    """A server in a thread of its own; its address."""
    loop, runner = asyncio.new_event_loop(), web.AppRunner(app, access_log=None)

    async def start() -> str:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        return f"http://{host}:{port}"

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield asyncio.run_coroutine_threadsafe(start(), loop).result(30)
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()
