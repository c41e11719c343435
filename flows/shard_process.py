"""A process that judges shards for the process of a run, on the same machine.

Run as a program, this module reads orders from standard input and answers on standard output; each
is a line of JSON. The first order is a `ProcessJob`. Then come `{"shard": ...}`: judge this shard,
`{"slots": n}`: make so many calls at once, and `{"end": true}`. Rows go to the process of the run,
which commits them: so a DuckDB file has one writer. When standard input ends without an `end`, the
process of the run has died, and this one ends within `ORPHAN_GRACE_S`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from io import BytesIO
from typing import Any, BinaryIO, Final, Self, cast

from pydantic import BaseModel, ConfigDict

from assizes.flows.shards import POLL_INTERVAL_S
from assizes.judge.catalog import fingerprints
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import AssizesError, ConfigurationError
from assizes.tasks.context.run_context import (
    RunContext,
    clear_error_frames,
    open_run_context,
    progress_reporter,
)
from assizes.tasks.intake.plan import Shard
from assizes.tasks.judge_shard import is_storage_fault, judge_shard
from assizes.tasks.runtime.own_process import collect_seldom, end_process
from assizes.tasks.runtime.process import prepare_process
from assizes.tasks.store import Store
from assizes.tasks.store.record import Counts, Frames

ORPHAN_GRACE_S: Final = 10.0
"""Seconds that calls in flight have to end, and be cached, once the process of the run is gone."""

MAX_LOG_CHARS: Final = 20_000
"""The most characters of one log line that are handed on."""

Order = dict[str, Any]


class ProcessJob(BaseModel):
    """What a process must know before it can judge shards of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    config: RunConfig  # with the share of the limits that this process has
    run_id: str
    fingerprints: dict[str, Any]  # of the judges, which must be the same here
    truth_digest: str | None  # of the file with expected values, likewise
    log_level: int

    def check(self, context: RunContext) -> None:
        """Check that this process judges as the process of the run would.

        Raises:
            ConfigurationError: it has other judges, rubrics or expected values.
        """
        if fingerprints(context.judge_panel) != self.fingerprints:
            raise ConfigurationError(
                "[runner] processes: a process of its own finds other judges or rubrics than the run; "
                "leave the setting out where a program defines judges as it runs"
            )
        if context.preprocessor.truth_digest != self.truth_digest:
            raise ConfigurationError(
                "[runner] processes: [ground_truth] uri is not the file that the run was planned with"
            )


