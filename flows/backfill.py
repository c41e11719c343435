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

from assizes.flows.days import PartOutcome, SeriesOutcome, conclude_parts, judge_part, spent
from assizes.judge.config.run import RunConfig
from assizes.tasks.context.run_context import watcher
from assizes.tasks.intake.parts import Part, backfill_parts
from assizes.tasks.list_due_nights import days_taken, takes_many
from assizes.tasks.reports.render.artifacts import artifact_key
from assizes.tasks.runs.baselines import RULES
from assizes.tasks.runtime.log_redaction import discreet
from assizes.tasks.runtime.progress import Progress, shown_at_best
from assizes.tasks.summarise import compares_later

log = logging.getLogger(__name__)

LOOK_S: Final = 2.0
"""How often a backfill that could go on looks whether another one has finished with a day."""

WHOLE: Final = ("Passed", "GateFailed", "Regression", "NotComparable", "Inconclusive")
"""How a part concludes whose run is complete and has cases."""

GIVEN_UP_AFTER: Final = 3
"""So many parts in a row that could not be judged to the end: the next would fare no better."""


def _named() -> str:
    given = flow_run.parameters
    config: RunConfig = given["config"]
    uris = given.get("uris")
    what = f"{len(uris)}-places" if uris else f"{given.get('since')}..{given.get('until') or ''}"
    return f"backfill-{config.name}-{what}"


@discreet
@flow(name="backfill", flow_run_name=_named, result_serializer="json")
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
    many = await asyncio.to_thread(takes_many, config)
    at_once = min(config.backfill.in_flight if many else 1, len(parts))
    if at_once < config.backfill.in_flight and not many:
        log.warning("one part at a time: %s takes one writer", config.store.uri)
    sitting = _Backfill(_shared_out(config, at_once), parts, at_once, alone=not many)
    if _in_turn(config, at_once):
        left = await sitting.judge()
    else:
        left = await sitting.judge_then_compare()
    ended = sitting.in_order(parts)
    await publish(config.name, ended)
    fail = config.runner.fail_flow
    return conclude_parts(config.name, ended, left, fail=fail, empty_counts=False)


def _shared_out(config: RunConfig, at_once: int) -> RunConfig:
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


def _in_turn(config: RunConfig, at_once: int) -> bool:
    """Whether each part ends after those that its baseline is one of, or has a fixed one."""
    if config.comparison.baseline not in RULES:
        return True
    return at_once == 1 and config.backfill.order == "oldest"


class _Backfill:
    """The parts that are being judged, and what became of the others."""

    def __init__(
        self, config: RunConfig, parts: Sequence[Part], at_once: int, *, alone: bool
    ) -> None:
        self._alone = alone
        self._config = config
        self._waiting = list(parts)
        self._total = len(parts)
        self._at_once = at_once
        self._pending: dict[asyncio.Task[PartOutcome], Part] = {}
        self._ended: dict[str, PartOutcome] = {}
        self._failing = 0
        self._progress = Progress(f"assizes-backfill-progress-{artifact_key(config.name)}")
        self._stopped = False

    def in_order(self, parts: Sequence[Part]) -> list[PartOutcome]:
        """What became of the parts that were begun."""
        return [self._ended[one.label] for one in parts if one.label in self._ended]

    async def judge(self) -> list[Part]:
        """Judge them all, or as many as can be; those that were not begun."""
        watcher.get()("days", 0, self._total)
        try:
            while self._pending or (self._waiting and not self._stopped):
                await self._begin()
                await self._look()
        finally:
            for one in self._pending:
                one.cancel()
            await asyncio.gather(*self._pending, return_exceptions=True)
        await self._progress.end()
        return self._waiting

    async def judge_then_compare(self) -> list[Part]:
        """Judge them, then set their runs beside their baselines, the earliest day first. What lies
        behind a part that was not begun is compared when that has been judged as well.
        """
        everything = sorted(self._waiting, key=lambda one: one.on or date.min)
        token = compares_later.set(True)
        try:
            left = await self.judge()
        finally:
            compares_later.reset(token)
        for part in everything:
            if part in left:
                log.warning("%s and on: compared once that is judged", part.label)
                break
            ended = self._ended[part.label]
            if ended.run_id is not None and ended.conclusion in WHOLE:
                again = await judge_part(self._config, "backfill", part, ended.run_id)
                self._ended[part.label] = again
        return left

    async def _begin(self) -> None:
        free = self._at_once - len(self._pending)
        if self._stopped or not free or not self._waiting:
            return
        taken = set() if self._alone else await self._taken()
        for part in [one for one in self._waiting if one.on not in taken][:free]:
            self._waiting.remove(part)
            work = asyncio.create_task(judge_part(self._config, "backfill", part))
            self._pending[work] = part

    async def _taken(self) -> set[date]:
        """The days on which somebody else is at work: asking the same twice would be paid twice."""
        days = {one.on for one in self._waiting if one.on is not None}
        return await asyncio.to_thread(days_taken, self._config, days) if days else set()

    async def _look(self) -> None:
        """Wait until a part has ended, or a while where others are at work on all that is left."""
        if not self._pending:
            await asyncio.sleep(LOOK_S if self._waiting else 0)
            return
        finished, _ = await asyncio.wait(
            self._pending, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED
        )
        for one in finished:
            del self._pending[one]
            await self._note(one.result())

    async def _note(self, outcome: PartOutcome) -> None:
        self._ended[outcome.part] = outcome
        self._failing = self._failing + 1 if outcome.conclusion == "Incomplete" else 0
        stops = outcome.conclusion in ("Halted", "OverBudget") or self._failing >= GIVEN_UP_AFTER
        self._stopped = self._stopped or stops
        done = len(self._ended)
        paid = spent(list(self._ended.values()))
        cost = "" if paid is None else f", {paid:.4f} USD so far"
        line = f"{outcome.part}: {outcome.conclusion}, {outcome.cases} cases"
        log.info("%s (%d of %d%s)", line, done, self._total, cost)
        watcher.get()("days", 1, 0)
        await self._progress.tell(done / self._total, f"{done} of {self._total}{cost}; {line}")


async def publish(name: str, parts: Sequence[PartOutcome]) -> None:
    """Show what became of the parts, where the server is there."""
    rows = [
        {
            "part": one.part,
            "run": one.run_id or "",
            "conclusion": one.conclusion,
            "cases": one.cases,
            "quarantined": one.quarantined,
            "pass rate %": one.cases_pass_rate_pct,
            "score": one.weighted_metrics_score_pct,
            "cost USD": one.cost_usd,
        }
        for one in parts
    ]
    with shown_at_best("the table of days"):
        await acreate_table_artifact(rows, key=f"assizes-backfill-{artifact_key(name)}")
