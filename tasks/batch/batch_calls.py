"""Requests to a batch endpoint: retried after faults that pass, and finished before a cancel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_exponential

from assizes.judge.engine.faults import action_for
from assizes.judge.errors import ModelError

T = TypeVar("T")

CALL_ATTEMPTS: Final = 5
"""How often a request to the batch endpoint is tried before the run gives up."""

CANCEL_GRACE_S: Final = 5.0
"""Seconds that a cancelled run waits for the provider's answer to the request in flight."""


@dataclass(frozen=True, slots=True)
class PollInterval:
    """Seconds between two polls of a batch: the first pause, doubled up to the longest."""

    first_s: float = 2.0
    longest_s: float = 60.0


async def call_with_retries(interval: PollInterval, call: Callable[[], Awaitable[T]]) -> T:
    """The result of a call; after a transient fault the call is repeated.

    Args:
        interval: the pauses between two tries.
        call: makes the request anew each time.

    Raises:
        ModelError: the last fault.
    """

    async def attempt_call() -> T:  # tenacity awaits only what is declared async
        return await call()

    return await AsyncRetrying(
        retry=retry_if_exception(
            lambda error: isinstance(error, ModelError) and is_transient(error)
        ),
        wait=wait_exponential(multiplier=interval.first_s, max=interval.longest_s),
        stop=stop_after_attempt(CALL_ATTEMPTS),
        reraise=True,
    )(attempt_call)


def is_transient(error: ModelError) -> bool:
    """Whether the same request may succeed later."""
    return action_for(error.code) == "retry"


async def finish_before_cancel(work: Coroutine[Any, Any, T]) -> T:
    """Await some work; a cancel first waits up to `CANCEL_GRACE_S` seconds for the work to end."""
    running = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running], timeout=CANCEL_GRACE_S)
        raise


async def chunks(lines: AsyncIterator[T], size: int) -> AsyncIterator[list[T]]:
    """The lines in lists of this size; the last may be shorter."""
    chunk: list[T] = []
    async for line in lines:
        chunk.append(line)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
