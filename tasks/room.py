"""The room a run sits in: everything that is opened once and shared by all its shards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from contextvars import ContextVar
from traceback import clear_frames

from judge.catalog import Court, court
from judge.config import RunConfig
from judge.engine import Engine, Means
from judge.errors import AssizesError
from judge.llm import check_model, model_for
from tasks.clerk import SandboxClerk
from tasks.objects import Spool
from tasks.replies import FileReplies
from tasks.store import Store, open_store


class Room:
    """Court, engine, store and spool of one run. One slot pool serves all shards.

    A plain class on purpose: Prefect looks into dataclasses and containers for task inputs, and
    there is nothing to find here.
    """

    def __init__(self, config: RunConfig, court: Court, store: Store) -> None:
        """Validate the model first: no store is touched by a run that cannot judge."""
        self.config = config
        self.court = court
        self.store = store
        self.spool = Spool(config.transcripts.storage_options)
        self.clerk = SandboxClerk()
        self._model = model_for(config.judge, config.limits)
        self._models = {name: model_for(own, config.limits) for name, own in court.models.items()}
        self._engine: Engine | None = None

    def engine_for(self, run_id: str) -> Engine:
        """The engine that answers a run's asks; a room hears one run."""
        if self._engine is None:
            cached = any(one.cache_key for one in (self._model, *self._models.values()))
            replies = FileReplies(self.config.cache.uri, self.config.cache.storage_options)
            means = Means(run_id=run_id, cache=replies if cached else None, clerk=self.clerk)
            self._engine = Engine(self._model, self.config.limits, means, models=self._models)
        return self._engine

    async def aclose(self) -> None:
        """Give back the models' connections, the clerk's children, the spooled files.

        What fails to close keeps nothing else open. The store is closed by who opened it.
        """
        async with AsyncExitStack() as closing:
            closing.push_async_callback(asyncio.to_thread, self.spool.close)
            closing.push_async_callback(self.clerk.aclose)
            if self._engine is not None:
                closing.push_async_callback(self._engine.aclose)


@asynccontextmanager
async def sitting(config: RunConfig) -> AsyncIterator[Room]:
    """Open a room for a run.

    Raises:
        ConfigurationError: before anything is read or written, when the judges, the metrics or the
            model cannot work.
        StoreError: when the store cannot be opened for writing.
    """
    bench = court(config.judge)
    for judge in (config.judge, *bench.models.values()):
        await asyncio.to_thread(check_model, judge)
    async with AsyncExitStack() as closing:
        store = await asyncio.to_thread(open_store, config.store, writing=True)
        closing.push_async_callback(asyncio.to_thread, store.close)
        room = Room(config, bench, store)
        closing.push_async_callback(room.aclose)
        closing.push(_forgetting)
        yield room


def _forgetting(_kind: object, error: BaseException | None, _trace: object) -> None:
    """Leaving by an error: it goes on, but holds on to nothing."""
    if error is not None:
        forget_frames(error)


def forget_frames(error: BaseException) -> None:
    """Drop what an error holds on to: the values in its frames, and the cause of one of ours, whose
    message says it already.

    Prefect keeps errors until the interpreter ends, and a connection or an error of DuckDB that
    lives as long makes it print a report of leaked objects.
    """
    told: BaseException | None = error
    while told is not None:
        clear_frames(told.__traceback__)
        before = told.__cause__ or told.__context__
        if isinstance(told, AssizesError):
            told.__cause__ = told.__context__ = None
        told = before


Watcher = Callable[[str, int, int], None]
"""Told what is going on: a stage (`reading`, `judging`), how many are done, how many there are."""


def _nobody(_stage: str, _done: int, _total: int) -> None:
    """The default: nobody watches."""


watcher: ContextVar[Watcher] = ContextVar("watcher", default=_nobody)
"""Set by whoever shows progress; flows and tasks report to it and never draw themselves."""
