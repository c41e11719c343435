"""A range of days, or a list of places: a run for each, until all are judged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import date
from typing import Any, Final

from prefect import flow
from prefect.artifacts import acreate_table_artifact
from prefect.client.schemas.objects import State
from prefect.runtime import flow_run

from assizes.flows.days import (
    PartOutcome,
    SeriesOutcome,
    conclude_parts,
    judge_part,
    total_cost_usd,
)
from assizes.judge.config.run import RunConfig
from assizes.tasks.context.run_context import progress_reporter
from assizes.tasks.intake.days import RunPart, backfill_parts
from assizes.tasks.list_due_nights import can_have_many_writers, days_in_progress
from assizes.tasks.reports.render.artifacts import artifact_key
from assizes.tasks.runs.baselines import RULES
from assizes.tasks.runtime.progress import ProgressArtifact, ignore_server_errors
from assizes.tasks.runtime.redacted_runs import redacts_secrets
from assizes.tasks.summarise import is_comparison_deferred

log = logging.getLogger(__name__)

POLL_INTERVAL_S: Final = 2.0
"""How often a backfill that could go on looks whether another one has finished with a day."""

COMPLETE_CONCLUSIONS: Final = (
    "Passed",
    "GateFailed",
    "Regression",
    "NotComparable",
    "Inconclusive",
)
"""How a part concludes whose run is complete and has cases."""

MAX_FAILURES_IN_A_ROW: Final = 3
"""So many parts in a row that could not be judged to the end: the next would fare no better."""


def _run_name() -> str:
    parameters = flow_run.parameters
    config: RunConfig = parameters["config"]
    uris = parameters.get("uris")
    what = (
        f"{len(uris)}-places"
        if uris
        else f"{parameters.get('since')}..{parameters.get('until') or ''}"
    )
    return f"backfill-{config.name}-{what}"


@redacts_secrets
@flow(name="backfill", flow_run_name=_run_name, result_serializer="json")
async def backfill(
    config: RunConfig,
    since: date | None = None,
    until: date | None = None,
    uris: list[str] | None = None,
) -> State[SeriesOutcome]:
    """Judge every day of a range, or every place of a list, as a run of its own.

    A finished part costs nothing again, so the same backfill goes on where it was cancelled. What
    befalls one part does not end the others, unless the budget is spent, somebody stopped the runs,
    or three in a row could not be judged to the end. A day on which another process is at work is
    left for later.

    Args:
        config: everything about the runs; `[backfill]` says how many at once and in which order.
        since: the first day.
        until: the last day; null: yesterday, in the time zone of `[nightly]`.
        uris: instead of days, the places to read, in this order.

    Returns:
        A state named for the severest conclusion, parts without data aside; its data is the
        `SeriesOutcome`. A table artifact holds the parts.

    Raises:
        ConfigurationError: neither days nor places were given, or both; or the range is empty, or
            the transcripts' URI has no place for a day.
    """
    parts = backfill_parts(config, since, until, uris)
    many = await asyncio.to_thread(can_have_many_writers, config)
    at_once = min(config.backfill.in_flight if many else 1, len(parts))
    if at_once < config.backfill.in_flight and not many:
        log.warning("one part at a time: %s takes one writer", config.store.uri)
    runner = _BackfillRunner(_divide_limits(config, at_once), parts, at_once, alone=not many)
    if _is_in_turn(config, at_once):
        left = await runner.judge()
    else:
        left = await runner.judge_then_compare()
    ended = runner.in_order(parts)
    await publish_parts(config.name, ended)
    fail = config.runner.fail_flow
    return conclude_parts(config.name, ended, left, fail=fail, empty_counts=False)


def _divide_limits(config: RunConfig, at_once: int) -> RunConfig:
    """Each of the parts that are judged at once has its share of what this process may press the
    providers; limits that runs share by name are kept by the server.
    """
    if at_once == 1:
        return config
    limits = config.limits
    shares: dict[str, Any] = {"max_in_flight": max(1, limits.max_in_flight // at_once)}
    for name in ("requests_per_minute", "tokens_per_minute"):
        if limits.shared is None and (whole := getattr(limits, name)) is not None:
            shares[name] = max(1, whole // at_once)
    return config.model_copy(update={"limits": limits.model_copy(update=shares)})


def _is_in_turn(config: RunConfig, at_once: int) -> bool:
    """Whether each part ends after those that its baseline is one of, or has a fixed one."""
    if config.comparison.baseline not in RULES:
        return True
    return at_once == 1 and config.backfill.order == "oldest"


class _BackfillRunner:
    """The parts that are being judged, and what became of the others."""

    def __init__(
        self, config: RunConfig, parts: Sequence[RunPart], at_once: int, *, alone: bool
    ) -> None:
        self._alone = alone
        self._config = config
        self._waiting = list(parts)
        self._total = len(parts)
        self._at_once = at_once
        self._pending: dict[asyncio.Task[PartOutcome], RunPart] = {}
        self._ended: dict[str, PartOutcome] = {}
        self._failing = 0
        self._progress = ProgressArtifact(f"assizes-backfill-progress-{artifact_key(config.name)}")
        self._stopped = False

    def in_order(self, parts: Sequence[RunPart]) -> list[PartOutcome]:
        """What became of the parts that were begun."""
        return [self._ended[part.label] for part in parts if part.label in self._ended]

    async def judge(self) -> list[RunPart]:
        """Judge them all, or as many as can be; those that were not begun."""
        progress_reporter.get()("days", 0, self._total)
        try:
            while self._pending or (self._waiting and not self._stopped):
                await self._begin_parts()
                await self._wait_for_part()
        finally:
            for task in self._pending:
                task.cancel()
            await asyncio.gather(*self._pending, return_exceptions=True)
        await self._progress.flush()
        return self._waiting

    async def judge_then_compare(self) -> list[RunPart]:
        """Judge them, then set their runs beside their baselines, the earliest day first. What lies
        behind a part that was not begun is compared when that has been judged as well.
        """
        everything = sorted(self._waiting, key=lambda candidate: candidate.day or date.min)
        token = is_comparison_deferred.set(True)
        try:
            left = await self.judge()
        finally:
            is_comparison_deferred.reset(token)
        for part in everything:
            if part in left:
                log.warning("%s and on: compared once that is judged", part.label)
                break
            ended = self._ended[part.label]
            if ended.run_id is not None and ended.conclusion in COMPLETE_CONCLUSIONS:
                compared_outcome = await judge_part(self._config, "backfill", part, ended.run_id)
                self._ended[part.label] = compared_outcome
        return left

    async def _begin_parts(self) -> None:
        free = self._at_once - len(self._pending)
        if self._stopped or not free or not self._waiting:
            return
        busy_days = set() if self._alone else await self._busy_days()
        for part in [candidate for candidate in self._waiting if candidate.day not in busy_days][
            :free
        ]:
            self._waiting.remove(part)
            work = asyncio.create_task(judge_part(self._config, "backfill", part))
            self._pending[work] = part

    async def _busy_days(self) -> set[date]:
        """The days on which somebody else is at work: asking the same twice would be paid twice."""
        days = {part.day for part in self._waiting if part.day is not None}
        return await asyncio.to_thread(days_in_progress, self._config, days) if days else set()

    async def _wait_for_part(self) -> None:
        """Wait until a part has ended, or a while where others are at work on all that is left."""
        if not self._pending:
            await asyncio.sleep(POLL_INTERVAL_S if self._waiting else 0)
            return
        finished, _ = await asyncio.wait(
            self._pending, timeout=POLL_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED
        )
        for task in finished:
            del self._pending[task]
            await self._record_outcome(task.result())

    async def _record_outcome(self, outcome: PartOutcome) -> None:
        self._ended[outcome.part] = outcome
        self._failing = self._failing + 1 if outcome.conclusion == "Incomplete" else 0
        stops = (
            outcome.conclusion in ("Halted", "OverBudget") or self._failing >= MAX_FAILURES_IN_A_ROW
        )
        self._stopped = self._stopped or stops
        done = len(self._ended)
        paid = total_cost_usd(list(self._ended.values()))
        cost = "" if paid is None else f", {paid:.4f} USD so far"
        line = f"{outcome.part}: {outcome.conclusion}, {outcome.cases} cases"
        log.info("%s (%d of %d%s)", line, done, self._total, cost)
        progress_reporter.get()("days", 1, 0)
        await self._progress.update(done / self._total, f"{done} of {self._total}{cost}; {line}")


async def publish_parts(name: str, parts: Sequence[PartOutcome]) -> None:
    """Show what became of the parts, where the server is there."""
    rows = [
        {
            "part": part.part,
            "run": part.run_id or "",
            "conclusion": part.conclusion,
            "cases": part.cases,
            "quarantined": part.quarantined,
            "pass rate %": part.cases_pass_rate_pct,
            "score": part.weighted_metrics_score_pct,
            "cost USD": part.cost_usd,
        }
        for part in parts
    ]
    with ignore_server_errors("the table of days"):
        await acreate_table_artifact(rows, key=f"assizes-backfill-{artifact_key(name)}")