class Outbox:
    """Hands messages, log lines and rows to the process of the run; used from any thread.

    It stands where a run has its store: judging needs nothing of a store but `commit_shard`.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lock = threading.Lock()
        self._judged = 0  # cases that were not reported yet
        self._gives_up_shards = False

    def give_up_shards(self) -> None:
        """Drop rows and errors of shards from now on; log lines are still sent."""
        self._gives_up_shards = True

    def send(self, message: Mapping[str, Any], *parts: bytes) -> None:
        """Send a message, and the bytes that it announces; without a reader it is dropped."""
        if self._gives_up_shards and "shard" in message:
            return
        with self._lock, suppress(BrokenPipeError):
            self._stream.write(json.dumps(message).encode() + b"\n")
            self._stream.writelines(parts)
            self._stream.flush()

    def commit_shard(self, _run_id: str, shard_id: str, frames: Frames, counts: Counts) -> bool:
        """Send the rows of a shard, to be committed by the process of the run."""
        self.send_progress()
        parts = {}
        for table, rows in frames.items():
            rows.write_ipc_stream(part := BytesIO())
            parts[table] = part.getvalue()
        sizes = {table: len(part) for table, part in parts.items()}
        self.send({"shard": shard_id, "counts": dict(counts), "frames": sizes}, *parts.values())
        return True

    def note_progress(self, _stage: str, done: int, _total: int) -> None:
        """Count cases that were judged, as a `ProgressReporter`."""
        self._judged += done

    def send_progress(self) -> None:
        """Report the cases that were judged since the last report."""
        judged, self._judged = self._judged, 0
        if judged:
            self.send({"judged": judged})


class _LogHandler(logging.Handler):
    def __init__(self, outbox: Outbox) -> None:
        super().__init__()
        self._outbox = outbox

    def emit(self, record: logging.LogRecord) -> None:
        line = self.format(record)[:MAX_LOG_CHARS]
        self._outbox.send({"log": [record.name, record.levelno, line]})


class _ShardProcess:
    """Judges the shards that are ordered, until the orders end."""

    def __init__(self, context: RunContext, run_id: str, outbox: Outbox) -> None:
        self._context = context
        self._run_id = run_id
        self._outbox = outbox
        self._tasks: set[asyncio.Task[Any]] = set()

    async def serve(self, orders: asyncio.Queue[Order | None]) -> None:
        """Follow orders; at their end, shards that are being judged are given up.

        Calls in flight are paid for: they are waited for, and their replies are cached. No other
        call is made, and no row is sent.
        """
        engine = self._context.engine_for(self._run_id)
        watch = asyncio.create_task(self._watch())
        try:
            while (order := await orders.get()) is not None:
                if "slots" in order:
                    engine.resize(int(order["slots"]))
                else:
                    self._begin(Shard.from_dict(order["shard"]))
            self._outbox.give_up_shards()
            engine.stop("halted", "the process of the run has ended its orders")
            if self._tasks:  # asyncio.wait refuses an empty set
                await asyncio.wait(self._tasks)
        finally:
            for task in (watch, *self._tasks):
                task.cancel()
            await asyncio.gather(watch, *self._tasks, return_exceptions=True)

    def _begin(self, shard: Shard) -> None:
        task = asyncio.create_task(judge_shard.fn(self._context, self._run_id, shard))
        self._tasks.add(task)
        task.add_done_callback(partial(self._report_end, shard.shard_id))

    def _report_end(self, shard_id: str, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:  # its rows were sent
            return
        fault = {"name": type(error).__name__, "text": str(error), "ours": False}
        fault |= {"ours": isinstance(error, AssizesError), "storage": is_storage_fault(error)}
        clear_error_frames(error)
        self._outbox.send({"shard": shard_id, "error": fault})

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            self._outbox.send_progress()
            self._context.check_stop()


class _Orders:
    """Reads standard input in a thread; `None` in the queue is the end."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[Order | None] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, daemon=True).start()

    @classmethod
    def until_sigterm(cls) -> Self:
        """The orders, which SIGTERM ends as well; SIGINT is for the process of the run."""
        orders = cls()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        orders._loop.add_signal_handler(signal.SIGTERM, orders.queue.put_nowait, None)
        return orders

    def _read(self) -> None:
        for line in sys.stdin.buffer:
            order = json.loads(line)
            if order.get("end"):
                self._put(None)
                return
            self._put(order)
        # The process of the run has died.
        timer = threading.Timer(ORPHAN_GRACE_S, os._exit, (1,))
        timer.daemon = True
        timer.start()
        self._put(None)

    def _put(self, order: Order | None) -> None:
        with suppress(RuntimeError):  # the event loop is closed: nobody waits for orders
            self._loop.call_soon_threadsafe(self.queue.put_nowait, order)


async def _serve(outbox: Outbox) -> None:
    orders = _Orders.until_sigterm()
    if (first := await orders.queue.get()) is None:
        return
    job = ProcessJob.model_validate(first)
    _log_to(outbox, job.log_level)
    token = progress_reporter.set(outbox.note_progress)
    try:
        async with open_run_context(job.config, cast("Store", outbox)) as context:
            job.check(context)
            outbox.send({"ready": True})
            await _ShardProcess(context, job.run_id, outbox).serve(orders.queue)
    except AssizesError as error:
        outbox.send({"failed": {"name": type(error).__name__, "text": str(error), "ours": True}})
    finally:
        progress_reporter.reset(token)


def _log_to(outbox: Outbox, level: int) -> None:
    ours = logging.getLogger("assizes")
    ours.handlers = [_LogHandler(outbox)]
    ours.setLevel(level)
    ours.propagate = False


@contextmanager
def _own_output() -> Iterator[BinaryIO]:
    """The standard output for messages only: what libraries print goes to standard error."""
    own = os.dup(1)
    os.dup2(2, 1)
    with os.fdopen(own, "wb") as stream:
        yield stream


def main() -> None:
    """Judge shards until standard input ends."""
    with _own_output() as stream:
        collect_seldom()
        prepare_process()
        asyncio.run(_serve(Outbox(stream)))
    end_process()


if __name__ == "__main__":
    main()
