"""Slow clients, and many of them, lock nobody out of a real server."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from starlette.responses import PlainTextResponse

from assizes.deployments.web.connections import MAX_CONNECTIONS, REQUEST_TIMEOUT_S
from assizes.deployments.web.guard import LOOPBACK, MAX_REQUESTS, Access, Guard
from tests.deployments.web.conftest import environment_without_prefect, serving

TOKEN = "0123456789abcdef"
KNOWN = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    env = {**environment_without_prefect(tmp_path), "ASSIZES_API_TOKEN": TOKEN}
    with serving(tmp_path, store="duckdb:///none.duckdb", **env) as url:
        yield int(url.rpartition(":")[2])


def opened(port: int, sent: bytes) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", port), timeout=60)
    client.sendall(sent)
    return client


def until_closed(client: socket.socket) -> float:
    """Seconds until the server closed a connection on which nothing more is sent."""
    began = time.monotonic()
    try:
        while client.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return time.monotonic() - began


def test_three_hundred_half_open_connections_lock_nobody_out(port: int):
    clients = [opened(port, b"GET /runs HTT") for _ in range(MAX_CONNECTIONS + 44)]
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            assert client.get("/health").status_code == 200
            for _ in range(3):  # the connection stays open, however many others wait
                assert client.get("/runs", headers=KNOWN).status_code in {200, 503}
            assert client.get("/openapi.json", headers=KNOWN).status_code == 200
            assert client.get("/runs").status_code == 401
        assert until_closed(clients[0]) < REQUEST_TIMEOUT_S / 2  # it had to make room
    finally:
        for one in clients:
            one.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX",
        b"POST /runs HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer 0123456789abcdef\r\n"
        b"Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    ],
    ids=["nothing", "half a header", "half a body"],
)
def test_a_request_that_does_not_come_to_its_end_is_cut(port: int, sent: bytes):
    with opened(port, sent) as client:
        assert REQUEST_TIMEOUT_S / 2 < until_closed(client) < REQUEST_TIMEOUT_S * 3


@pytest.mark.full
def test_clients_that_do_not_read_their_answers_hold_no_place(port: int):
    wanted = (
        f"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    )
    clients = []
    try:
        for _ in range(MAX_REQUESTS + 8):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.connect(("127.0.0.1", port))
            client.sendall(wanted.encode() * 60)  # more than the system takes over
            clients.append(client)
        time.sleep(8)  # until all wait
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            for _ in range(3):
                assert client.get("/openapi.json", headers=KNOWN).status_code == 200
    finally:
        for each in clients:
            each.close()


def test_half_of_a_second_request_is_cut_too(port: int):
    whole = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with opened(port, whole) as client:
        assert client.recv(4096).startswith(b"HTTP/1.1 200")
        client.sendall(whole[:20])
        assert REQUEST_TIMEOUT_S / 2 < until_closed(client) < REQUEST_TIMEOUT_S * 3


def test_a_byte_now_and_then_buys_no_more_time(port: int):
    began = time.monotonic()
    with opened(port, b"GET /health HTTP/1.1\r\nX-Slow: ") as client, suppress(OSError):
        while time.monotonic() - began < REQUEST_TIMEOUT_S * 4:
            client.sendall(b"a")
            time.sleep(0.5)
    assert REQUEST_TIMEOUT_S / 2 < time.monotonic() - began < REQUEST_TIMEOUT_S * 3


async def test_no_more_requests_are_served_at_once_than_the_limit_and_health_always():
    begun, release = asyncio.Semaphore(0), asyncio.Event()

    async def app(scope, receive, send):
        if scope["path"] == "/slow":
            begun.release()
            await release.wait()
        await PlainTextResponse("served")(scope, receive, send)

    guard = Guard(app, Access(LOOPBACK, TOKEN))
    transport = httpx.ASGITransport(guard)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        slow = [
            asyncio.create_task(client.get("/slow", headers=KNOWN)) for _ in range(MAX_REQUESTS)
        ]
        for _ in slow:
            await begun.acquire()
        refused = await client.get("/runs", headers=KNOWN)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "5")
        assert refused.headers["Content-Type"] == "application/problem+json"
        assert (await client.get("/runs")).status_code == 401
        assert (await client.get("/health")).status_code == 200
        release.set()
        assert {answer.status_code for answer in await asyncio.gather(*slow)} == {200}
        assert (await client.get("/runs", headers=KNOWN)).status_code == 200
