"""The lock of a run: shows that a process works on the run, and notices when that process died.

The process renews its lock from time to time. A lock that is not renewed expires.
"""

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
"""Seconds after which a lock expires that its process does not renew.

A process that is only slow may still commit its shards, so a lock that expires too early loses
nothing.
"""

HEARTBEAT_INTERVAL_S: Final = 25.0
"""Seconds between two renewals of a lock."""

LOCK_RETRY_S: Final = 1.0
"""Mean seconds before a process tries again to acquire a lock that another process holds."""

INTERRUPTED: Final = "interrupted"
"""The displayed status of a run that has not ended and has no valid lock: it can be resumed."""


@asynccontextmanager
async def run_lock(store: Store, run_id: str) -> AsyncIterator[None]:
    """Hold the lock of a run for the length of the block, and renew it in the background."""
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
    """Acquire the lock of a run; wait while another process holds it.

    Every process writes its lock before it looks for those of others, so of two processes that come
    at once at most one goes on. Where each sees the other, both release their locks and wait for a
    random time. `run_lock` renews and releases the acquired lock.
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
    """The status of a run for people: `interrupted` where a `running` run has no valid lock.

    Args:
        store: holds the run and its lock.
        run_id: full id of the run.
        status: the stored status.
        now: the time of the check; `None` for the clock's time.
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
    except StoreError as error:  # the lock is for display; rows are safe without it
        log.warning("cannot say that run %s is being worked on: %s", run_id, error)


def _release_lock(store: Store, run_id: str) -> None:
    try:
        store.release_lock(run_id)
    except StoreError as error:
        log.warning("cannot say that run %s is left alone: %s", run_id, error)
