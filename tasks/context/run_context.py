"""A planned run, and its context: everything that is opened once and shared by all its shards."""

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
from assizes.judge.config.judging import Price
from assizes.judge.config.run import RunConfig
from assizes.judge.engine.batching import AskCallback, AskCollector, BatchAnswers, PaidReply
from assizes.judge.engine.hearings import Engine, EngineDependencies
from assizes.judge.engine.ledger import OpenLedger, ReplyCache
from assizes.judge.errors import AssizesError
from assizes.judge.model_assignment import ModelAssignment, assign_callable_models, assign_models
from assizes.judge.rows import COMPLETE
from assizes.tasks.distribute.partitions import check_distributable, check_store
from assizes.tasks.embedding.sentence_encoder import check_space
from assizes.tasks.intake.plan import Plan
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.runtime.own_process import collecting_seldom
from assizes.tasks.runtime.process import handle_sigterm
from assizes.tasks.sandbox.sql_runner import SandboxSqlRunner
from assizes.tasks.sources.spool import Spool
from assizes.tasks.spending.ledger import SqliteLedger, stop_line
from assizes.tasks.spending.ledger_file import probe_ledger
from assizes.tasks.spending.reply_cache import FileReplyCache, RunReplyCache
from assizes.tasks.store import RunRecord, Store, open_store

if TYPE_CHECKING:
    from assizes.tasks.distribute.shared_limits import PrefectLeases

log = logging.getLogger(__name__)

ProgressReporter = Callable[[str, int, int], None]
"""A callback that shows progress: `(stage, done, total)`.

With `total` above 0 a stage such as `judging` begins, or `done` of it are finished by now. With a
`total` of 0, `done` more are finished; in the stage `reading`, whose total nobody knows, `done`
records were read so far.
"""


def ignore_progress(_stage: str, _done: int, _total: int) -> None:
    """The default reporter: it shows nothing."""


# Prefect records the parameters of a flow, so that a callback can be none of them. A command line
# therefore hands its reporter to the flows through this variable. Whatever works within a run takes
# it from the context of the run.
progress_reporter: ContextVar[ProgressReporter] = ContextVar(
    "progress_reporter", default=ignore_progress
)
"""The callback that flows report their progress to; set by a command line."""


class RunContext:
    """The judges, engine, store and spool of one run; all shards share one engine and its limits.

    A plain class on purpose: Prefect would look for task inputs within a dataclass or a container.
    """

    def __init__(
        self,
        config: RunConfig,
        judge_panel: JudgePanel,
        store: Store,
        assignment: ModelAssignment,
        preprocessor: CasePreprocessor,
        progress: ProgressReporter,
    ) -> None:
        self.config = config
        self.judge_panel = judge_panel
        self.store = store
        self.assignment = assignment
        self.spool = Spool.of(config.transcripts)  # local files of the transcripts
        self.preprocessor = preprocessor  # turns the case of a record into the case that is heard
        self.progress = progress  # called by everything within the run
        self.sql_runner = SandboxSqlRunner.of(config)  # runs the SQL of agents in a sandbox
        # Paid batch replies that did not fit, by ask key: each is the first attempt of its ask.
        self.first_attempts: Mapping[str, PaidReply] = {}
        self._reply_cache = FileReplyCache(config.cache.uri, config.cache.storage_options)
        # Asking twice does harm only where an ask costs money.
        self._request_locks = (
            self._reply_cache.request_locks() if assignment.has_paid_calls else None
        )
        self.ledger: SqliteLedger | None = None  # counts calls and dollars; opened by `ledger_for`
        self._leases: PrefectLeases | None = None  # `None`: no limit is shared with other processes
        if config.limits.shared is not None:
            from assizes.tasks.distribute.shared_limits import PrefectLeases

            self._leases = PrefectLeases(config.limits)
        # Shards are read one after the other: the cases of the first are heard meanwhile.
        self.shard_read_lock = asyncio.Lock()
        self._engine: Engine | None = None  # opened by `engine_for`, as it needs the id of the run

    def prices(self) -> dict[str, Any]:
        """The price of each model by name, as the record of a run keeps it; `None`: unknown."""
        return {
            model.name: model.price.model_dump(mode="json") if model.price else None
            for model in self.assignment.models
        }

    def pin_prices(self, prices: Mapping[str, Any]) -> None:
        """Use the prices with which the run was begun, even where newer prices are known."""
        # Where a price was unknown then, the one known now applies.
        known_prices = {name: price for name, price in prices.items() if price is not None}
        if known_prices.items() <= self.prices().items():
            return
        pinned = {name: Price.model_validate(price) for name, price in known_prices.items()}
        limits = self.config.limits
        limits = limits.model_copy(update={"prices": {**limits.prices, **pinned}})
        config = self.config.model_copy(update={"limits": limits})
        self.assignment = assign_models(config, self.judge_panel)

    def pin_baseline(self, run_id: str) -> None:
        """Compare with this run, which the configuration may have named otherwise."""
        comparison = self.config.comparison.model_copy(update={"baseline": run_id})
        self.config = self.config.model_copy(update={"comparison": comparison})

    def engine_for(self, run_id: str) -> Engine:
        """The engine that answers the asks of a run; a context serves one run only.

        Raises:
            StoreError: the ledger cannot be opened.
        """
        if self._engine is None:
            assignment = self.assignment
            dependencies = EngineDependencies(
                run_id=run_id,
                cache=self._cache_for(run_id),
                request_locks=self._request_locks if assignment.has_cacheable_replies else None,
                ledger=self.ledger_for(run_id) or OpenLedger(),
                leases=self._leases,
                sql_runner=self.sql_runner,
                batch_replies=self.first_attempts,
            )
            self._engine = Engine(
                assignment.shared, self.config.limits, dependencies, models=assignment.own
            )
        return self._engine

    def ask_collector(self, run_id: str, answers: BatchAnswers, note: AskCallback) -> AskCollector:
        """An engine that calls no model; `answers` has the replies of batches.

        `note` is called with each ask that neither the cache nor a batch has answered.
        """
        assignment, cache = self.assignment, self._cache_for(run_id)
        dependencies = EngineDependencies(run_id=run_id, cache=cache, sql_runner=self.sql_runner)
        return AskCollector(assignment.shared, dependencies, assignment.own, answers, note)

    def ledger_for(self, run_id: str) -> SqliteLedger | None:
        """The ledger that counts the calls of a run; `None` where no model costs anything.

        Raises:
            StoreError: the ledger cannot be opened.
        """
        if self.ledger is None and self.assignment.has_paid_calls:
            limits = self.config.limits
            self.ledger = SqliteLedger(limits.ledger, run_id, limits)
            if at := self.ledger.resumed_after:
                log.warning("run %s was stopped at %s; it goes on now", run_id, at)
        return self.ledger

    def halt(self, run_id: str, why: str) -> None:
        """Make no further model call, as `check_stop` does for a run that somebody stopped."""
        self.engine_for(run_id).stop("halted", why)

    def check_stop(self) -> None:
        """Make no further model call where somebody has stopped the run of this context.

        Asks that wait for a limit or a pause end at once; calls in flight are finished and cached.
        """
        if self.ledger is None or self._engine is None:
            return
        if (at := self.ledger.stopped_at()) is not None:
            self._engine.stop("halted", stop_line(at))

    async def aclose(self) -> None:
        """Close all that the context has opened; its store is closed by `open_run_context`."""
        # An error while one is closed does not keep the others open. The last pushed closes first.
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


