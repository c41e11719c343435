"""Judges a run wave by wave, and stops after the wave that decides it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from assizes.flows.shards import ShardFailures
from assizes.tasks.context.looks import stops_after
from assizes.tasks.context.run_context import PlannedRun, RunContext
from assizes.tasks.intake.plan import Shard
from assizes.tasks.intake.waves import wave_shards, waves_in

log = logging.getLogger(__name__)

WaveJudge = Callable[[Sequence[Shard]], Awaitable[ShardFailures]]
"""Judges shards, wherever that is; returns the failures."""


async def judge_in_waves(
    context: RunContext,
    run: PlannedRun,
    due: Sequence[Shard],
    judge: WaveJudge,
) -> ShardFailures:
    """Judge the due shards of a run; of a run in waves, as many waves as it takes to decide it.

    A look follows a wave only when all of its shards are committed, so that a run which is resumed,
    or spread over workers, looks at the same cases. A wave with a failure ends the judging.
    """
    waves = waves_in(run.intake.design)
    if not waves:
        return await judge(due)
    failures = ShardFailures()
    for number, wave in enumerate(waves, start=1):
        ids = {shard.shard_id for shard in wave_shards(run.intake, number)}
        if wave_due := [shard for shard in due if shard.shard_id in ids]:
            failures = await judge(wave_due)
            if failures.reasons or failures.stop is not None:
                return failures
        if number < len(waves) and await asyncio.to_thread(
            stops_after, context.store, context.config, run.record, run.intake, number
        ):
            log.info(
                "decided after %d of %d cases (look %d of %d); the rest is not needed",
                *(wave.cases, waves[-1].cases, number, len(waves) - 1),
            )
            break
    return failures
