"""Read a shard, let every judge hear every case of it, commit the rows."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task

from judge.case import Case
from judge.engine import Heard
from judge.errors import DataError, Inconclusive
from judge.findings import Findings, Origin, findings
from judge.protocol import Judge
from judge.rows import SHARD_TABLES, frame
from judge.score import Score
from tasks.failpoints import failpoint
from tasks.intake import Record, Shard, read_shard
from tasks.room import Room, watcher

log = logging.getLogger(__name__)

SHARD_RETRIES = 2
SHARD_RETRY_DELAYS_S = [2.0, 10.0]
"""For storage faults only: a model's faults are dealt with ask by ask, inside the engine."""


OUTAGES: Final = frozenset(
    {"timeout", "unavailable", "rate_limited", "quota", "authentication", "not_found"}
)
"""Codes of asks that failed for the provider's sake, not the case's: another day they may not."""


async def _storage_fault(_task: Task[Any, Any], _run: TaskRun, state: State[Any]) -> bool:
    """Prefect must not repeat a shard whose failure would repeat (state.data is the exception).

    Stores and readers say in their own words what happened; the fault is the cause of that.
    """
    from botocore.exceptions import BotoCoreError, ClientError
    from duckdb import IOException

    faults = (OSError, BotoCoreError, ClientError, IOException)
    if isinstance(state.data, DataError):
        return False
    return any(isinstance(error, faults) for error in _causes(state.data))


def _causes(error: Any) -> Iterator[BaseException]:
    while isinstance(error, BaseException):
        yield error
        error = error.__cause__


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

    What is committed is final, so nothing is when a later run could do better.

    Returns:
        Counts of the shard: judged, errored, skipped, quarantined.

    Raises:
        DataError: a case that was planned cannot be read any more.
        Inconclusive: the judge model could not be had.
    """
    records = await asyncio.to_thread(
        lambda: list(read_shard(shard, room.config.transcripts, room.spool))
    )
    failpoint("shard.read")
    _check_readable(shard, records)
    heard = await asyncio.gather(
        *(
            _judge_case(room, Origin(run_id, shard.uri, record.position), record.case)
            for record in records
            if record.case is not None
        )
    )
    failpoint("shard.judged")
    _check_answered(heard)
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
    failpoint("shard.committed")
    log.info("shard %s committed: %s", shard.shard_id, dict(counts))
    return dict(counts)


def _check_readable(shard: Shard, records: Sequence[Record]) -> None:
    due = frozenset(shard.due())
    for record in records:
        if record.reject is not None and record.position in due:
            raise record.reject


def _check_answered(heard: Sequence[Findings]) -> None:
    """See that no ask failed for the provider's sake; the replies that came are in the cache."""
    failed = Counter(
        f"{ask['model']}: {ask['error']}"
        for one in heard
        for ask in one.rows["asks"]
        if (ask["error"] or "").partition(":")[0] in OUTAGES
    )
    if failed:
        raise Inconclusive(min(failed, key=lambda reason: (-failed[reason], reason)))


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
