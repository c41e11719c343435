"""Transcript files for intake, and what is asked of a plan."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.tasks.intake.plan import Plan
from assizes.tasks.intake.shards import ShardRecord, plan_intake, read_shard
from assizes.tasks.sources.spool import Spool
from tests.builders import agent, case, user


def line(case_id: str, said: str = "Hello.", **rest: Any) -> bytes:
    """A native record: a user's question, an agent's answer."""
    spoken = case(user("Hi."), agent(said), case_id=case_id, **rest)
    return spoken.model_dump_json(exclude_defaults=True).encode()


def written(path: Path, *lines: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"".join(line + b"\n" for line in lines)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def config(path: Path | str, **rest: Any) -> TranscriptsConfig:
    return TranscriptsConfig(uri=str(path), **rest)


def planned(config: TranscriptsConfig, shard_size: int = 100, **rest: Any) -> Plan:
    with Spool(config.storage_options) as spool:
        return plan_intake(config, shard_size, spool, **rest)


def records(plan: Plan, config: TranscriptsConfig) -> list[ShardRecord]:
    """All records of a plan, each shard read on its own after a round trip through JSON."""
    read: list[ShardRecord] = []
    for shard in Plan.from_dict(json.loads(json.dumps(plan.as_dict()))).shards:
        with Spool(config.storage_options) as spool:
            read += read_shard(shard, config, spool)
    return read


def counts(plan: Plan) -> tuple[int, int, int, int, int]:
    return plan.read, plan.due, plan.duplicates, plan.rejected, plan.unselected


def ids(read: Iterable[ShardRecord]) -> list[str]:
    return [record.case.case_id for record in read if record.case is not None]


def rejects(read: Iterable[ShardRecord]) -> list[tuple[int, str]]:
    return [(r.position, r.reject.code) for r in read if r.reject is not None]
