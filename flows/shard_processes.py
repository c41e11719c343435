"""Judges the shards of a run in several processes of this machine, `[runner] processes`.

The process of the run plans, hands out shards, and commits the rows that come back: whoever reads
the store sees one writer. It is one of the processes that judge, and makes all calls until the others
have started. Each of these (`assizes.flows.shard_process`) has its share of the calls in flight;
ledger and reply cache are the same files for all. Where rates are limited, the process of the run
judges nothing, because its own share of a rate could not grow and shrink.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from io import BytesIO
from typing import Any, Final

import polars as pl
from prefect.client.schemas.objects import State
from prefect.settings import get_current_settings

from assizes.flows.judging_process import OtherProcess, OwnProcess, ProcessGone
from assizes.flows.shard_process import ProcessJob
from assizes.flows.shards import ShardFailures, judge_locally, shard_fault
from assizes.judge import errors
from assizes.judge.catalog import fingerprints
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.errors import AssizesError, ConfigurationError, Halted, Inconclusive, OverBudget
from assizes.tasks.commit_shard import JudgedShard, judge_and_commit_shard
from assizes.tasks.context.run_context import PlannedRun, RunContext
from assizes.tasks.distribute.processes import divided_limits, shards_of_process, shares
from assizes.tasks.intake.plan import Shard
from assizes.tasks.spending.ledger import stop_line

log = logging.getLogger(__name__)

MAX_ATTEMPTS: Final = 3
"""Times that a shard is given out when the processes that judge it die."""

CLOSE_S: Final = 120.0
"""Seconds that a process has to finish its calls in flight when the run ends or is interrupted."""

KILLED_S: Final = 5.0
"""Seconds that are waited for the end of a process that was killed."""

DRAIN_S: Final = 0.05
"""Seconds between two looks at the calls in flight that a process leaves to another."""

MAX_LINE_BYTES: Final = 2**20
"""The longest line that a process may send; rows are no lines."""

_RUN_ENDING: Final = {kind.__name__: kind for kind in (OverBudget, Halted, Inconclusive)}


async def judge_in_processes(
    context: RunContext, run: PlannedRun, due: Sequence[Shard], count: int
) -> ShardFailures:
    """Judge shards in `count` processes, this one among them; returns the failures.

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

        return await judge_locally(context, run.run_id, due, judge, processes.shards_at_once)


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
        self._shares = [limits.max_in_flight for limits in self._limits]
        self._slots = list(self._shares)  # of each place: the calls that it may make at once
        self._places: list[OtherProcess | OwnProcess | None] = [None] * count
        self._own: OwnProcess | None = None  # at the first place, where it judges
        if not _divides_rates(context.config.limits):
            self._own = self._places[0] = OwnProcess(context, run_id)
            self._slots = [sum(self._shares), *([0] * (count - 1))]
        self._unbegun = shards
        self._seen: set[str] = set()  # ids of the shards that were begun
        self._given_up: set[int] = set()  # places whose calls in flight went to others
        self._deaths = 0  # since a shard was judged
        self._doubled = 0  # cases of dead processes that are judged again, and not to be reported
        self._is_closing = False
        self._lock = asyncio.Lock()  # of starting
        self._opening = asyncio.Lock()
        self._change = asyncio.Event()  # a process may be free, or gone
        self._tasks: set[asyncio.Task[None]] = set()  # that open a process
        self._readers: set[asyncio.Task[None]] = set()

    async def judge(self, shard: Shard) -> JudgedShard:
        """Have a shard judged, again by another process where its process dies.

        Raises:
            AssizesError: the shard could not be judged, or its processes died `MAX_ATTEMPTS` times.
            Inconclusive: processes die before any shard is judged.
        """
        for _ in range(MAX_ATTEMPTS):
            process = await self._free_process()
            if shard.shard_id not in self._seen:
                self._seen.add(shard.shard_id)
                self._unbegun -= 1
            try:
                judged = await process.judge(shard)
            except ProcessGone:
                continue
            finally:
                self._hand_over_slots()
                self._change.set()
            self._deaths = 0
            process.reported -= min(process.reported, len(shard.due_positions()))
            return judged
        raise AssizesError(f"the processes that judged the shard died {MAX_ATTEMPTS} times")

    async def _free_process(self) -> OtherProcess | OwnProcess:
        """The process with the fewest shards, once there is one that can take another."""
        while True:
            async with self._lock:
                for place, process in enumerate(self._places):
                    if place not in self._given_up and (process is None or process.is_gone):
                        _raise_failure(process)
                        self._check_goes_on()
                        self._places[place] = await self._start(place)
            free = [
                process
                for process, slots in zip(self._places, self._slots, strict=True)
                if process is not None and process.is_ready and not process.is_gone
                if len(process.shards) < self._shards_each(slots)
            ]
            if free:
                return min(free, key=lambda each: len(each.shards))
            self._change.clear()
            await self._change.wait()

    def _shards_each(self, slots: int) -> int:
        """The number of shards of a process that may make so many calls at once."""
        return shards_of_process(self._context.config, len(self._places), slots)

    @property
    def shards_at_once(self) -> int:
        """The number of shards that all processes together judge at once."""
        return sum(map(self._shards_each, self._shares))

    async def _open(self, place: int, process: OtherProcess) -> None:
        """Give a process that has started its share of the calls in flight, as they become free."""
        async with self._opening:
            own, slots = self._own, self._slots
            if own is not None and place not in self._given_up:
                moved = min(self._shares[place] - slots[place], slots[0] - 1)
                if moved > 0:
                    slots[0] -= moved
                    slots[place] += moved
                    own.resize(slots[0])
            slots_given = 0
            while slots_given < slots[place] and not process.is_gone:
                drained = slots[place] - (max(0, own.in_flight - slots[0]) if own else 0)
                if drained > slots_given:
                    if not slots_given:
                        log.info("a process has started and judges as well")
                    slots_given = drained
                    process.resize(slots_given)
                    process.is_ready = True
                    self._change.set()
                if slots_given < slots[place]:
                    await asyncio.sleep(DRAIN_S)

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

    async def _start(self, place: int) -> OtherProcess:
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
        process = OtherProcess(started)
        process.send(job.model_dump(mode="json"))
        reader = asyncio.create_task(self._read(place, process))
        self._readers.add(reader)
        reader.add_done_callback(self._readers.discard)
        return process

    async def _read(self, place: int, process: OtherProcess) -> None:
        """Take what a process sends, until it ends."""
        stream = process.process.stdout
        assert stream is not None  # a pipe was asked for
        try:
            with suppress(asyncio.IncompleteReadError):  # it died in the middle of its rows
                while (line := await stream.readline()).endswith(b"\n"):
                    message = json.loads(line)
                    sizes: dict[str, int] = message.get("frames", {})
                    parts = {table: await stream.readexactly(size) for table, size in sizes.items()}
                    if "ready" in message:
                        opening = asyncio.create_task(self._open(place, process))
                        self._tasks.add(opening)
                        opening.add_done_callback(self._tasks.discard)
                    await self._take(process, message, parts)
            code = await process.process.wait()
            is_lost = process.shards or not (process.is_ready or self._is_closing)
            if is_lost and process.failure is None:
                self._deaths += 1
                self._doubled += process.reported
                log.warning(
                    "a process that judges shards ended (%d); its shards go to others", code
                )
        finally:
            process.end()
            self._change.set()

    async def _take(
        self, process: OtherProcess, message: dict[str, Any], parts: Mapping[str, bytes]
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

    def _report(self, process: OtherProcess, judged: int) -> None:
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
        idle = [place for place, _ in pairs if place not in busy]
        free = sum(self._slots[place] for place in idle)
        if not busy:
            return
        self._given_up.update(idle)
        for place in idle:
            self._slots[place] = 0
        for place, more in zip(busy, shares(free, len(busy)), strict=True):
            self._slots[place] += more
            process = self._places[place]
            if more and process is not None and process.is_ready:
                process.resize(self._slots[place])

    async def aclose(self) -> None:
        """End the processes: their calls in flight are finished, then they end."""
        self._is_closing = True
        for task in self._tasks:
            task.cancel()
        if self._own is not None:
            self._own.resize(sum(self._shares))
        running = [each for each in self._places if isinstance(each, OtherProcess)]
        for process in running:
            process.close()
        try:
            if self._readers:
                await asyncio.wait(self._readers, timeout=CLOSE_S)
        finally:  # also when this is cancelled a second time
            for process in running:
                process.kill()
            if self._readers:  # the system takes the processes away
                await asyncio.wait(self._readers, timeout=KILLED_S)


def _frames(parts: Mapping[str, bytes]) -> dict[str, pl.DataFrame]:
    return {table: pl.read_ipc_stream(BytesIO(part)) for table, part in parts.items()}


def _divides_rates(limits: LimitsConfig) -> bool:
    has_rates = limits.requests_per_minute is not None or limits.tokens_per_minute is not None
    return has_rates and limits.shared is None


def _raise_failure(process: OtherProcess | OwnProcess | None) -> None:
    """Raise the error for which a process could not begin: another one could not either."""
    if isinstance(process, OtherProcess) and process.failure is not None:
        raise process.failure


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
