"""Reads a shard, lets every judge hear every case of it, and commits the rows."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.client.schemas.objects import State, TaskRun
from prefect.tasks import Task

from assizes.judge.case import Case, Expected, Transcript
from assizes.judge.engine.ask_records import HearingResult
from assizes.judge.engine.ensemble_hearing import gather_all
from assizes.judge.engine.faults import OUTAGES, STOPS
from assizes.judge.errors import (
    AssizesError,
    DataError,
    Halted,
    Inconclusive,
    OverBudget,
)
from assizes.judge.rows import SHARD_TABLES, frame
from assizes.judge.verdicts.case_rows import Findings, RowKey, findings
from assizes.tasks.context.hearing import caught, described_fault, failed_scores, hear_all
from assizes.tasks.context.run_context import RunContext
from assizes.tasks.intake.plan import LISTED_REJECTS, Shard
from assizes.tasks.intake.shards import ShardRecord, read_shard
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.runtime.process import redacts_secrets
from assizes.tasks.store.record import Frames

log = logging.getLogger(__name__)

T = TypeVar("T")

DETAIL_CHARS: Final = 500  # the most characters that are stored of the detail of a reject

SHARD_RETRIES = 2
SHARD_RETRY_DELAYS_S = [2.0, 10.0]
"""Seconds before each retry of a storage fault; model calls are retried by the engine."""

INTERRUPT_GRACE_S: Final = 10.0
"""Seconds that calls in flight have to be answered and cached when a run is interrupted."""

INTERNAL_ERROR: Final = "internal_error"
"""The code of scores that a defect of ours, not of a judge, has cost."""

_STOP_ERRORS: Final[Mapping[str, type[AssizesError]]] = {"budget": OverBudget, "halted": Halted}
"""The error that ends the run, by the code of a stop; `Inconclusive` for every other code."""

_UNREACHABLE_CODES: Final = OUTAGES | {"circuit_open"}
"""Error codes of asks to a model that cannot be reached."""


def storage_faults() -> tuple[type[Exception], ...]:
    """The classes of errors that a disk, a bucket or a DuckDB file raises."""
    from botocore.exceptions import BotoCoreError, ClientError
    from duckdb import IOException

    return (OSError, BotoCoreError, ClientError, IOException)


def is_storage_fault(error: object) -> bool:
    """Whether a storage fault is the error or among its causes: another attempt may help."""
    faults = storage_faults()
    if isinstance(error, DataError):  # a record that cannot be read cannot be read the next time
        return False
    while isinstance(error, BaseException):  # our errors are raised from the fault
        if isinstance(error, faults):
            return True
        error = error.__cause__
    return False


async def has_storage_fault(_task: Task[Any, Any], _run: TaskRun, state: State[Any]) -> bool:
    """Whether Prefect runs a task again: its error (state.data) comes from a storage fault."""
    return is_storage_fault(state.data)


@redacts_secrets
@task(
    name="judge_shard",
    task_run_name="judge-{shard.shard_id}",
    retries=SHARD_RETRIES,
    retry_delay_seconds=SHARD_RETRY_DELAYS_S,
    retry_condition_fn=has_storage_fault,
    cache_policy=NO_CACHE,
    result_serializer="json",
)
async def judge_shard(context: RunContext, run_id: str, shard: Shard) -> dict[str, int]:
    """Judge the cases of one shard and commit their rows, all or none; returns the counts by status.

    Committed rows are final. So nothing is committed while a later attempt could do better, for
    example when the provider is down.

    Raises:
        DataError: a case that was planned cannot be read any more.
        Inconclusive: the judge model could not be reached.
        OverBudget: the budget is spent.
        Halted: someone stopped the run.
    """
    return await commit_findings(context, run_id, shard, await hear_shard(context, run_id, shard))


async def hear_shard(
    context: RunContext, run_id: str, shard: Shard
) -> tuple[Sequence[ShardRecord], Sequence[Findings]]:
    """Judge the cases of one shard; returns its records, and what was found in those that are cases.

    Raises what `judge_shard` raises, and commits nothing. Cancelling this call ends the asking of
    the whole run: calls in flight have `INTERRUPT_GRACE_S` to be answered and cached.
    """
    async with context.shard_read_lock:
        # In a thread: the event loop serves the calls of the other shards.
        records = await asyncio.to_thread(
            lambda: list(
                read_shard(shard, context.config.transcripts, context.spool, context.preprocessor)
            )
        )
    failpoint("shard.read")
    due = frozenset(shard.due_positions())
    for record in records:
        if record.reject is not None and record.position in due:
            raise record.reject  # it could be read when the run was planned
    hearings = gather_all(  # also after an error: what the others paid for is kept
        judge_case(context, RowKey(run_id, shard.uri, record.position), record.case)
        for record in records
        if record.case is not None
    )
    outcomes = await _until_interrupted(context, run_id, hearings)
    failpoint("shard.judged")
    check_models_answered(outcomes, context, run_id)
    return records, outcomes


async def commit_findings(
    context: RunContext,
    run_id: str,
    shard: Shard,
    judged: tuple[Sequence[ShardRecord], Sequence[Findings]],
) -> dict[str, int]:
    """Commit the rows of a shard, all or none; returns the counts by status.

    `judged` are the records of the shard, and what was found in those that are cases.
    """
    frames, counts = shard_rows(run_id, shard, judged)
    await asyncio.to_thread(context.store.commit_shard, run_id, shard.shard_id, frames, counts)
    failpoint("shard.committed")
    log.info("shard %s committed: %s", shard.shard_id, counts)
    return counts


def shard_rows(
    run_id: str, shard: Shard, judged: tuple[Sequence[ShardRecord], Sequence[Findings]]
) -> tuple[Frames, dict[str, int]]:
    """The rows of a shard that was judged, by table, and its counts by status."""
    records, outcomes = judged
    rows = {
        table: [row for outcome in outcomes for row in outcome.rows[table]]
        for table in ("scores", "asks", "cases")
    }
    rows["rejects"] = list(_reject_rows(run_id, shard, records))
    counts: Counter[str] = Counter(outcome.verdict.status for outcome in outcomes)
    counts["quarantined"] = sum(record.reject is not None for record in records)
    shard.check(counts)  # the rows must add up to the plan
    return {table: frame(table, rows[table]) for table in SHARD_TABLES}, dict(counts)


def check_models_answered(outcomes: Sequence[Findings], context: RunContext, run_id: str) -> None:
    """Raise an error when a stop or an outage kept asks of the shard from their models.

    A failed ask is a result, unless the model has never answered in this process: then the provider
    is down, and the shard is left to a later attempt; replies that came stay in the cache.
    """
    silent = context.engine_for(run_id).silent_models
    panels = context.judge_panel.ensembles.items()
    ensembles = {name for name, ensemble in panels if len(ensemble.models) > 1}
    stops: Counter[tuple[str, str]] = Counter()  # (model, error) -> asks
    outages: Counter[tuple[str, str]] = Counter()  # (model, error) -> asks
    for outcome in outcomes:
        scores = outcome.rows["scores"]
        failed_judges = {
            row["judge"] for row in scores if row["status"] == "failed" and not row["part"]
        }
        complete_judges = ensembles - failed_judges
        for ask in (ask for ask in outcome.rows["asks"] if ask["error"]):
            code = ask["error"].partition(":")[0]  # `code: detail`
            # A judge that reached its quorum without one of its models has judged.
            if code in _UNREACHABLE_CODES and ask["judge"] in complete_judges:
                continue
            if code in STOPS:
                stops[ask["model"], ask["error"]] += 1
            elif code in OUTAGES and ask["model"] in silent:
                outages[ask["model"], ask["error"]] += 1
    if failed := stops or outages:
        model, error = min(failed, key=lambda stop: (-failed[stop], stop))  # the most frequent
        raise _STOP_ERRORS.get(error.partition(":")[0], Inconclusive)(f"{model}: {error}")


async def _until_interrupted(
    context: RunContext, run_id: str, hearings: Coroutine[Any, Any, T]
) -> T:
    """The result of hearings, which a cancellation ends only when what they have paid for is kept."""
    hearing_task = asyncio.create_task(hearings)
    try:
        return await asyncio.shield(hearing_task)
    except asyncio.CancelledError:
        context.halt(run_id, "the run is interrupted")
        await asyncio.wait([hearing_task], timeout=INTERRUPT_GRACE_S)
        raise
    finally:  # also where a second cancellation ended the waiting
        hearing_task.cancel()


async def judge_case(context: RunContext, row_key: RowKey, case: Case) -> Findings:
    """Let every judge hear one case, which is prepared; returns its verdict and its rows."""
    engine, panel = context.engine_for(row_key.run_id), context.judge_panel
    results = await hear_all(engine, panel, case)
    context.progress("judging", 1, 0)
    outcome = await caught(_case_findings(context, row_key, case, results))
    if isinstance(outcome, Findings):
        return outcome
    # A defect of ours with this case: the case is errored, and its neighbours keep what they have.
    described_fault("the rows of a case could not be made", outcome)
    # Without the words of the error, which may quote the case.
    reason = f"{type(outcome).__name__}, a defect of Assizes; the log says where"
    results = [
        replace(result, scores=failed_scores(result.judge, reason, INTERNAL_ERROR))
        for result in results
    ]
    bare = case.model_copy(update={"transcript": Transcript(), "expected": Expected()})
    errored = await _case_findings(context, row_key, bare, results)
    known = {"transcript_hash": case.content_hash()}  # by which `resume --errors` finds the case
    case_rows = [{**row, **known} for row in errored.rows["cases"]]
    return replace(errored, rows={**errored.rows, "cases": case_rows})


async def _case_findings(
    context: RunContext, row_key: RowKey, case: Case, results: Sequence[HearingResult]
) -> Findings:
    outcome = findings(row_key, case, results, context.judge_panel)
    return replace(outcome, rows=context.preprocessor.redacted_rows(case, outcome.rows))


def _reject_rows(
    run_id: str, shard: Shard, records: Iterable[ShardRecord]
) -> Iterator[dict[str, Any]]:
    until = dict(shard.listed_until)
    seen: Counter[str] = (
        Counter()
    )  # by code; the plan knows nothing of an object that changed since
    for record in records:
        if record.reject is None:
            continue
        code = record.reject.code
        seen[code] += 1
        is_listed = record.position <= until.get(code, record.position)
        if is_listed and seen[code] <= LISTED_REJECTS:
            yield {
                "run_id": run_id,
                "uri": shard.uri,
                "position": record.position,
                "byte_offset": record.offset,
                "reason": code,
                "detail": record.reject.detail[:DETAIL_CHARS],
                "sha256": record.sha256,
                "excerpt": record.excerpt,
            }
