"""The room a run sits in: everything that is opened once and shared by all its shards."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from contextvars import ContextVar
from traceback import clear_frames
from typing import TYPE_CHECKING, Any

from assizes.judge.catalog import JudgePanel, resolve_judges
from assizes.judge.config.prices import Price
from assizes.judge.config.run import LimitsConfig, RunConfig
from assizes.judge.engine.batching import AskCallback, AskCollector, BatchAnswers, PaidReply
from assizes.judge.engine.hearings import Engine, EngineDependencies
from assizes.judge.engine.ledger import OpenLedger
from assizes.judge.engine.reply_cache import ReplyCache
from assizes.judge.errors import AssizesError
from assizes.judge.model_assignment import ModelAssignment, assign_callable_models, assign_models
from assizes.tasks.distribute.partitions import check_distributable, check_store
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.runtime.termination import handle_sigterm
from assizes.tasks.sandbox.sql_runner import SandboxSqlRunner
from assizes.tasks.sources.spool import Spool
from assizes.tasks.spending.ledger import SqliteLedger, stop_line
from assizes.tasks.spending.ledger_file import probe_ledger
from assizes.tasks.spending.reply_cache import FileReplyCache, RunReplyCache
from assizes.tasks.store import Store, open_store

if TYPE_CHECKING:
    from assizes.tasks.distribute.shared_limits import PrefectLeases

log = logging.getLogger(__name__)


class RunContext:
    """Court, engine, store and spool of one run. One slot pool serves all shards.

    A plain class on purpose: Prefect looks into dataclasses and containers for task inputs, and
    there is nothing to find here.
    """

    def __init__(
        self,
        config: RunConfig,
        judge_panel: JudgePanel,
        store: Store,
        assignment: ModelAssignment,
        preprocessor: CasePreprocessor,
    ) -> None:
        """Bind together what was opened before."""
        self.config = config
        self.judge_panel = judge_panel
        self.store = store
        self.assignment = assignment
        self.spool = Spool.of(config.transcripts)
        self.preprocessor = preprocessor
        self.sql_runner = SandboxSqlRunner.of(config)
        self.first_attempts: Mapping[str, PaidReply] = {}
        self._reply_cache = FileReplyCache(config.cache.uri, config.cache.storage_options)
        # Only what costs something must not be asked for twice.
        self._request_locks = (
            self._reply_cache.request_locks() if assignment.has_paid_calls else None
        )
        self.ledger: SqliteLedger | None = None
        self._leases = _leases(config.limits)
        self._engine: Engine | None = None

    def prices(self) -> dict[str, Any]:
        """What each model's tokens cost, as a run's record keeps it; null where nobody knows."""
        return {
            model.name: model.price.model_dump(mode="json") if model.price else None
            for model in self.assignment.models
        }

    def pin_prices(self, prices: Mapping[str, Any]) -> None:
        """Go by the prices that the run was begun with, whatever newer ones there are.

        One that was not known then is the one known now.
        """
        known_prices = {name: price for name, price in prices.items() if price is not None}
        if known_prices.items() <= self.prices().items():
            return
        pinned = {name: Price.model_validate(price) for name, price in known_prices.items()}
        limits = self.config.limits
        limits = limits.model_copy(update={"prices": {**limits.prices, **pinned}})
        self.assignment = assign_models(
            self.config.model_copy(update={"limits": limits}), self.judge_panel
        )

    def engine_for(self, run_id: str) -> Engine:
        """The engine that answers a run's asks; a room hears one run.

        Raises:
            StoreError: when the ledger cannot be opened.
        """
        if self._engine is None:
            dependencies = EngineDependencies(
                run_id=run_id,
                cache=self._cache_for(run_id),
                request_locks=self._request_locks
                if self.assignment.has_cacheable_replies
                else None,
                ledger=self.ledger_for(run_id) or OpenLedger(),
                leases=self._leases,
                sql_runner=self.sql_runner,
                batch_replies=self.first_attempts,
            )
            limits, own_models = self.config.limits, self.assignment.own
            self._engine = Engine(self.assignment.shared, limits, dependencies, models=own_models)
        return self._engine

    def ask_collector(self, run_id: str, answers: BatchAnswers, note: AskCallback) -> AskCollector:
        """An engine that asks nobody, and notes what the hearings would ask."""
        dependencies = EngineDependencies(
            run_id=run_id, cache=self._cache_for(run_id), sql_runner=self.sql_runner
        )
        return AskCollector(
            self.assignment.shared, dependencies, self.assignment.own, answers, note
        )

    def ledger_for(self, run_id: str) -> SqliteLedger | None:
        """Where a run's calls are counted; null where no model of it costs anything.

        Raises:
            StoreError: when the ledger cannot be opened.
        """
        if self.ledger is None and self.assignment.has_paid_calls:
            limits = self.config.limits
            self.ledger = SqliteLedger(limits.ledger, run_id, limits)
            if at := self.ledger.resumed_after:
                log.warning("run %s was stopped at %s; it goes on now", run_id, at)
        return self.ledger

    def halt(self, run_id: str, why: str) -> None:
        """Ask no model any more: as `heed_stop` where someone stopped the run."""
        self.engine_for(run_id).stop("halted", why)

    def check_stop(self) -> None:
        """Where someone stopped the run that sits here, ask no model any more.

        What waits for a limit or a pause ends at once; calls in flight are waited for and kept.
        """
        if self.ledger is None or self._engine is None:
            return
        if (at := self.ledger.stopped_at()) is not None:
            self._engine.stop("halted", stop_line(at))

    async def aclose(self) -> None:
        """Give back the models' connections, the clerk's children, the spooled files, the ledger,
        the shared limits.

        What fails to close keeps nothing else open. The store is closed by who opened it.
        """
        async with AsyncExitStack() as closing:
            closing.push_async_callback(asyncio.to_thread, self.spool.close)
            closing.push_async_callback(self.sql_runner.aclose)
            if self._request_locks is not None:
                closing.callback(self._request_locks.close)
            if self._leases is not None:
                closing.push_async_callback(self._leases.aclose)
            if self.ledger is not None:
                closing.push_async_callback(asyncio.to_thread, self.ledger.close)
            if self._engine is not None:
                closing.push_async_callback(self._engine.aclose)

    def _cache_for(self, run_id: str) -> ReplyCache | None:
        if not self.assignment.has_cacheable_replies:
            return None
        refreshing = self.config.cache.use == "refresh"
        return RunReplyCache(self._reply_cache, run_id) if refreshing else self._reply_cache


def _leases(limits: LimitsConfig) -> PrefectLeases | None:
    """Limits shared with other runs, where there are any; Prefect is imported for no less."""
    if limits.shared is None:
        return None
    from assizes.tasks.distribute.shared_limits import PrefectLeases

    return PrefectLeases(limits)


@asynccontextmanager
async def open_run_context(config: RunConfig) -> AsyncIterator[RunContext]:
    """Open a room for a run.

    Raises:
        ConfigurationError: before anything is read or written, when the judges, the metrics, the
            models, the ledger or the ground truth cannot work, or not for the several processes
            that are wanted.
        StoreError: when the store cannot be opened for writing.
    """
    is_distributed = config.runner.kind != "local"
    if is_distributed:
        await _check_distributable(config)
    judge_panel = resolve_judges(config.judge)
    assignment = await asyncio.to_thread(assign_callable_models, config, judge_panel)
    preprocessor = await asyncio.to_thread(CasePreprocessor.from_config, config)
    if assignment.has_paid_calls:
        await asyncio.to_thread(probe_ledger, config.limits.ledger)
    async with AsyncExitStack() as closing:
        store = await asyncio.to_thread(open_store, config.store, writing=True)
        closing.push_async_callback(asyncio.to_thread, store.close)
        if is_distributed:
            check_store(config, store)
        context = RunContext(config, judge_panel, store, assignment, preprocessor)
        closing.push_async_callback(context.aclose)
        closing.push(_clear_frames_on_error)
        closing.enter_context(freeze_heap())
        closing.enter_context(handle_sigterm())
        yield context


async def _check_distributable(config: RunConfig) -> None:
    check_distributable(config)
    if config.runner.kind == "workers":
        from assizes.tasks.distribute.work_pool import check_work_pool

        await check_work_pool(config.runner)


@contextmanager
def freeze_heap() -> Iterator[None]:
    """What was there before, above all a million objects of imported modules, is not garbage: the
    collector need not go through it again and again while cases are judged.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _clear_frames_on_error(_kind: object, error: BaseException | None, _trace: object) -> None:
    """Leaving by an error: it goes on, but holds on to nothing."""
    if error is not None:
        clear_error_frames(error)


def clear_error_frames(error: BaseException) -> None:
    """Drop what an error holds on to: the values in its frames, and the cause of one of ours, whose
    message says it already.

    Prefect keeps errors until the interpreter ends, and a connection or an error of DuckDB that
    lives as long makes it print a report of leaked objects.
    """
    current: BaseException | None = error
    while current is not None:
        clear_frames(current.__traceback__)
        before = current.__cause__ or current.__context__
        if isinstance(current, AssizesError):
            current.__cause__ = current.__context__ = None
        current = before


ProgressReporter = Callable[[str, int, int], None]
"""Told what is going on: a stage (`reading`, `judging`), how many are done, how many there are.

A number above 0 of those there are begins a stage, or says anew how many are done of it. With 0 it
is told how many more are done; of `reading`, of which nobody knows the end, how many so far.
"""


def _ignore_progress(_stage: str, _done: int, _total: int) -> None:
    """The default: nobody watches."""


progress_reporter: ContextVar[ProgressReporter] = ContextVar("watcher", default=_ignore_progress)
"""Set by whoever shows progress; flows and tasks report to it and never draw themselves."""
