"""Ends the work of a command when the Prefect server that it began with has died."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from assizes.judge.errors import ServerDied
from assizes.tasks.runtime.temporary_server import temporary_api_url

T = TypeVar("T")

CHECK_INTERVAL_S: Final = 2.0
"""Seconds between two looks whether a server listens."""

CONNECT_TIMEOUT_S: Final = 5.0
"""Seconds to wait for a connection, which the system makes for a server that is slow, too."""

DEAD_AFTER_S: Final = 35.0
"""Seconds in which nobody could be reached at the server's address, after which it counts as dead."""

GRACE_S: Final = 12.0
"""Seconds that the work has to end in order before the process ends: replies in flight have ten."""


async def end_with_server(work: Coroutine[Any, Any, T], api_url: str | None) -> T:
    """Do a piece of work, and end it if the server dies; a server that restarts in time is no fault.

    `api_url` is the configured server; `None`: the temporary one of this process, once it runs.

    Raises:
        ServerDied: nobody could be reached at the address for `DEAD_AFTER_S`; the work was
            cancelled, but it may still wait for the server.
    """
    task = asyncio.ensure_future(work)
    watch = asyncio.create_task(_wait_for_death(api_url))
    try:
        await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        task.cancel()
        await asyncio.wait({task}, timeout=GRACE_S)
        raise ServerDied(
            f"the Prefect server on {watch.result()} has died: nobody could be reached there for "
            f"{DEAD_AFTER_S:.0f} s"
        )
    except asyncio.CancelledError:  # Ctrl-C: the work ends as if nobody watched
        task.cancel()
        await task
        raise
    finally:
        watch.cancel()


async def _wait_for_death(api_url: str | None) -> str:
    """Return the address of the server once it is dead; never, while there is none yet."""
    away_since: float | None = None
    has_listened = False  # a temporary server takes a while to begin
    while True:
        await asyncio.sleep(CHECK_INTERVAL_S)
        address = api_url or temporary_api_url()
        if address is None:
            continue
        began = time.monotonic()
        if await _can_connect(address):
            has_listened, away_since = True, None
        elif has_listened:
            away_since = away_since or began
            if time.monotonic() - away_since >= DEAD_AFTER_S:
                return address


async def _can_connect(api_url: str) -> bool:
    """Whether an address takes connections: not refused, and no host or network that is gone."""
    parts = urlsplit(api_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, writer = await asyncio.open_connection(parts.hostname, port)
    except OSError:  # a timeout among them
        return False
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return True
