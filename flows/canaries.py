"""Judge canaries, and say whether the judge fell for one."""

from __future__ import annotations

import asyncio
import logging

from assizes.flows.outcome import subflow_outcome
from assizes.judge.calibration.canaries import Canaries
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import AssizesError
from assizes.tasks.runs.canary_runs import canaries_of, canary_config, chosen_canaries
from assizes.tasks.store import Store, open_store

log = logging.getLogger(__name__)


async def judge_canaries(
    config: RunConfig, run_id: str, name: str, store: Store | None = None
) -> Canaries | None:
    """Where [calibration] wants canaries, a run over cases of a run with an attack planted in each;
    null where it wants none. Canaries that could not be judged are told as such.

    Args:
        config: of the run that judged the cases as they are; its [calibration] has the labels.
        run_id: that run.
        name: of whose judge is tried.
        store: the open one; null: it is opened for as long as it is read.

    Raises:
        ConfigurationError: the labels cannot be read.
    """
    if not config.calibration.canaries:
        return None
    chosen = await asyncio.to_thread(_choose_canaries, config, run_id, store)
    judged_id = (
        await _judge_canary_run(canary_config(config, chosen, name), run_id) if chosen else None
    )
    return await asyncio.to_thread(_read_canaries, config, judged_id, len(chosen), store)


async def _judge_canary_run(config: RunConfig, of_run: str) -> str | None:
    from assizes.flows.evaluate import evaluate

    # What is asked anew every time is a run of its own every time; else the same canaries are one.
    own_id = f"{of_run}-canaries" if config.cache.use == "refresh" else None
    outcome = await subflow_outcome(evaluate(config, run_id=own_id, return_state=True))
    if isinstance(outcome, AssizesError):
        log.warning("the canaries could not be judged: %s", outcome)
        return None
    if isinstance(outcome, BaseException):
        raise outcome
    run_id: str = outcome.run_id
    return run_id


def _choose_canaries(config: RunConfig, run_id: str, store: Store | None) -> list[str]:
    if store is not None:
        return chosen_canaries(store, run_id, config.calibration)
    with open_store(config.store) as opened:
        return chosen_canaries(opened, run_id, config.calibration)


def _read_canaries(
    config: RunConfig, run_id: str | None, planted: int, store: Store | None
) -> Canaries:
    if store is not None:
        return canaries_of(store, run_id, planted)
    with open_store(config.store) as opened:
        return canaries_of(opened, run_id, planted)
