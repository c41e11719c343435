"""A server whose host is gone is told from one that is slow: real sockets, real seconds."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from assizes.judge.errors import ServerDied
from assizes.tasks.runtime.server_watch import CHECK_INTERVAL_S, DEAD_AFTER_S, end_with_server

pytestmark = [pytest.mark.full, pytest.mark.long]


@contextmanager
def listening(port: int, backlog: int) -> Iterator[int]:
    """A server that accepts nothing; the system makes as many connections as the backlog allows."""
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen(backlog)
        yield server.getsockname()[1]


async def test_a_host_that_is_gone_ends_the_work_within_a_minute():
    with listening(0, 100) as port:
        watched = asyncio.create_task(
            end_with_server(asyncio.sleep(300), f"http://127.0.0.1:{port}/api")
        )
        await asyncio.sleep(2 * CHECK_INTERVAL_S)
    gone_at = time.monotonic()
    # With its backlog full, the system drops what asks for a connection, as a host does that is gone.
    with listening(port, 0), socket.create_connection(("127.0.0.1", port), 5):
        with pytest.raises(TimeoutError):
            socket.create_connection(("127.0.0.1", port), 0.5)
        with pytest.raises(ServerDied, match="nobody could be reached there for 35 s"):
            await watched
    assert DEAD_AFTER_S <= time.monotonic() - gone_at < 60


async def test_a_server_that_is_slow_ends_nothing():
    with listening(0, 100) as port:
        address = f"http://127.0.0.1:{port}/api"
        await end_with_server(asyncio.sleep(DEAD_AFTER_S + 4 * CHECK_INTERVAL_S), address)
