"""What the servers of all batch protocols share: orders of the tests, counts, and the HTTP side.

`POST /control` sets orders of the test: `delay_s` until a batch ends, `expire` and `fail` (requests
of the next batches, from the end), `cut` (batches that are created although the connection breaks
off), `refuse` (statuses of the next creations). `GET /stats` counts; `POST /reset` forgets.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web

Json = dict[str, Any]
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

MAX_BODY_BYTES = 1 << 30


class Violation(Exception):
    """A request that the published protocol does not allow."""


def demand(holds: object, what: str) -> None:
    """Refuse a request where a rule of the protocol does not hold."""
    if not holds:
        raise Violation(what)


@dataclass
class Desk:
    """Orders and counts of one server."""

    orders: Json = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    violations: list[str] = field(default_factory=list)
    bodies: list[Json] = field(default_factory=list)  # of requests to the model, the last 100
    keys: set[str] = field(default_factory=set)  # that were ever part of a batch
    prefixes: set[str] = field(default_factory=set)  # texts in the provider's prompt cache

    def note(self, keys: list[str]) -> None:
        """Count a new batch and the requests in it."""
        self.counts["batches"] += 1
        self.counts["batch_lines"] += len(keys)
        self.counts["batch_repeats"] += len(self.keys & set(keys))
        self.keys |= set(keys)

    def remember(self, body: Json) -> None:
        self.bodies = [*self.bodies[-99:], body]

    def take_order(self, name: str) -> bool:
        """Whether an order with a count holds for one more time."""
        left = int(self.orders.get(name, 0))
        self.orders[name] = max(0, left - 1)
        return left > 0

    def is_done(self, begun: float) -> bool:
        return time.monotonic() - begun >= float(self.orders.get("delay_s", 0.1))

    def fate(self, place: int, total: int) -> str:
        """What becomes of a request of a batch: `answered`, `failed` or `expired`."""
        expire, fail = int(self.orders.get("expire", 0)), int(self.orders.get("fail", 0))
        if place >= total - expire:
            return "expired"
        return "failed" if place >= total - expire - fail else "answered"

    def stats(self) -> Json:
        names = ("batches", "batch_lines", "batch_repeats", "requests")
        counts = {**dict.fromkeys(names, 0), **self.counts}
        return {**counts, "violations": self.violations, "orders": self.orders}


def guarded(desk: Desk, handler: Handler, refusal: Callable[[int, str], Json]) -> Handler:
    """The handler, with refusals in the words of the protocol."""

    async def answering(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except Violation as wrong:
            desk.violations.append(f"{request.method} {request.path}: {wrong}")
            return web.json_response(refusal(400, str(wrong)), status=400)
        except KeyError as unknown:
            return web.json_response(refusal(404, f"no such object: {unknown}"), status=404)

    return answering


async def cut(request: web.Request) -> web.StreamResponse:
    """Break the connection off in place of an answer."""
    if request.transport is not None:
        request.transport.close()
    return web.Response()


def add_control(app: web.Application, desk: Desk) -> None:
    async def control(request: web.Request) -> web.Response:
        desk.orders.update(orjson.loads(await request.read()))
        return web.json_response({})

    async def stats(_: web.Request) -> web.Response:
        return web.json_response(desk.stats())

    async def requests(_: web.Request) -> web.Response:
        return web.json_response(desk.bodies)

    app.router.add_post("/control", control)
    app.router.add_get("/stats", stats)
    app.router.add_get("/requests", requests)


def run(add_routes: Callable[[web.Application, Desk], None]) -> None:
    """Serve until the end of the process; the first line on stdout is the address."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    port = parser.parse_args().port

    async def serve() -> None:
        app, desk = web.Application(client_max_size=MAX_BODY_BYTES), Desk()
        add_control(app, desk)
        add_routes(app, desk)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
        host, bound = runner.addresses[0][:2]
        print(f"http://{host}:{bound}", flush=True)  # noqa: T201  # the contract of this program
        await asyncio.Event().wait()

    asyncio.run(serve())
