"""Runs the SQL queries of judges on copies of fixture databases, in sandboxed child processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

from assizes.judge.config.run import RunConfig
from assizes.judge.protocol import FileQuery, FileText, NoReply, Query, QueryResult, SqlTable
from assizes.tasks.sandbox.child import Caps, refusal
from assizes.tasks.sandbox.redacted_answers import AnswerRedactor
from assizes.tasks.sandbox.snapshot import read_snapshot
from assizes.tasks.sandbox.worker import (
    ChildEnded,
    Fixture,
    FixtureCopies,
    NoFixture,
    Worker,
    find_fixture,
    start_worker,
)
from assizes.tasks.store import store_file

MAX_CHILDREN = 2
"""Child processes at once; statements are short, and each may use a whole processor."""

STATEMENTS_PER_CHILD = 500  # statements after which a child process is replaced by a new one

QUERY_TIME_LIMIT_S = 30.0
"""Seconds from the start of a query after which no further statement of it is begun."""

_LATE = f"not run: the statements before it took {QUERY_TIME_LIMIT_S:g} s"
_LOST = "not run: the copy was lost with the statement before it"


class SandboxSqlRunner:
    """Implements `assizes.judge.protocol.SqlRunner` with a few reusable child processes.

    The statements of a query run in order on one copy of its database. When one fails, its table
    holds the error, and the others still run. With `writes_allowed` a query of which a statement is
    no SELECT runs again, on a copy in memory that is made anew for each query; there the table of
    a statement that writes holds the rows it added and removed. Where there is no room for such a
    copy, the errors stay. Child processes start when they are first needed; `aclose` ends them all.
    """

    def __init__(
        self,
        base: Path | None = None,
        *,
        writes_allowed: bool = False,
        caps: Caps = Caps(),  # noqa: B008  # frozen
        children: int = MAX_CHILDREN,
        own_files: Collection[Path] = (),
        redactor: AnswerRedactor | None = None,
    ) -> None:
        """Start no process yet; later there are at most `children` at once.

        `base` is the folder of the databases; with None it is the current one, or any by an absolute
        path. `own_files` are files of this program, which no case may read. `redactor` hides texts in what
        probes show; with None nothing is hidden.
        """
        self._redactor = redactor
        self._base = base
        self._own_files = frozenset(path.resolve() for path in own_files)
        self._writes = writes_allowed
        self._caps = caps
        self._free = asyncio.Semaphore(children)  # queries at once, each with a child of its own
        self._copying = asyncio.Lock()  # one copy is made at a time
        self._idle: list[Worker] = []  # without a query now
        self._workers: set[Worker] = set()  # all that live
        self._copies: FixtureCopies | None = None  # None until the first query

    @classmethod
    def of(cls, config: RunConfig) -> SandboxSqlRunner:
        """The runner for a run's cases: of one folder, without the run's own ledger and store."""
        own_files = [Path(config.limits.ledger)]
        if (file := store_file(config.store.uri)) is not None:
            own_files.append(file)
        base = Path(config.transcripts.databases or ".")
        return cls(
            base, writes_allowed=True, own_files=own_files, redactor=AnswerRedactor(config.privacy)
        )

    @property
    def pids(self) -> set[int]:
        """Ids of the child processes that are running."""
        return {worker.pid for worker in self._workers}

    async def look_up(self, query: Query | FileQuery) -> QueryResult | FileText | NoReply:
        """Answer a query; returns a `NoReply` when its database or its folder cannot be used."""
        if isinstance(query, FileQuery):
            text = await asyncio.to_thread(read_snapshot, query, self._base, self._own_files)
            return await self._redacted(text)
        answer = await self._run_query(query)
        return await self._redacted(answer) if query.read_only else answer

    async def _redacted(
        self, answer: QueryResult | FileText | NoReply
    ) -> QueryResult | FileText | NoReply:
        if self._redactor is None:
            return answer
        return await asyncio.to_thread(self._redactor.redact, answer)

    async def _run_query(self, query: Query) -> QueryResult | NoReply:
        async with self._free:
            try:
                async with self._borrow_copy(query.database) as (copies, fixture):
                    return QueryResult(await self._tables(copies, fixture, query))
            except NoFixture as error:
                return NoReply("no_database", str(error))
            except (ChildEnded, OSError) as error:
                return NoReply("no_sandbox", f"the sandbox could not start: {error}")

    async def aclose(self) -> None:
        """End every child process and delete the copies."""
        await asyncio.gather(*(self._end_worker(worker) for worker in list(self._workers)))
        self._idle.clear()
        if self._copies is not None:
            await asyncio.to_thread(self._copies.close)
            self._copies = None

    @asynccontextmanager
    async def _borrow_copy(self, database: str) -> AsyncIterator[tuple[FixtureCopies, Fixture]]:
        """Lend a copy of a database for the length of the block."""
        async with self._copying:
            if self._copies is None:
                self._copies = FixtureCopies()
            copies = self._copies
            fixture = await asyncio.to_thread(find_fixture, database, self._base, self._own_files)
            # Cancelling does not stop the thread, whose copy must still be given back.
            lending = asyncio.ensure_future(asyncio.to_thread(copies.lend_copy, fixture))
            try:
                copy = await asyncio.shield(lending)
            except asyncio.CancelledError:
                lending.add_done_callback(partial(_return_copy, copies))
                raise
        try:
            yield copies, copy
        finally:
            copies.return_copy(copy)

    async def _tables(
        self, copies: FixtureCopies, fixture: Fixture, query: Query
    ) -> tuple[SqlTable, ...]:
        statements = query.statements
        tables = await self._run_all(copies, fixture, statements, writes=False)
        refused = str(refusal(writes=False))
        may_write = self._writes and not query.read_only
        if may_write and any(table.error == refused for table in tables):
            with suppress(NoFixture, ChildEnded):
                return await self._run_all(copies, fixture, statements, writes=True)
        return tables

    async def _run_all(
        self, copies: FixtureCopies, fixture: Fixture, statements: tuple[str, ...], *, writes: bool
    ) -> tuple[SqlTable, ...]:
        deadline = time.monotonic() + QUERY_TIME_LIMIT_S
        tables: list[SqlTable] = []
        worker: Worker | None = None
        lost = ""
        try:
            for statement in statements:
                if lost or time.monotonic() > deadline:
                    tables.append(SqlTable(statement, error=lost or _LATE))
                    continue
                worker = worker or await self._open_worker(copies, fixture, writes=writes)
                tables.append(await worker.run(statement))
                if worker.failed:
                    await self._end_worker(worker)
                    worker, lost = None, _LOST if writes else ""
        finally:
            if worker is not None:
                await self._return_worker(worker)
        return tuple(tables)

    async def _open_worker(
        self, copies: FixtureCopies, fixture: Fixture, *, writes: bool
    ) -> Worker:
        """A child process with the database open: an idle one that still lives, or a new one."""
        while self._idle:
            try:
                return await self._open_database(self._idle.pop(), fixture, writes=writes)
            except ChildEnded:
                continue
        worker = await start_worker(self._caps, copies.empty)
        self._workers.add(worker)
        return await self._open_database(worker, fixture, writes=writes)

    async def _open_database(self, worker: Worker, fixture: Fixture, *, writes: bool) -> Worker:
        fault: str | None = "it was not opened"  # stays so where `open` raises
        try:
            fault = await worker.open(fixture, writes=writes)
        finally:
            if fault is not None:
                await self._return_worker(worker)
        if fault is not None:
            raise NoFixture(fixture.name, f"cannot be opened: {fault}")
        return worker

    async def _return_worker(self, worker: Worker) -> None:
        """Keep a child process for the next query, or end it when it failed or is used up."""
        if worker.failed or worker.statements >= STATEMENTS_PER_CHILD:
            await self._end_worker(worker)
        else:
            self._idle.append(worker)

    async def _end_worker(self, worker: Worker) -> None:
        await worker.end()
        self._workers.discard(worker)


def _return_copy(copies: FixtureCopies, lending: asyncio.Future[Fixture]) -> None:
    """Return a copy that was lent to a query which was cancelled meanwhile."""
    if not lending.cancelled() and lending.exception() is None:
        copies.return_copy(lending.result())
