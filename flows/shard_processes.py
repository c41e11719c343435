"""Judges the shards of a run in several processes of this machine, `[runner] processes`.

The process of the run plans, hands out shards, and commits the rows that come back: whoever reads
the store sees one writer. Each process (`assizes.flows.shard_process`) has its share of the calls in
flight and of the rates; ledger and reply cache are the same files for all.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from io import BytesIO
from typing import Any, Final

import polars as pl
from prefect.client.schemas.objects import State
from prefect.settings import get_current_settings

from assizes.flows.shard_process import ProcessJob
from assizes.flows.shards import ShardFailures, judge_locally, shard_fault
from assizes.judge import errors
from assizes.judge.catalog import fingerprints
from assizes.judge.errors import AssizesError, ConfigurationError, Halted, Inconclusive, OverBudget
from assizes.tasks.commit_shard import JudgedShard, judge_and_commit_shard
from assizes.tasks.context.run_context import PlannedRun, RunContext
from assizes.tasks.distribute.processes import divided_limits, shares
from assizes.tasks.intake.plan import Shard
from assizes.tasks.spending.ledger import stop_line

log = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 3
"""Times that a shard is given out when the processes that judge it die."""

CLOSE_S: Final = 120.0
"""Seconds that a process has to finish its calls in flight when the run ends or is interrupted."""

KILLED_S: Final = 5.0
"""Seconds that are waited for the end of a process that was killed."""

SHARDS_EACH: Final = 2
"""Shards that each process has at once, at least: while one ends, the next keeps the slots full."""

MAX_LINE_BYTES: Final = 2**20
"""The longest line that a process may send; rows are no lines."""

_RUN_ENDING: Final = {kind.__name__: kind for kind in (OverBudget, Halted, Inconclusive)}


async def judge_in_processes(
    context: RunContext, run: PlannedRun, due: Sequence[Shard], count: int
) -> ShardFailures:
    """Judge shards in `count` processes of their own; returns the failures.

    Each shard is a Prefect task run of this process. Cancelling this call ends the processes: calls
    in flight are finished and cached, and no other is made.
    """
    # Its session is the first: a stop that is written from now on holds for every process.
    await asyncio.to_thread(context.ledger_for, run.run_id)
    log.info("%d processes judge the shards of run %s", count, run.run_id)
    async with _open_processes(context, run.run_id, count, len(due)) as processes:

        async def judge(_context: RunContext, run_id: str, shard: Shard) -> Exception | str | None:
            # Prefect types an async task called with return_state as if it had been awaited already.
            work: Any = judge_and_commit_shard(
                context, run_id, shard, processes.judge, return_state=True
            )
            state: State[Any] = await work
            return await shard_fault(state)

        at_once = max(context.config.runner.shards_in_flight, SHARDS_EACH * count)
        return await judge_locally(context, run.run_id, due, judge, at_once)


class _ProcessGone(Exception):
    """The process that judged a shard ended before it had answered."""


@dataclass(eq=False)
class _ShardProcess:
    """One process, and the shards that it judges."""

    process: asyncio.subprocess.Process
    shards: dict[str, asyncio.Future[JudgedShard]] = field(default_factory=dict)  # by id
    reported: int = 0  # cases of shards that it has not handed in
    failure: AssizesError | None = None  # why it could not begin
    is_gone: bool = False

    def send(self, message: Mapping[str, Any]) -> None:
        """Send an order; one to a process that has ended is lost, as its shards are."""
        if (stdin := self.process.stdin) is not None and not stdin.is_closing():
            stdin.write(json.dumps(message).encode() + b"\n")

    async def judge(self, shard: Shard) -> JudgedShard:
        """Have a shard judged; `_ProcessGone` where the process ends first."""
        answer: asyncio.Future[JudgedShard] = asyncio.get_running_loop().create_future()
        self.shards[shard.shard_id] = answer
        self.send({"shard": asdict(shard)})
        try:
            return await answer
        finally:
            self.shards.pop(shard.shard_id, None)

    def end(self) -> None:
        """Note that the process is gone, for all that wait for it."""
        self.is_gone = True
        for answer in self.shards.values():
            if not answer.done():
                answer.set_exception(self.failure or _ProcessGone())


@asynccontextmanager
async def _open_processes(
    context: RunContext, run_id: str, count: int, shards: int
) -> AsyncIterator[_ShardProcesses]:
    processes = _ShardProcesses(context, run_id, count, shards)
    try:
        yield processes
    finally:
        await processes.aclose()


class _ShardProcesses:
    """The processes of a run: each shard goes to the one that has the fewest."""

    def __init__(self, context: RunContext, run_id: str, count: int, shards: int) -> None:
        self._context = context
        self._run_id = run_id
        self._limits = divided_limits(context.config.limits, count)
        self._slots = [limits.max_in_flight for limits in self._limits]  # of each place
        self._places: list[_ShardProcess | None] = [None] * count
        self._unbegun = shards
        self._seen: set[str] = set()  # ids of the shards that were begun
        self._deaths = 0  # since a shard was judged
        self._doubled = 0  # cases of dead processes that are judged again, and not to be reported
        self._lock = asyncio.Lock()
        self._readers: set[asyncio.Task[None]] = set()

    async def judge(self, shard: Shard) -> JudgedShard:
        """Have a shard judged, again by another process where its process dies.

        Raises:
            AssizesError: the shard could not be judged, or its processes died `MAX_ATTEMPTS` times.
            Inconclusive: processes die before any shard is judged.
        """
        if shard.shard_id not in self._seen:
            self._seen.add(shard.shard_id)
            self._unbegun -= 1
        for _ in range(MAX_ATTEMPTS):
            process = await self._free_process()
            try:
                judged = await process.judge(shard)
            except _ProcessGone:
                continue
            finally:
                self._hand_over_slots()
            self._deaths = 0
            process.reported -= min(process.reported, len(shard.due_positions()))
            return judged
        raise AssizesError(f"the processes that judged the shard died {MAX_ATTEMPTS} times")

    async def _free_process(self) -> _ShardProcess:
        async with self._lock:
            for place, process in enumerate(self._places):
                if self._slots[place] and (process is None or process.is_gone):
                    self._check_goes_on()
                    self._places[place] = await self._start(place)
        free = [
            process
            for process, slots in zip(self._places, self._slots, strict=True)
            if process is not None and slots
        ]
        return min(free, key=lambda process: len(process.shards))

    def _check_goes_on(self) -> None:
        """Raise an error where another process would be of no use."""
        ledger = self._context.ledger
        if ledger is not None and (at := ledger.stopped_at()) is not None:
            raise Halted(stop_line(at))  # the session of a new process would know of no stop
        if self._deaths >= MAX_ATTEMPTS * len(self._places):
            raise Inconclusive(
                f"[runner] processes: {self._deaths} processes died and no shard was judged; the log "
                "above and that of the system (memory) say why"
            )

    async def _start(self, place: int) -> _ShardProcess:
        job = ProcessJob(
            config=self._context.config.model_copy(update={"limits": self._limits[place]}),
            run_id=self._run_id,
            fingerprints=fingerprints(self._context.judge_panel),
            truth_digest=self._context.preprocessor.truth_digest,
            log_level=logging.getLogger("assizes").getEffectiveLevel(),
        )
        settings = get_current_settings().to_environment_variables(exclude_unset=True)
        modules = os.pathsep.join(folder for folder in sys.path if folder)
        started = await asyncio.create_subprocess_exec(
            # A new interpreter: threads do not survive a fork. -P: modules come from the same places.
            *(sys.executable, "-P", "-m", "assizes.flows.shard_process"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, **settings, "PYTHONPATH": modules},
            limit=MAX_LINE_BYTES,
            start_new_session=True,  # Ctrl-C in a terminal is for this process, which ends the others
        )
        process = _ShardProcess(started)
        process.send(job.model_dump(mode="json"))
        if self._slots[place] != self._limits[place].max_in_flight:
            process.send({"slots": self._slots[place]})
        reader = asyncio.create_task(self._read(process))
        self._readers.add(reader)
        reader.add_done_callback(self._readers.discard)
        return process

    async def _read(self, process: _ShardProcess) -> None:
        """Take what a process sends, until it ends."""
        stream = process.process.stdout
        assert stream is not None  # a pipe was asked for
        try:
            with suppress(asyncio.IncompleteReadError):  # it died in the middle of its rows
                while (line := await stream.readline()).endswith(b"\n"):
                    message = json.loads(line)
                    sizes: dict[str, int] = message.get("frames", {})
                    parts = {table: await stream.readexactly(size) for table, size in sizes.items()}
                    await self._take(process, message, parts)
            code = await process.process.wait()
            if process.shards and process.failure is None:
                self._deaths += 1
                self._doubled += process.reported
                log.warning(
                    "a process that judges shards ended (%d); its shards go to others", code
                )
        finally:
            process.end()

    async def _take(
        self, process: _ShardProcess, message: dict[str, Any], parts: Mapping[str, bytes]
    ) -> None:
        if "judged" in message:
            self._report(process, message["judged"])
        elif "log" in message:
            name, level, line = message["log"]
            logging.getLogger(name).log(level, "%s", line)
        elif "failed" in message:
            process.failure = _setup_error(message["failed"])
        elif (answer := process.shards.get(message.get("shard", ""))) is not None:
            if "error" in message:
                answer.set_exception(_error(message["error"]))
            else:
                frames = await asyncio.to_thread(_frames, parts)
                if not answer.done():
                    answer.set_result(JudgedShard(frames, message["counts"]))

    def _report(self, process: _ShardProcess, judged: int) -> None:
        process.reported += judged
        doubled = min(judged, self._doubled)
        self._doubled -= doubled
        self._context.progress("judging", judged - doubled, 0)

    def _hand_over_slots(self) -> None:
        """Once no shard waits, give the calls in flight of idle processes to those that judge."""
        if self._unbegun:
            return
        pairs = list(enumerate(self._places))
        busy = [place for place, process in pairs if process is not None and process.shards]
        idle = [place for place in range(len(pairs)) if place not in busy and self._slots[place]]
        if not busy or not idle:
            return
        free = sum(self._slots[place] for place in idle)
        for place in idle:
            self._slots[place] = 0
        for place, more in zip(busy, shares(free, len(busy)), strict=True):
            self._slots[place] += more
            if (process := self._places[place]) is not None:
                process.send({"slots": self._slots[place]})

    async def aclose(self) -> None:
        """End the processes: their calls in flight are finished, then they end."""
        running = [process for process in self._places if process is not None]
        for process in running:
            process.send({"end": True})
            if process.process.stdin is not None:
                process.process.stdin.close()
        try:
            if self._readers:
                await asyncio.wait(self._readers, timeout=CLOSE_S)
        finally:  # also when this is cancelled a second time
            for process in running:
                if process.process.returncode is None:
                    with suppress(ProcessLookupError):
                        process.process.kill()
            if self._readers:  # the system takes the processes away
                await asyncio.wait(self._readers, timeout=KILLED_S)


def _frames(parts: Mapping[str, bytes]) -> dict[str, pl.DataFrame]:
    return {table: pl.read_ipc_stream(BytesIO(part)) for table, part in parts.items()}


def _setup_error(fault: Mapping[str, Any]) -> AssizesError:
    """The error for which a process could not begin: another one could not either."""
    is_setting = fault["name"] == ConfigurationError.__name__
    return (ConfigurationError if is_setting else Inconclusive)(fault["text"])


def _error(fault: Mapping[str, Any]) -> Exception:
    """The error of a shard in another process; a fault of storage is tried again."""
    name, text = fault["name"], fault["text"]
    if fault["storage"]:
        return OSError(text)
    if fault["ours"] and isinstance(getattr(errors, name, None), type):
        return _RUN_ENDING.get(name, AssizesError)(text)
    return RuntimeError(f"{name}: {text}")
