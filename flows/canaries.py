"""Judges canaries: cases with a planted attack, which show whether the judge obeys one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import nullcontext
from typing import TypeVar

from assizes.flows.outcome import subflow_outcome
from assizes.flows.run_evaluation import evaluate_without_anchors
from assizes.judge.calibration.canaries import Canaries
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import AssizesError
from assizes.tasks.runs.canary_runs import canaries_of, canary_config, chosen_canaries
from assizes.tasks.store import Store, open_store

log = logging.getLogger(__name__)

T = TypeVar("T")


async def judge_canaries(
    config: RunConfig, run_id: str, name: str, store: Store | None = None
) -> Canaries | None:
    """Judge cases of a run again with an attack planted in each, as a run of its own.

    Args:
        config: of the run that judged the cases as they are; its [calibration] has the labels and
            the number of canaries.
        run_id: that run.
        name: the configuration whose judge is tried.
        store: the open store; None: the store is opened for as long as it is read.

    Returns:
        What became of the canaries; None when [calibration] wants none.

    Raises:
        ConfigurationError: the labels cannot be read.
    """
    if not config.calibration.canaries:
        return None

    def read(query: Callable[[Store], T]) -> T:
        with nullcontext(store) if store is not None else open_store(config.store) as opened:
            return query(opened)

    case_ids = await asyncio.to_thread(
        read, lambda opened: chosen_canaries(opened, run_id, config.calibration)
    )
    own_config = canary_config(config, case_ids, name)
    own_run_id = await _judge_canary_run(own_config, run_id) if case_ids else None
    return await asyncio.to_thread(
        read, lambda opened: canaries_of(opened, own_run_id, len(case_ids))
    )


async def _judge_canary_run(config: RunConfig, of_run: str) -> str | None:
    """The id of the canary run; None, and a warning in the log, when it could not be judged."""
    # Without cached replies every canary run is a new one; else the same canaries are the same run.
    own_id = f"{of_run}-canaries" if config.cache.use == "refresh" else None
    outcome = await subflow_outcome(
        evaluate_without_anchors(config, run_id=own_id, return_state=True)
    )
    if isinstance(outcome, AssizesError):
        log.warning("the canaries could not be judged: %s", outcome)
        return None
    return outcome.run_id
