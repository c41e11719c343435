"""Runs a coroutine to its end from a plain function, also where an event loop runs already."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from typing import Any, TypeVar

T = TypeVar("T")


def run_blocking(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine.

    Where an event loop runs in this thread, as in a notebook, another thread runs the coroutine.
    Ctrl-C cancels the coroutine and waits until it has ended.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[T]]] = []

    async def cancellable() -> T:
        task = asyncio.ensure_future(work)
        running.append((asyncio.get_running_loop(), task))
        return await task

    # The context goes along: a notebook knows by it to which cell an output belongs.
    context = copy_context()
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(context.run, asyncio.run, cancellable())
        try:
            return future.result()
        finally:
            if not future.done() and running:
                loop, task = running[0]
                with suppress(RuntimeError):  # the loop has ended just now
                    loop.call_soon_threadsafe(task.cancel)
