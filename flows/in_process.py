"""One evaluation in this process, without Prefect's engine: the same tasks, called as functions.

Plan, shards, rows, limits, cache, ledger and summary are those of the flow `evaluate`. What needs a
server is left out: states, artifacts, events, anchors, and the report.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_chain, wait_fixed

from assizes.flows.outcome import RunOutcome, run_outcome
from assizes.flows.shards import ShardFailures, judge_locally, uncommitted_shards
from assizes.flows.waves import judge_in_waves
from assizes.judge.config.commit import CommitFacts
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import AssizesError, ConfigurationError
from assizes.tasks.context.run_context import (
    PlannedRun,
    RunContext,
    clear_error_frames,
    open_run_context,
)
from assizes.tasks.find_causes import find_causes
from assizes.tasks.intake.plan import Shard
from assizes.tasks.judge_shard import (
    SHARD_RETRY_DELAYS_S,
    is_storage_fault,
    judge_shard,
    storage_faults,
)
from assizes.tasks.plan import RunRequest, lock_unfinished_run, plan_run
from assizes.tasks.summarise import compare_with_baseline, summarise_run


async def evaluate_in_process(
    config: RunConfig,
    run_id: str | None = None,
    resume: str | None = None,
    commit: CommitFacts | None = None,
    *,
    seeks_causes: bool = False,
) -> RunOutcome:
    """Judge the transcripts that a configuration names; every row is in its store afterwards.

    `commit` is that of the code that the run is about; `None`: it is not told. `resume` says in the reasons what goes on with the run; `None`: the command `assizes resume`.
    With `seeks_causes` the causes of the failures are found and stored, as after `assizes run`.

    Raises:
        ConfigurationError: the configuration cannot work, or needs other processes or batches.
        StoreError: the store cannot be opened or written.
        Inconclusive: there is nothing to judge.
    """
    runner = config.runner
    has_processes = runner.processes not in (1, "auto")
    if runner.kind != "local" or runner.batch or has_processes:
        setting = "batch" if runner.batch else "processes" if has_processes else "kind"
        raise ConfigurationError(
            f"[runner] {setting}: an evaluation from Python judges in its own process; leave the "
            "setting out, or start this run with `assizes run`"
        )
    async with open_run_context(config) as context:
        planned = await plan_run.fn(context, RunRequest(run_id=run_id, commit=commit))
        async with lock_unfinished_run(context, planned):
            failures = await _judge_shards(context, planned)
            is_incomplete = bool(failures.reasons) or failures.stop is not None
            run, summary = await summarise_run.fn(context, planned, has_lost_shards=is_incomplete)
        result = await compare_with_baseline.fn(context, run)
        if seeks_causes:
            result = replace(result, causes=await find_causes.fn(context, run))
    return run_outcome(run.record, summary, result, failures, {}, resume)


async def _judge_shards(context: RunContext, run: PlannedRun) -> ShardFailures:
    if run.is_finished:
        return ShardFailures(had_ended=True)
    due = await uncommitted_shards(context, run)

    async def judge(shards: Sequence[Shard]) -> ShardFailures:
        return await judge_locally(context, run.run_id, shards, _judge_directly)

    return await judge_in_waves(context, run, due, judge)


async def _judge_directly(context: RunContext, run_id: str, shard: Shard) -> Exception | None:
    """Judge a shard, with the retries of the task; returns why it could not be judged."""
    retrying = AsyncRetrying(
        retry=retry_if_exception(is_storage_fault),
        stop=stop_after_attempt(1 + len(SHARD_RETRY_DELAYS_S)),
        wait=wait_chain(*map(wait_fixed, SHARD_RETRY_DELAYS_S)),
        reraise=True,
    )
    expected_errors: tuple[type[Exception], ...] = (AssizesError, *storage_faults())
    try:
        await retrying(judge_shard.fn, context, run_id, shard)
    except expected_errors as error:
        clear_error_frames(error)
        return error
    return None
