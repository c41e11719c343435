"""Read a shard, let every judge hear every case of it, commit the rows."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task

from assizes.judge.case import Case
from assizes.judge.catalog import Court
from assizes.judge.engine.ask_records import Heard
from assizes.judge.engine.faults import OUTAGES, STOPS
from assizes.judge.errors import AssizesError, DataError, Halted, Inconclusive, OverBudget
from assizes.judge.privacy.secret_masking import concealed
from assizes.judge.protocol import Judge
from assizes.judge.rows import SHARD_TABLES, frame
from assizes.judge.score import Score
from assizes.judge.verdicts.case_rows import Findings, Origin, findings
from assizes.tasks.context.run_context import Room, watcher
from assizes.tasks.intake.shard import Shard
from assizes.tasks.intake.shards import Record, read_shard
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.runtime.log_redaction import discreet

log = logging.getLogger(__name__)

DETAIL_CHARS: Final = 500
"""The most that is kept of why a record was rejected."""

SHARD_RETRIES = 2
SHARD_RETRY_DELAYS_S = [2.0, 10.0]
"""For storage faults only: a model's faults are dealt with ask by ask, inside the engine."""

_ENDS: Final[Mapping[str, type[AssizesError]]] = {"budget": OverBudget, "halted": Halted}
"""What a stop does to the run, where it is not `Inconclusive`."""

_GONE: Final = OUTAGES | {"circuit_open"}
"""Codes of asks that a model which cannot be had leaves behind."""


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


@discreet
@task(
    name="judge_shard",
    task_run_name="judge-{shard.shard_id}",
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
        OverBudget: what may be spent is spent.
        Halted: someone stopped the run.
    """
    records = await asyncio.to_thread(
        lambda: list(read_shard(shard, room.config.transcripts, room.spool, room.treatment))
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
    _check_asked(heard, room.engine_for(run_id).silent, panels_of(room.court))
    rejected = list(_reject_rows(run_id, shard, records))
    rows = {**_tables(heard), "rejects": rejected}
    counts: Counter[str] = Counter(one.verdict.status for one in heard)
    counts["quarantined"] = len(rejected)
    shard.check(counts)
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


def panels_of(court: Court) -> frozenset[str]:
    """The judges that more than one model answers: a verdict can stand without one of them."""
    return frozenset(name for name, jury in court.juries.items() if len(jury.models) > 1)


def _check_asked(heard: Sequence[Findings], silent: frozenset[str], panels: frozenset[str]) -> None:
    """See that the asks were put, and to models that are there; the replies that came are kept.

    An ask that failed is a result, unless its model has never answered in this sitting: then the
    provider is at fault, and another day it may not be. A panel that reached its quorum without a
    model has judged.
    """
    stops: Counter[tuple[str, str]] = Counter()
    outages: Counter[tuple[str, str]] = Counter()
    for one in heard:
        judged = panels - _failed_judges(one)
        for ask in (ask for ask in one.rows["asks"] if ask["error"]):
            code = _code(ask["error"])
            if code in _GONE and ask["judge"] in judged:
                continue
            if code in STOPS:
                stops[ask["model"], ask["error"]] += 1
            elif code in OUTAGES and ask["model"] in silent:
                outages[ask["model"], ask["error"]] += 1
    if failed := stops or outages:
        model, error = min(failed, key=lambda one: (-failed[one], one))
        raise _ENDS.get(_code(error), Inconclusive)(f"{model}: {error}")


def _failed_judges(one: Findings) -> set[str]:
    rows = one.rows["scores"]
    return {row["judge"] for row in rows if row["status"] == "failed" and not row["part"]}


def _code(error: str) -> str:
    return error.partition(":")[0]


async def _judge_case(room: Room, origin: Origin, case: Case) -> Findings:
    engine = room.engine_for(origin.run_id)
    heard = await hear_all(engine, room.court, case)
    watcher.get()("judging", 1, 0)
    found = findings(origin, case, heard, room.court)
    return replace(found, rows=room.treatment.rows(case, found.rows))


class Hears(Protocol):
    """An engine, or what foresees one."""

    async def hear(self, judge: Judge, case: Case) -> Heard:
        """One judge on one case, to the end."""


async def hear_all(engine: Hears, court: Court, case: Case) -> list[Heard]:
    """Every judge on one case; one that breaks costs its own scores only."""
    return [await _hear(engine, judge, case) for judge in court.sitting_on(case)]


async def _hear(engine: Hears, judge: Judge, case: Case) -> Heard:
    """A judge that breaks costs its own scores only; the run goes on."""
    try:
        return await engine.hear(judge, case)
    except Exception as error:  # the one place: a bug in a judge is a failed score
        at = traceback.extract_tb(error.__traceback__)[-1]
        kind = type(error).__name__
        where = f"{kind} at {at.filename}:{at.lineno}"
        log.error("judge %s broke on a case: %s", judge.name, where)  # noqa: TRY400  # the text may quote the case
        log.debug("judge %s broke on a case", judge.name, exc_info=error)
        reason = concealed(f"{kind}: {error}")[:300]
        failed = [Score.failed(metric.name, reason, "judge_bug") for metric in judge.metrics]
        return Heard(judge=judge, scores=failed, asks=[])


def _tables(heard: list[Findings]) -> dict[str, list[dict[str, Any]]]:
    return {
        table: [row for one in heard for row in one.rows[table]]
        for table in ("scores", "asks", "cases")
    }


def _reject_rows(run_id: str, shard: Shard, records: Iterable[Record]) -> Iterator[dict[str, Any]]:
    for record in records:
        if record.reject is not None:
            yield {
                "run_id": run_id,
                "uri": shard.uri,
                "position": record.position,
                "byte_offset": record.offset,
                "reason": record.reject.code,
                "detail": record.reject.detail[:DETAIL_CHARS],
                "sha256": record.sha256,
                "excerpt": record.excerpt,
            }