@asynccontextmanager
async def open_run_context(
    config: RunConfig, opened: Store | None = None
) -> AsyncIterator[RunContext]:
    """Open the context of a run, and close it at the end of the block.

    A store that is `opened` already is used in place of the configured one, and stays open.

    Raises:
        ConfigurationError: the judges, metrics, models, ledger, ground truth or causes cannot work,
            or not in the several processes that `[runner]` asks for; nothing has been read or written.
        StoreError: the store cannot be opened for writing.
    """
    is_distributed = config.runner.kind != "local"
    if is_distributed:
        check_distributable(config)
    if config.runner.kind == "workers":
        from assizes.tasks.distribute.work_pool import check_work_pool

        await check_work_pool(config.runner)
    check_space(config.causes)
    judge_panel = resolve_judges(config.judge)
    assignment = await asyncio.to_thread(assign_callable_models, config, judge_panel)
    preprocessor = await asyncio.to_thread(CasePreprocessor.from_config, config)
    if assignment.has_paid_calls:
        await asyncio.to_thread(probe_ledger, config.limits.ledger)  # before anything is written
    async with AsyncExitStack() as closing:
        if (store := opened) is None:
            store = await asyncio.to_thread(open_store, config.store, writing=True)
            closing.push_async_callback(asyncio.to_thread, store.close)
        if is_distributed:
            check_store(config, store)
        context = RunContext(
            *(config, judge_panel, store, assignment, preprocessor), progress_reporter.get()
        )
        closing.push_async_callback(context.aclose)
        closing.push(_clear_frames_on_error)  # before the store closes: DuckDB reports leaks
        closing.enter_context(freeze_heap())
        closing.enter_context(handle_sigterm())
        yield context


@contextmanager
def freeze_heap() -> Iterator[None]:
    """Keep the garbage collector away from the objects that exist now, until the block ends.

    At new ones it looks seldom: transcripts, prompts and rows hold no cycles.
    """
    # Most are a million objects of imported modules, visited by each full collection (decision 36).
    gc.freeze()
    try:
        with collecting_seldom():
            yield
    finally:
        gc.unfreeze()


def _clear_frames_on_error(_kind: object, error: BaseException | None, _trace: object) -> None:
    """The `__exit__` of an exit stack: an error that passes keeps no objects alive."""
    if error is not None:
        clear_error_frames(error)


def clear_error_frames(error: BaseException) -> None:
    """Drop the objects that an error keeps alive: the locals of its frames, and causes."""
    # Prefect keeps errors until the interpreter ends; DuckDB reports leaks where its connections or
    # errors live as long.
    current: BaseException | None = error
    while current is not None:
        clear_frames(current.__traceback__)
        before = current.__cause__ or current.__context__
        if isinstance(current, AssizesError):
            current.__cause__ = current.__context__ = None  # its message names the cause
        current = before


class PlannedRun:
    """A run as it stands in the store, with the plan of its input; never changed in place.

    A plain class on purpose, as `RunContext`.
    """

    def __init__(self, record: RunRecord, intake: Plan) -> None:
        self.record = record
        self.intake = intake
        self.run_id = record.run_id
        self.is_finished = record.status == COMPLETE  # all shards committed, summary stored
