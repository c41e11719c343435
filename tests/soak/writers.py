"""A writer that commits every shard of a run, in an order of its own, and notes what it was told."""

from __future__ import annotations

import os
import random
import uuid

from assizes.tasks.store import open_store
from tests.soak.rows import rows_of
from tests.soak.small import Child
from tests.tasks.store.rows import COUNTS, run_record

RUN = "nightly-1"


def shards(count: int) -> list[str]:
    """Their ids."""
    return [f"s{number:04d}" for number in range(count)]


def write_all(child: Child) -> str:
    """Commit what is not there yet; each row names this writer. Notes `shard writer` when told yes."""
    writer = uuid.uuid4().hex
    dice = random.Random(writer)
    order = shards(int(child.environment["SHARDS"]))
    dice.shuffle(order)
    log = os.open(child.acked, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    with open_store(child.store, writing=True) as store:
        store.begin(run_record(RUN))
        for shard in order:
            if store.commit_shard(RUN, shard, rows_of(RUN, shard, writer), COUNTS):
                os.write(log, f"{shard} {writer}\n".encode())
    return writer
