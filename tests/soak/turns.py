"""Writers, collectors, rewriters and readers of one lake, taking turns act by act at random.

Each act on an object is one turn; a seed decides whose is next, and when hours pass. A writer never
takes longer than the longest attempt, as it promises; it may die at any turn.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import polars as pl

from assizes.judge.rows import frame
from assizes.tasks.store.lake import ParquetStore
from assizes.tasks.store.objects import Entry, ExpectedBytes, Folder
from assizes.tasks.store.rewrite import Rewriter
from assizes.tasks.store.upkeep import LONGEST_ATTEMPT, list_garbage, remove_garbage
from tests.tasks.store.rows import ended, run_metrics, run_record

RUN = "nightly-1"
SHARDS = ("s0", "s1", "s2", "s3")
_HOURS = timedelta(hours=11)


class Dead(BaseException):
    """A process that is no more; nothing catches it."""


class Turns:
    """Gives the turn to one actor at a time, at random; keeps the time of day."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.now = datetime(2026, 3, 1, tzinfo=UTC)
        self.removed = 0
        self._actors: dict[str, _Actor] = {}

    def actor(self, name: str, work: Callable[[], None], *, dies: bool = False) -> None:
        """Add an actor; one that dies does so at a turn chosen by the seed."""
        last = self.dice.randrange(8, 40) if dies else 1 << 30
        self._actors[name] = _Actor(name, work, last)

    def play(self) -> dict[str, BaseException]:
        """Let all of them act until each has ended; what they failed with."""
        for actor in self._actors.values():
            actor.thread.start()
            actor.asked.acquire()
        while alive := [one for one in self._actors.values() if not one.over]:
            if self.dice.random() < 0.2:
                self._pass_time(alive)
            # Collectors are quick beside the others, so that they come in the midst of their acts.
            weights = [6 if "collector" in one.name else 1 for one in alive]
            (chosen,) = self.dice.choices(alive, weights)
            chosen.turn.release()
            chosen.asked.acquire()
        for actor in self._actors.values():
            actor.thread.join()
        return {one.name: one.fault for one in self._actors.values() if one.fault}

    def act(self) -> None:
        """Called by an actor before each of its acts: wait for the turn."""
        actor = next(
            one for one in self._actors.values() if one.thread is threading.current_thread()
        )
        actor.acts += 1
        actor.asked.release()
        actor.turn.acquire()
        if actor.acts >= actor.last:
            raise Dead

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Around something that an actor promises not to take too long for."""
        actor = next(
            one for one in self._actors.values() if one.thread is threading.current_thread()
        )
        actor.since = self.now
        yield
        actor.since = None

    def _pass_time(self, alive: Sequence[_Actor]) -> None:
        oldest = min((one.since for one in alive if one.since), default=self.now)
        if self.now + _HOURS - oldest < LONGEST_ATTEMPT:
            self.now += _HOURS


class _Actor:
    def __init__(self, name: str, work: Callable[[], None], last: int) -> None:
        self.name, self.last = name, last
        self.acts, self.over = 0, False
        self.since: datetime | None = None
        self.fault: BaseException | None = None
        self.turn, self.asked = threading.Semaphore(0), threading.Semaphore(0)
        self.thread = threading.Thread(target=self._run, args=(work,), daemon=True)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Dead:
            pass
        except BaseException as error:  # noqa: BLE001  # handed to the test
            self.fault = error
        self.over = True
        self.asked.release()


class Taken(Folder):
    """A folder whose every act waits for its turn, and whose clock is that of the turns."""

    def __init__(self, root: Path, turns: Turns | None, clock: Turns) -> None:
        super().__init__(root)
        self._turns, self._clock = turns, clock

    def _act(self) -> None:
        if self._turns is not None:
            self._turns.act()

    def create(self, name: str, data: bytes) -> bool:
        self._act()
        created = super().create(name, data)
        if created:
            at = self._clock.now.timestamp()
            os.utime(self._root / name, (at, at))
        return created

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        self._act()
        return super().read(names)

    def names(self, folder: str) -> list[str]:
        self._act()
        return super().names(folder)

    def entries(self, folder: str) -> list[Entry]:
        self._act()
        return super().entries(folder)

    def remove(self, names: Iterable[str]) -> None:
        for name in names:
            self._act()
            super().remove([name])

    def sources(self, wanted: Mapping[str, ExpectedBytes]) -> list[Path]:
        self._act()
        return super().sources(wanted)


def rows_of(shard: str, writer: str) -> dict[str, pl.DataFrame]:
    """Two cases of a shard, by a writer."""
    cases = [
        dict.fromkeys(frame("cases", []).columns)
        | {"run_id": RUN, "case_id": f"{shard}-{number}", "repetition": 0, "summary": writer}
        for number in range(2)
    ]
    return {"cases": frame("cases", cases)}


def interleaved(folder: Path, seed: int) -> list[str]:
    """Play once; what was wrong, in words: nothing when every referenced part is there."""
    turns = Turns(seed)
    forgetting = turns.dice.random() < 0.5
    lake(folder, None, turns).begin(run_record())
    for number in range(3):
        work = partial(_write, folder, turns, f"w{number}")
        turns.actor(f"writer {number}", work, dies=number > 0)
    turns.actor("collector", lambda: _collect(folder, turns))
    turns.actor("other collector", lambda: _collect(folder, turns))
    if forgetting:
        turns.actor("forgetter", lambda: _forget(folder, turns))
    turns.actor("reader", lambda: _read(folder, turns))
    faults = turns.play()
    wrong = [f"{name}: {type(fault).__name__}: {fault}" for name, fault in faults.items()]
    return wrong + _settled(folder, turns, forgetting=forgetting)


def lake(folder: Path, turns: Turns | None, clock: Turns) -> ParquetStore:
    """The lake as one actor opens it."""
    return ParquetStore(str(folder), Taken(folder, turns, clock), writing=True)


def _write(folder: Path, turns: Turns, writer: str) -> None:
    own = lake(folder, turns, turns)
    order = list(SHARDS)
    turns.dice.shuffle(order)
    for shard in order:
        with turns.attempt():
            own.commit_shard(RUN, shard, rows_of(shard, writer), {"judged": 2})


def _collect(folder: Path, turns: Turns) -> None:
    own = lake(folder, turns, turns)
    for _ in range(8):
        found = list_garbage(own.objects, own.manifest, turns.now)
        turns.removed += len(found)
        remove_garbage(own.objects, found)


def _forget(folder: Path, turns: Turns) -> None:
    own = lake(folder, turns, turns)
    with turns.attempt():
        own.forget(RUN, ["s0-0"])


def _read(folder: Path, turns: Turns) -> None:
    own = lake(folder, turns, turns)
    for _ in range(3):
        with turns.attempt():
            own.table(RUN, "cases")


def _settled(folder: Path, turns: Turns, *, forgetting: bool) -> list[str]:
    """Go on without harm, compact and collect, and compare the rows with what must be there."""
    own = lake(folder, None, turns)
    for shard in SHARDS:
        own.commit_shard(RUN, shard, rows_of(shard, "last"), {"judged": 2})
    if forgetting:
        own.forget(RUN, ["s0-0"])
    own.finish(ended(run_record()), run_metrics())
    wanted = [f"{shard}-{n}" for shard in SHARDS for n in range(2)]
    if forgetting:
        wanted.remove("s0-0")
    before = own.table(RUN, "cases")
    wrong = (
        [] if before["case_id"].to_list() == wanted else [f"cases {before['case_id'].to_list()}"]
    )
    Rewriter(own.objects, own.manifest, RUN).compact(own.run(RUN))
    turns.now += timedelta(days=3)
    remove_garbage(own.objects, list_garbage(own.objects, own.manifest, turns.now))
    if not own.table(RUN, "cases").equals(before):
        wrong.append("compacting changed the rows")
    named = own.manifest.referenced_part_names(RUN, 1 << 30)
    parts = {path.name for path in (folder / "runs" / RUN / "parts").iterdir()}
    return wrong + ([] if parts == named else [f"parts {sorted(parts ^ named)} are wrong"])
