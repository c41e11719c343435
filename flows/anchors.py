"""Judge the anchors beside a run, and say whether the judge moved."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

from judge.errors import AssizesError
from tasks.anchor_runs import anchor_config, anchors_due, anchors_id
from tasks.anchoring import attribute_change
from tasks.plan import PlannedRun
from tasks.room import Room
from tasks.summaries import Against

log = logging.getLogger(__name__)


async def judge_anchors(room: Room, run: PlannedRun, against: Against) -> Against:
    """With [anchors], a run of its own over them, asked anew; then whose the change is.

    Anchors that cannot be judged leave the run as it is, and the log says why.
    """
    if room.config.anchors.uri is None:
        return against
    if await asyncio.to_thread(anchors_due, room.store, run.record, room.config):
        await _judge(room, run)
    found = await attribute_change(room, run, against.comparison)
    return replace(against, attribution=found)


async def _judge(room: Room, run: PlannedRun) -> None:
    from flows.evaluate import evaluate

    # Prefect types an async flow called with return_state as if it had been awaited already.
    work: Any = evaluate(
        anchor_config(room.config),
        run.record.trigger,
        run_id=anchors_id(run.run_id),
        return_state=True,
    )
    outcome = await (await work).aresult(raise_on_failure=False)
    if isinstance(outcome, AssizesError):
        log.warning("the anchors could not be judged: %s", " ".join(str(outcome).split()))
    elif isinstance(outcome, BaseException):
        raise outcome
