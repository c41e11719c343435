"""What the tests of matrix D hold plans against."""

from __future__ import annotations

import json
from typing import Any

import pytest

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import DataError
from assizes.judge.formats import FORMATS
from assizes.tasks.intake.plan import Plan
from assizes.tasks.intake.shards import ShardRecord, plan_intake, read_shard
from assizes.tasks.sources.spool import Spool
from tests.tasks.intake.intake_files import ids

NATIVE = FORMATS["native"]


def intake(wanted: TranscriptsConfig, **rest: Any) -> tuple[Plan, list[ShardRecord]]:
    """A plan and what its shards hold; as many records as were promised, each once."""
    with Spool.of(wanted) as spool:
        plan = plan_intake(wanted, 2, spool, **rest)
        read = [record for shard in plan.shards for record in read_shard(shard, wanted, spool)]
    plan.check()
    assert len(read) == plan.due + plan.rejected
    assert len(ids(read)) == plan.due
    return plan, read


def faults(read: list[ShardRecord]) -> list[tuple[int, str]]:
    return [(r.position, r.reject.code) for r in read if r.reject is not None]


def fault_of(record: bytes) -> DataError:
    with pytest.raises(DataError) as raised:
        NATIVE.case(record)
    return raised.value


def timed(name: str, *times: str | None, **rest: Any) -> bytes:
    turns = [
        {"role": role, "text": "x", "started_at": at}
        for role, at in zip(("user", "assistant") * 4, times, strict=False)
    ]
    turns[1] |= rest
    return json.dumps({"case_id": name, "transcript": {"turns": turns}}).encode()
