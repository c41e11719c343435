"""Few requests are worked on at once, and no answer is older than the request that it answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse, PlainTextResponse, StreamingResponse

from assizes.deployments.web.guard import LOOPBACK, Access, Guard, busy_response
from assizes.deployments.web.load.places import Places

TOKEN = "0123456789abcdef"
KNOWN = {"Authorization": f"Bearer {TOKEN}"}


class Site:
    """Tells the number that a store holds at the moment at which a request is worked on."""

    def __init__(self) -> None:
        self.stored = 0
        self.at_once = 0
        self.most_at_once = 0
        self.worked_on = 0
        self.begun = asyncio.Semaphore(0)
        self.release = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.worked_on += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        held = self.stored
        self.begun.release()
        await self.release.wait()
        self.at_once -= 1
        if scope["path"] == "/defect":
            raise RuntimeError("a defect")
        cookie = dict(scope["headers"]).get(b"cookie", b"").decode()
        answer = JSONResponse(
            {"stored": held, "query": scope["query_string"].decode(), "by": cookie}
        )
        await answer(scope, receive, send)


@asynccontextmanager
async def asked(site: Any, **limits: Any) -> AsyncIterator[httpx.AsyncClient]:
    app = Guard(Places(site, busy_response, "/health", **limits), Access(LOOPBACK, TOKEN))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers=KNOWN
    ) as client:
        yield client


def later(client: httpx.AsyncClient, path: str, **options: Any) -> asyncio.Task[httpx.Response]:
    return asyncio.create_task(client.get(path, **options))


async def settled() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


async def test_only_so_many_are_worked_on_at_once_and_all_are_answered():
    site = Site()
    async with asked(site, places=3) as client:
        tasks = [later(client, f"/runs?n={number}") for number in range(20)]
        await settled()
        assert site.at_once == 3
        health = later(client, "/health")
        await settled()
        assert site.at_once == 4  # it never waits
        site.release.set()
        assert (await health).status_code == 200
        answers = await asyncio.gather(*tasks)
    assert [answer.json()["query"] for answer in answers] == [f"n={n}" for n in range(20)]
    assert (site.most_at_once, site.worked_on) == (4, 21)


async def test_equal_requests_that_wait_share_an_answer_that_is_newer_than_each():
    site = Site()
    async with asked(site, places=1) as client:
        first = later(client, "/runs")
        await site.begun.acquire()
        site.stored = 1  # the first request has read before
        others = [later(client, "/runs") for _ in range(9)]
        await settled()
        site.stored = 2  # they have not been begun: they may tell this, and must not tell less
        site.release.set()
        assert (await first).json()["stored"] == 0
        assert [(await each).json()["stored"] for each in others] == [2] * 9
        assert site.worked_on == 2
        site.stored = 3
        assert (await client.get("/runs")).json()["stored"] == 3  # nothing was kept


@pytest.mark.parametrize(
    "other",
    [
        {"path": "/runs?limit=2"},
        {"path": "/runs/a"},
        {"headers": {"Cookie": "name=b"}},
        {"headers": {"Host": "127.0.0.1"}},
    ],
)
async def test_requests_that_differ_share_nothing(other: dict[str, Any]):
    site = Site()
    async with asked(site, places=1) as client:
        first = later(client, "/busy")
        await site.begun.acquire()
        one = later(client, "/runs", headers={"Cookie": "name=a"})
        two = later(client, other.get("path", "/runs"), headers=other.get("headers"))
        await settled()
        site.release.set()
        await first
        assert (await one).json()["by"] == "name=a"
        assert (await two).json()["by"] == other.get("headers", {}).get("Cookie", "")
        assert site.worked_on == 3


async def test_who_has_no_token_shares_no_answer():
    site = Site()
    async with asked(site, places=1) as client:
        first = later(client, "/busy")
        await site.begun.acquire()
        waits = later(client, "/runs")
        await settled()
        stranger = await client.get("/runs", headers={"Authorization": "Bearer wrong"})
        assert stranger.status_code == 401
        site.release.set()
        await asyncio.gather(first, waits)


async def test_who_waits_too_long_is_told_so_and_the_place_is_not_lost():
    site = Site()
    async with asked(site, places=1, wait_s=0.05) as client:
        first = later(client, "/busy")
        await site.begun.acquire()
        refused = await client.get("/runs")
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        assert "0.05 s" in refused.json()["detail"]
        site.release.set()
        assert (await first).status_code == 200
        assert (await client.get("/runs")).status_code == 200


async def test_those_who_joined_a_request_that_failed_are_answered_by_another():
    site = Site()
    async with asked(site, places=1) as client:
        first = later(client, "/busy")
        await site.begun.acquire()
        tasks = [later(client, "/defect") for _ in range(3)]
        await settled()
        site.release.set()
        await first
        failed = await asyncio.gather(*tasks, return_exceptions=True)
        assert [str(each) for each in failed] == ["a defect"] * 3
        assert (await client.get("/runs")).status_code == 200


async def test_a_client_that_goes_away_takes_nothing_from_those_who_joined_it():
    site = Site()
    async with asked(site, places=1) as client:
        first = later(client, "/busy")
        await site.begun.acquire()
        gone, stays = later(client, "/runs"), later(client, "/runs")
        await settled()
        gone.cancel()
        await settled()
        site.release.set()
        await first
        assert (await stays).status_code == 200
        assert (await client.get("/runs?again=1")).status_code == 200


async def test_who_takes_a_long_answer_slowly_holds_no_place():
    read = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        async def lines() -> AsyncIterator[str]:
            for number in range(3):
                yield f"{number}\n"

        if scope["path"] == "/csv":
            await StreamingResponse(lines())(scope, receive, send)
        else:
            await PlainTextResponse("served")(scope, receive, send)

    places = Places(app, busy_response, "/health", places=1, wait_s=1)
    sent: list[bytes] = []

    async def slowly(message: Any) -> None:
        await read.wait()
        sent.append(message.get("body", b""))

    async def receive() -> Any:
        await asyncio.Event().wait()

    scope = {"type": "http", "method": "GET", "path": "/csv", "query_string": b"", "headers": []}
    scope |= {"asgi": {"spec_version": "2.4"}}
    slow = asyncio.create_task(places(scope, receive, slowly))
    await settled()
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(places), base_url="http://localhost"
    ) as client:
        assert (await client.get("/runs")).text == "served"
        assert (await client.post("/runs", content=b"x" * 100)).text == "served"
    assert not slow.done()
    read.set()
    await slow
    assert b"".join(sent) == b"0\n1\n2\n"
