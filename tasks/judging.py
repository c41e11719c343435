"""Read a shard, let every judge hear every case of it, commit the rows."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task

from judge.case import Case
from judge.engine import Heard
from judge.errors import DataError
from judge.findings import Findings, Origin, findings
from judge.protocol import Judge
from judge.rows import SHARD_TABLES, frame
from judge.score import Score
from tasks.intake import Shard, read_shard
from tasks.room import Room, watcher

log = logging.getLogger(__name__)

SHARD_RETRIES = 2
SHARD_RETRY_DELAYS_S = [2.0, 10.0]
"""For storage faults only: a model's faults are dealt with ask by ask, inside the engine."""


async def _storage_fault(_task: Task[Any, Any], _run: TaskRun, state: State[Any]) -> bool:
    """Prefect must not repeat a shard whose failure would repeat (state.data is the exception)."""
    return isinstance(state.data, OSError)


@task(
    name="judge_shard",
    task_run_name="judge-{shard.shard_id}",
    tags=["judge"],
    retries=SHARD_RETRIES,
    retry_delay_seconds=SHARD_RETRY_DELAYS_S,
    retry_condition_fn=_storage_fault,
    cache_policy=NO_CACHE,
    result_serializer="json",
)
async def judge_shard(room: Room, run_id: str, shard: Shard) -> dict[str, int]:
    """Judge the cases of one shard and commit their rows, all or none.

    Returns:
        Counts of the shard: judged, errored, skipped, quarantined.
    """
    records = await asyncio.to_thread(
        lambda: list(read_shard(shard, room.config.transcripts, room.spool))
    )
    heard = await asyncio.gather(
        *(
            _judge_case(room, Origin(run_id, shard.uri, record.position), record.case)
            for record in records
            if record.case is not None
        )
    )
    rejected = [
        _reject_row(Origin(run_id, shard.uri, record.position), record.reject, record.excerpt)
        for record in records
        if record.reject is not None
    ]
    rows = {**_tables(heard), "rejects": rejected}
    counts: Counter[str] = Counter(one.verdict.status for one in heard)
    counts["quarantined"] = len(rejected)
    frames = {table: frame(table, rows[table]) for table in SHARD_TABLES}
    await asyncio.to_thread(room.store.commit_shard, run_id, shard.shard_id, frames, dict(counts))
    log.info("shard %s committed: %s", shard.shard_id, dict(counts))
    return dict(counts)


async def _judge_case(room: Room, origin: Origin, case: Case) -> Findings:
    heard = [await _hear(room, judge, case) for judge in room.court.judges]
    watcher.get()("judging", 1, 0)
    return findings(origin, case, heard, room.court)


async def _hear(room: Room, judge: Judge, case: Case) -> Heard:
    """A judge that breaks costs its own scores only; the run goes on."""
    try:
        return await room.engine.hear(judge, case)
    except Exception as error:  # the one place: a bug in a judge is a failed score
        log.exception("judge %s broke on a case", judge.name)
        reason = f"{type(error).__name__}: {error}"[:300]
        failed = [Score.failed(metric.name, reason, "judge_bug") for metric in judge.metrics]
        return Heard(judge=judge, scores=failed, asks=[])


def _tables(heard: list[Findings]) -> dict[str, list[dict[str, Any]]]:
    return {
        table: [row for one in heard for row in one.rows[table]]
        for table in ("scores", "asks", "cases")
    }


def _reject_row(origin: Origin, reject: DataError, excerpt: str) -> dict[str, Any]:
    return {
        "run_id": origin.run_id,
        "uri": origin.uri,
        "position": origin.position,
        "reason": str(reject)[:500],
        "excerpt": excerpt,
    }
