"""The HTTP side of files and batches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

import orjson
from aiohttp import web

from tests.doubles.openai_answer import error
from tests.doubles.openai_batches import Batches
from tests.doubles.openai_tally import Tally

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Holder(Protocol):
    """Who has the batches and the tally, both of which a reset replaces."""

    batches: Batches
    tally: Tally


class BatchRoutes:
    """Routes below `/v1/files` and `/v1/batches`."""

    def __init__(self, holder: Holder) -> None:
        self.holder = holder

    def add_to(self, app: web.Application) -> None:
        for method, path, handler in (
            ("POST", "/v1/files", self.upload),
            ("GET", "/v1/files", self.files),
            ("GET", "/v1/files/{id}", self.file),
            ("DELETE", "/v1/files/{id}", self.delete_file),
            ("GET", "/v1/files/{id}/content", self.content),
            ("POST", "/v1/batches", self.create),
            ("GET", "/v1/batches", self.batches),
            ("GET", "/v1/batches/{id}", self.batch),
            ("POST", "/v1/batches/{id}/cancel", self.cancel),
        ):
            app.router.add_route(method, path, spoken(handler))

    async def upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        file, purpose = form.get("file"), form.get("purpose")
        if not isinstance(file, web.FileField) or purpose != "batch":
            raise ValueError("expected a file with purpose=batch")
        content = file.file.read()
        return web.json_response(self.holder.batches.upload(file.filename, content, purpose))

    async def files(self, request: web.Request) -> web.Response:
        data = [file.public() for file in self.holder.batches.files.values()]
        return web.json_response({"object": "list", "data": data, "has_more": False})

    async def file(self, request: web.Request) -> web.Response:
        return web.json_response(self.holder.batches.files[request.match_info["id"]].public())

    async def delete_file(self, request: web.Request) -> web.Response:
        file = self.holder.batches.files.pop(request.match_info["id"])
        return web.json_response({"id": file.id, "object": "file", "deleted": True})

    async def content(self, request: web.Request) -> web.Response:
        file = self.holder.batches.files[request.match_info["id"]]
        return web.Response(body=file.content, content_type="application/octet-stream")

    async def create(self, request: web.Request) -> web.Response:
        asked = orjson.loads(await request.read())
        return web.json_response(self.holder.batches.create(asked, self.holder.tally))

    async def batches(self, request: web.Request) -> web.Response:
        limit = int(request.query.get("limit", 20))
        after = request.query.get("after")
        return web.json_response(self.holder.batches.listed(after, limit, self.holder.tally))

    async def batch(self, request: web.Request) -> web.Response:
        found = self.holder.batches.current(request.match_info["id"], self.holder.tally)
        return web.json_response(found)

    async def cancel(self, request: web.Request) -> web.Response:
        ended = self.holder.batches.cancel(request.match_info["id"], self.holder.tally)
        return web.json_response(ended)


def spoken(handler: Handler) -> Handler:
    """The handler, whose errors are said as the protocol says them."""

    async def answering(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except KeyError as unknown:
            answer = error(404, f"No such object: {unknown}", "not_found")
        except ValueError as wrong:
            answer = error(400, str(wrong), "invalid_request_error")
        return web.Response(body=answer.body, status=answer.status, content_type="application/json")

    return answering
