"""Requests of batches: the request files of a round, and the calls of a batch endpoint.

The files are cut to the size that providers accept. A call is retried after a fault that passes, and
finished before a cancel.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypeVar

import orjson
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_exponential

from assizes.judge.engine.batching import model_mark
from assizes.judge.engine.faults import action_for
from assizes.judge.errors import ModelError
from assizes.judge.models.model import Model
from assizes.judge.prompts.prompt_texts import worst_usd
from assizes.judge.protocol import Ask
from assizes.tasks.runtime.process import Closing

T = TypeVar("T")

CALL_ATTEMPTS: Final = 5  # tries of a request to the batch endpoint before the run gives up
CANCEL_GRACE_S: Final = 5.0  # a cancelled run's wait for the answer to the request in flight


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The bounds of one batch: the smallest of all providers."""

    asks: int = 50_000  # requests
    size: int = 200_000_000  # bytes


@dataclass(slots=True)
class Draft:
    """One file of requests to one model, and a second one (`.worst`) with the worst case of each."""

    model: str
    mark: str  # of the model with its parameters (`assizes.judge.engine.batching.model_mark`)
    path: Path  # of the requests, a line of JSON each
    asks: int = 0
    size: int = 0  # bytes of the file
    keys_hash: str = ""  # SHA-256 over the keys, in order; set when the file is closed

    def worst_cases(self) -> Iterator[tuple[str, float | None]]:
        """Key and worst-case dollars of each ask at the batch price; `None` without a price."""
        with self.path.with_suffix(".worst").open(encoding="ascii") as lines:
            for line in lines:
                key, _, usd = line.strip().partition(" ")
                yield key, float(usd) if usd else None


class _DraftWriter:
    def __init__(self, draft: Draft) -> None:
        self.draft = draft
        self._digest = hashlib.sha256()
        self._requests = draft.path.open("wb")
        self._worst = draft.path.with_suffix(".worst").open("w", encoding="ascii")

    def write(self, key: str, line: bytes, worst_usd: float | None) -> None:
        self._requests.write(line)
        # repr() gives back the very same float when it is read.
        self._worst.write(f"{key} {'' if worst_usd is None else repr(worst_usd)}\n")
        self._digest.update(key.encode() + b"\n")
        self.draft.asks += 1
        self.draft.size += len(line)

    def close(self) -> Draft:
        self._requests.close()
        self._worst.close()
        self.draft.keys_hash = self._digest.hexdigest()
        return self.draft


class Drafts(Closing):
    """Writes all drafts of one round into a folder; for each model one draft is open at a time."""

    def __init__(self, folder: Path, limits: BatchLimits) -> None:
        self._folder = folder
        self._limits = limits
        self._writers: dict[str, _DraftWriter] = {}
        self._closed: list[Draft] = []

    def add(self, model: Model, request: Mapping[str, Any], ask: Ask[Any], key: str) -> None:
        """Write one request; begins another draft where the open one is full.

        `request` is the line of `ask` for the provider; `key` is the ask's key in the reply cache.
        """
        try:
            line = orjson.dumps(request) + b"\n"
        except TypeError:  # a lone surrogate; live calls send it as an escape
            line = json.dumps(request).encode() + b"\n"
        mark = model_mark(model)
        writer = self._writers.get(mark)
        if writer is None or not self._fits(writer.draft, len(line)):
            self._end(mark)
            number = len(self._closed) + len(self._writers) + 1
            draft = Draft(model.name, mark, self._folder / f"{number:06d}.jsonl")
            writer = self._writers[mark] = _DraftWriter(draft)
        writer.write(key, line, worst_usd(model.price, ask, model.tokens(ask), batch=True))

    def close(self) -> Sequence[Draft]:
        """Close all files; the drafts, in the order in which they were begun."""
        for mark in list(self._writers):
            self._end(mark)
        return sorted(self._closed, key=attrgetter("path.name"))

    def _fits(self, draft: Draft, size: int) -> bool:
        return draft.asks < self._limits.asks and draft.size + size <= self._limits.size

    def _end(self, mark: str) -> None:
        if (writer := self._writers.pop(mark, None)) is not None:
            self._closed.append(writer.close())


@dataclass(frozen=True, slots=True)
class PollInterval:
    """The pauses between two polls of a batch, each twice the one before."""

    first_s: float = 2.0
    longest_s: float = 60.0


async def call_with_retries(interval: PollInterval, call: Callable[[], Awaitable[T]]) -> T:
    """The result of a call, which is made anew after a transient fault, in these intervals.

    Raises:
        ModelError: the last fault.
    """

    async def attempt_call() -> T:  # tenacity awaits only what is declared async
        return await call()

    return await AsyncRetrying(
        retry=retry_if_exception(lambda e: isinstance(e, ModelError) and is_transient(e)),
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
        await asyncio.wait([running], timeout=CANCEL_GRACE_S)  # does not cancel the work itself
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
