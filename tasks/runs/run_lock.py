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

HOLD_S: Final = 90.0
"""A process that did not say so for this long is taken to be gone; its shards stay its own to
commit, so being wrong about that costs nothing.
"""

BEAT_S: Final = 25.0
"""It says so this often."""

STEP_BACK_S: Final = 1.0
"""How long, about, whoever wants a run for itself waits before it looks again."""

INTERRUPTED: Final = "interrupted"
"""What a run is called that nobody is at work on and that has not ended: it can be resumed."""


@asynccontextmanager
async def holding(store: Store, run_id: str) -> AsyncIterator[None]:
    """Say that this process is at work on a run, for the length of the block."""
    await asyncio.to_thread(_hold, store, run_id)
    beating = asyncio.create_task(_beat(store, run_id))
    try:
        yield
    finally:
        beating.cancel()
        with suppress(asyncio.CancelledError):
            await beating
        await asyncio.to_thread(_release, store, run_id)


async def take(store: Store, run_id: str) -> None:
    """Hold a run that no other process holds; wait until that is so.

    Both write before they look, so of two that come at once at most one goes on; where each sees
    the other, both step back for a while of their own. Who holds it now ends it with `holding`.
    """
    while True:
        if not await asyncio.to_thread(_others_hold, store, run_id):
            await asyncio.to_thread(_hold, store, run_id)
            if not await asyncio.to_thread(_others_hold, store, run_id):
                return
            await asyncio.to_thread(_release, store, run_id)
        await asyncio.sleep(random.uniform(0.5, 1.5) * STEP_BACK_S)


def _others_hold(store: Store, run_id: str) -> bool:
    until = store.held_until(run_id, by_others=True)
    return until is not None and until > datetime.now(UTC)


def standing(store: Store, run_id: str, status: str, now: datetime | None = None) -> str:
    """The status of a run as people should read it: `interrupted` for `running` where nobody is at
    work on it any more.
    """
    if status != "running":
        return status
    until = store.held_until(run_id)
    alive = until is not None and until > (now or datetime.now(UTC))
    return status if alive else INTERRUPTED


async def _beat(store: Store, run_id: str) -> None:
    while True:
        await asyncio.sleep(BEAT_S)
        await asyncio.to_thread(_hold, store, run_id)


def _hold(store: Store, run_id: str) -> None:
    try:
        store.hold(run_id, datetime.now(UTC) + timedelta(seconds=HOLD_S))
    except StoreError as error:  # what is stored is what counts; this is for people who look
        log.warning("cannot say that run %s is being worked on: %s", run_id, error)


def _release(store: Store, run_id: str) -> None:
    try:
        store.release(run_id)
    except StoreError as error:
        log.warning("cannot say that run %s is left alone: %s", run_id, error)
