"""Writers of one store, killed at random moments; then every row is counted."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import polars as pl

from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import StoreError
from assizes.tasks.store import Store, open_store
from assizes.tasks.store.lake import ParquetStore
from tests.doubles.s3 import S3
from tests.doubles.s3_proxy import Faults, proxied
from tests.soak.rows import CASES, METRICS
from tests.soak.small import Child, environment, run, start
from tests.soak.writers import RUN, shards, write_all
from tests.tasks.store.rows import ended, run_metrics, run_record

_BAD = (
    "lost",
    "duplicate",
    "torn",
    "wrong",
    "unreadable",
    "failed writers",
    "late acknowledgements not recognised",
)

_BEGUN = 0.85
"""Share of the kills that wait until the writer has committed something; others may be earlier."""

_START_S = 60.0


@dataclass
class Tally:
    """What was done to stores of one kind, and what was wrong afterwards."""

    kind: str
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def is_clean(self) -> bool:
        """Nothing lost, nothing twice, nothing torn."""
        return not any(self.counts[name] for name in _BAD)

    def wrong(self, what: str, said: Iterable[str]) -> None:
        """Count what was wrong, and say it at once."""
        for one in said:
            self.counts["wrong"] += 1
            sys.stderr.write(f"{self.kind}: {what}: {one}\n")

    def line(self) -> str:
        """In words."""
        shown = {**{name: self.counts[name] for name in _BAD[:3]}, **self.counts}
        return f"{self.kind}: " + ", ".join(f"{name} {count}" for name, count in shown.items())


@dataclass(frozen=True)
class Ground:
    """Where stores are put: `kind` is folder, s3 or duckdb."""

    kind: str
    work: Path
    s3: S3 | None = None

    def child(self, number: int, count: int, endpoint: str | None = None) -> Child:
        """A writer for a new store."""
        folder = self.work / f"{self.kind}-{number}"
        folder.mkdir()
        store = StoreConfig(uri=str(folder / "store"))
        if self.kind == "duckdb":
            store = StoreConfig(uri=f"duckdb:///{folder}/a.duckdb")
        elif self.kind == "s3":
            assert self.s3 is not None
            options = {"endpoint_url": endpoint} if endpoint else self.s3.storage_options
            store = StoreConfig(uri=f"s3://{self.s3.bucket()}/lake", storage_options=options)
        known = {**environment(), "SHARDS": str(count)}
        return Child(write_all, folder, store, environment=known)


def killed(ground: Ground, kills: int, seed: int, count: int = 40) -> Tally:
    """Kill writers `kills` times, over as many stores as that takes; look after each store."""
    tally, dice, number = Tally(ground.kind), random.Random(seed), 0
    while tally.counts["kills"] < kills:
        child = ground.child(number, count)
        writers = 1 if ground.kind == "duckdb" else 1 + number % 3
        tally.counts["stores"] += 1
        _harass(child, writers, kills, dice, tally)
        examine(child, count, tally)
        number += 1
    return tally


def _harass(child: Child, writers: int, kills: int, dice: random.Random, tally: Tally) -> None:
    """Keep so many writers alive, killing one after the other, until one has come to its end."""
    longest = {"duckdb": 0.3, "s3": 1.0}.get(child.store.uri.partition(":")[0], 0.2)
    alive: dict[int, Any] = {slot: start(_own(child, slot)) for slot in range(writers)}
    ended_well = False
    while not ended_well and tally.counts["kills"] < kills:
        slot = dice.randrange(writers)
        process, own = alive[slot], _own(child, slot)
        if dice.random() < _BEGUN:
            _await_begun(process, own)
        time.sleep(dice.uniform(0.0, longest))
        before = _size(own)
        if process.exitcode is None:
            os.kill(process.pid, signal.SIGKILL)
        process.join(60)
        tally.counts["kills"] += process.exitcode == -signal.SIGKILL
        tally.counts["of them among commits"] += process.exitcode == -signal.SIGKILL and before > 0
        tally.counts["failed writers"] += process.exitcode not in (0, -signal.SIGKILL)
        ended_well = process.exitcode == 0
        if child.store.uri.startswith("duckdb:"):
            _see_acked(child, tally)
        own.acked.rename(own.folder / f"acked-{uuid.uuid4().hex}") if own.acked.exists() else None
        alive[slot] = start(own)
    for process in alive.values():
        process.join(120)
        tally.counts["failed writers"] += process.exitcode != 0


def _await_begun(process: Any, own: Child) -> None:
    """A busy machine takes long to start a writer: wait for its first commit, or its end."""
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and process.exitcode is None and not _size(own):
        time.sleep(0.005)


def _own(child: Child, slot: int) -> Child:
    folder = child.folder / f"writer-{slot}"
    folder.mkdir(exist_ok=True)
    return replace(child, folder=folder)


def _size(child: Child) -> int:
    """How much a writer has noted since it was started."""
    return child.acked.stat().st_size if child.acked.exists() else 0


def _acked(child: Child) -> dict[str, str]:
    """Who was told of each shard that it is committed; the last line may be half."""
    lines = [
        line.split()
        for file in child.folder.rglob("acked*")
        for line in file.read_text("utf-8").split("\n")[:-1]
    ]
    return dict(lines)


def _see_acked(child: Child, tally: Tally) -> None:
    """Between two writers, a reader sees what was acknowledged, or no store yet."""
    acked = _acked(child)
    try:
        with open_store(child.store) as store:
            found = set(store.shard_counts(RUN)) if acked or not store.runs().is_empty() else set()
    except StoreError as error:
        if "no store at" not in str(error):
            tally.counts["unreadable"] += 1
        found = set()
    tally.counts["lost"] += len(acked.keys() - found)


def examine(child: Child, count: int, tally: Tally) -> None:
    """End the run calmly, then hold every row against what writers were told."""
    assert run(replace(_own(child, 99), work=write_all)) == 0
    acked = _acked(child)
    with open_store(child.store, writing=True) as store:
        store.finish(ended(run_record(RUN)), run_metrics(RUN))
        for table, each in (("scores", CASES * len(METRICS)), ("cases", CASES)):
            _hold(store, table, each, acked, shards(count), tally)
        if isinstance(store, ParquetStore):
            parts = len(store.objects.names(f"runs/{RUN}/parts"))
            tally.counts["orphan parts"] += parts - len(
                store.manifest.referenced_part_names(RUN, 0)
            )


def _hold(
    store: Store, table: str, each: int, acked: dict[str, str], wanted: list[str], tally: Tally
) -> None:
    writer = pl.col("summary") if table == "cases" else pl.col("reason").str.split(" ").list[0]
    rows = store.table(RUN, table).select(
        pl.col("case_id").str.head(5).alias("shard"), writer.alias("writer")
    )
    tally.counts["rows"] += rows.height
    for shard in wanted:
        found = rows.filter(shard=shard)
        tally.counts["lost"] += max(0, each - found.height)
        tally.counts["duplicate"] += max(0, found.height - each)
        tally.counts["torn"] += found["writer"].n_unique() > 1
        if shard in acked and found.height and found["writer"][0] != acked[shard]:
            tally.counts["lost"] += 1


def lossy(ground: Ground, count: int, share: float = 0.2, writers: int = 2) -> Tally:
    """Lose acknowledgements of commit marks: every winner must know that it won."""
    assert ground.s3 is not None
    tally, faults = Tally("s3, lost acknowledgements"), Faults(lost=b"/commits/", share=share)
    with proxied(ground.s3.endpoint_url, faults) as endpoint:
        child = ground.child(1_000_000, count, endpoint)
        alive = [start(_own(child, slot)) for slot in range(writers)]
        for process in alive:
            process.join(600)
            tally.counts["failed writers"] += process.exitcode != 0
    tally.counts["acknowledgements dropped"] = faults.cut
    straight = replace(child, store=replace_options(child.store, ground.s3.storage_options))
    acked = _acked(straight)
    with open_store(straight.store) as store:
        tally.counts["committed"] = len(store.shard_counts(RUN))
        unknown = set(store.shard_counts(RUN)) - acked.keys()
    tally.counts["late acknowledgements not recognised"] = len(unknown)
    examine(straight, count, tally)
    return tally


def replace_options(store: StoreConfig, options: dict[str, Any]) -> StoreConfig:
    """The same store by another way."""
    return store.model_copy(update={"storage_options": options})


@contextlib.contextmanager
def work_folder() -> Iterator[Path]:
    """A folder for all of it, gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="assizes-soak-") as folder:
        yield Path(folder)
