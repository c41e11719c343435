"""The processes that judge the shards of a run on this machine: that of the run, and others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

from assizes.judge.errors import AssizesError
from assizes.tasks.commit_shard import JudgedShard
from assizes.tasks.context.run_context import RunContext
from assizes.tasks.intake.plan import Shard
from assizes.tasks.judge_shard import hear_shard, shard_rows


class ProcessGone(Exception):
    """The process that judged a shard ended before it had answered."""


@dataclass(eq=False)
class OtherProcess:
    """One process, and the shards that it judges."""

    process: asyncio.subprocess.Process
    shards: dict[str, asyncio.Future[JudgedShard]] = field(default_factory=dict)  # by id
    reported: int = 0  # cases of shards that it has not handed in
    failure: AssizesError | None = None  # why it could not begin
    is_ready: bool = False  # it has started, and has calls in flight to make
    is_gone: bool = False

    def resize(self, slots: int) -> None:
        """Let the process make so many calls at once."""
        self.send({"slots": slots})

    def send(self, message: Mapping[str, Any]) -> None:
        """Send an order; one to a process that has ended is lost, as its shards are."""
        if (stdin := self.process.stdin) is not None and not stdin.is_closing():
            stdin.write(json.dumps(message).encode() + b"\n")

    async def judge(self, shard: Shard) -> JudgedShard:
        """Have a shard judged; `ProcessGone` where the process ends first.

        Cancelling this call ends the process: a run that is interrupted gives up all its shards.
        """
        answer: asyncio.Future[JudgedShard] = asyncio.get_running_loop().create_future()
        self.shards[shard.shard_id] = answer
        self.send({"shard": asdict(shard)})
        try:
            return await answer
        except asyncio.CancelledError:
            self.close()
            raise
        finally:
            self.shards.pop(shard.shard_id, None)

    def close(self) -> None:
        """End the process: its calls in flight are finished; one that has made none ends at once."""
        self.send({"end": True})
        if self.process.stdin is not None:
            self.process.stdin.close()
        if not self.is_ready:
            self.kill()

    def kill(self) -> None:
        """Kill the process where it still runs."""
        if self.process.returncode is None:
            with suppress(ProcessLookupError):
                self.process.kill()

    def end(self) -> None:
        """Note that the process is gone, for all that wait for it."""
        self.is_gone = True
        for answer in self.shards.values():
            if not answer.done():
                answer.set_exception(self.failure or ProcessGone())


@dataclass(eq=False)
class OwnProcess:
    """The process of the run, as one of those that judge."""

    context: RunContext
    run_id: str
    shards: dict[str, Shard] = field(default_factory=dict)  # by id
    reported: int = 0  # its cases are reported as they are judged
    is_ready: bool = True
    is_gone: bool = False

    @property
    def in_flight(self) -> int:
        """Calls in flight, which may still be more than `resize` allows."""
        return self.context.engine_for(self.run_id).limiter.in_flight

    def resize(self, slots: int) -> None:
        """Make so many calls at once; the number of open hearings stays."""
        self.context.engine_for(self.run_id).limiter.resize(slots)

    async def judge(self, shard: Shard) -> JudgedShard:
        """Judge a shard."""
        self.shards[shard.shard_id] = shard
        try:
            judged = await hear_shard(self.context, self.run_id, shard)
            return JudgedShard(*shard_rows(self.run_id, shard, judged))
        finally:
            del self.shards[shard.shard_id]
