"""Who is at work on a run: a process says so now and then, so that a dead one is told from it."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from typing import Final

from assizes.judge.errors import StoreError
from assizes.tasks.store import Store

log = logging.getLogger(__name__)

LOCK_DURATION_S: Final = 90.0
"""A process that did not say so for this long is taken to be gone; its shards stay its own to
commit, so being wrong about that costs nothing.
"""

HEARTBEAT_INTERVAL_S: Final = 25.0
"""It says so this often."""

LOCK_RETRY_S: Final = 1.0
"""How long, about, whoever wants a run for itself waits before it looks again."""

INTERRUPTED: Final = "interrupted"
"""What a run is called that nobody is at work on and that has not ended: it can be resumed."""


@asynccontextmanager
async def run_lock(store: Store, run_id: str) -> AsyncIterator[None]:
    """Say that this process is at work on a run, for the length of the block."""
    await asyncio.to_thread(_renew_lock, store, run_id)
    heartbeat = asyncio.create_task(_renew_lock_forever(store, run_id))
    try:
        yield
    finally:
        heartbeat.cancel()
        with suppress(asyncio.CancelledError):
            await heartbeat
        await asyncio.to_thread(_release_lock, store, run_id)


async def acquire_run_lock(store: Store, run_id: str) -> None:
    """Hold a run that no other process holds; wait until that is so.

    Both write before they look, so of two that come at once at most one goes on; where each sees
    the other, both step back for a while of their own. Who holds it now ends it with `holding`.
    """
    while True:
        if not await asyncio.to_thread(_is_locked_by_others, store, run_id):
            await asyncio.to_thread(_renew_lock, store, run_id)
            if not await asyncio.to_thread(_is_locked_by_others, store, run_id):
                return
            await asyncio.to_thread(_release_lock, store, run_id)
        await asyncio.sleep(random.uniform(0.5, 1.5) * LOCK_RETRY_S)


def _is_locked_by_others(store: Store, run_id: str) -> bool:
    until = store.locked_until(run_id, by_others=True)
    return until is not None and until > datetime.now(UTC)


def displayed_status(store: Store, run_id: str, status: str, now: datetime | None = None) -> str:
    """The status of a run as people should read it: `interrupted` for `running` where nobody is at
    work on it any more.
    """
    if status != "running":
        return status
    until = store.locked_until(run_id)
    alive = until is not None and until > (now or datetime.now(UTC))
    return status if alive else INTERRUPTED


async def _renew_lock_forever(store: Store, run_id: str) -> None:
    while True:
        await asyncio.sleep(HEARTBEAT_INTERVAL_S)
        await asyncio.to_thread(_renew_lock, store, run_id)


def _renew_lock(store: Store, run_id: str) -> None:
    try:
        store.acquire_lock(run_id, datetime.now(UTC) + timedelta(seconds=LOCK_DURATION_S))
    except StoreError as error:  # what is stored is what counts; this is for people who look
        log.warning("cannot say that run %s is being worked on: %s", run_id, error)


def _release_lock(store: Store, run_id: str) -> None:
    try:
        store.release_lock(run_id)
    except StoreError as error:
        log.warning("cannot say that run %s is left alone: %s", run_id, error)
