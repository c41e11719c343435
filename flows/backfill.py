"""The flow `backfill`: a run for each day of a range, or for each URI of a list."""

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

from assizes.flows.nightly import (
    PartOutcome,
    SeriesOutcome,
    conclude_parts,
    judge_part,
    total_cost_usd,
)
from assizes.flows.server import finds_server
from assizes.judge.config.run import RunConfig
from assizes.tasks.context.artifacts import ProgressArtifact, artifact_key, ignore_server_errors
from assizes.tasks.context.run_context import progress_reporter
from assizes.tasks.intake.run_sources import RunPart, backfill_parts
from assizes.tasks.intake.series_requests import check_range
from assizes.tasks.list_due_nights import can_have_many_writers, days_in_progress
from assizes.tasks.runs.stored_runs import LOCK_DURATION_S, RULES
from assizes.tasks.runtime.process import redacts_secrets

log = logging.getLogger(__name__)

POLL_INTERVAL_S: Final = 2.0
"""Seconds between two looks whether another process has finished with a day that is left."""

COMPLETE_CONCLUSIONS: Final = frozenset(
    {"Passed", "GateFailed", "Regression", "NotComparable", "Inconclusive"}
)
"""Conclusions of runs that are complete and have cases."""

MAX_FAILURES_IN_A_ROW: Final = 3  # incomplete parts in a row after which no further part is begun


def _run_name() -> str:
    parameters = flow_run.parameters
    days = f"{parameters.get('since')}..{parameters.get('until') or ''}"
    what = f"{len(uris)}-places" if (uris := parameters.get("uris")) else days
    return f"backfill-{parameters['config'].name}-{what}"


@redacts_secrets
@finds_server
@flow(name="backfill", flow_run_name=_run_name, result_serializer="json")
async def backfill(
    config: RunConfig,
    since: date | None = None,
    until: date | None = None,
    uris: list[str] | None = None,
) -> State[SeriesOutcome]:
    """Judge every day of a range, or every URI of a list, as a run of its own.

    A finished part costs nothing again, so the same backfill goes on where it was cancelled. An
    error in one part does not end the others, unless the budget is spent, somebody stopped the runs,
    or three parts in a row could not be judged to the end. A day that another process is judging is
    left for later; runs that look at their baselines on the way (`[sampling]`) wait for it instead.

    Args:
        config: everything about the runs; `[backfill]` says how many at once and in which order.
        since: the first day.
        until: the last day; None: yesterday, in the time zone of `[nightly]`.
        uris: instead of days, the transcripts' URIs to read, in this order.

    Returns:
        A state named for the severest conclusion, without counting parts that have no data; its
        data is the `SeriesOutcome`. A table artifact shows the parts.

    Raises:
        ConfigurationError: neither days nor URIs were given, or both; or the range is empty, too
            long or ends in the future, or the transcripts' URI has no placeholder for a day.
    """
    check_range(since, until, config.nightly.time_zone)
    config = _in_turn_if_needed(config)
    parts = backfill_parts(config, since, until, uris)
    many_writers = await asyncio.to_thread(can_have_many_writers, config)
    at_once = min(config.backfill.in_flight if many_writers else 1, len(parts))
    if at_once < config.backfill.in_flight and not many_writers:
        log.warning(
            "one part at a time, because only one process can write to %s", config.store.uri
        )
    runner = _BackfillRunner(config, parts, at_once, alone=not many_writers)
    ended, left = await runner.judge()
    await publish_parts(config.name, ended)
    return conclude_parts(config, ended, left, no_data_counts=False)


def _waits_for_baselines(config: RunConfig) -> bool:
    """Whether a run cannot begin before its baseline has ended, because it looks at it on its way."""
    return config.sampling.stops and config.comparison.baseline in RULES


def _in_turn_if_needed(config: RunConfig) -> RunConfig:
    """The configuration with one part at a time, the oldest first, where runs look at their baselines."""
    settings = config.backfill.model_copy(update={"in_flight": 1, "order": "oldest"})
    if settings == config.backfill or not _waits_for_baselines(config):
        return config
    log.warning(
        '[sampling] until = "decided" with [comparison] baseline = "%s": each part is compared on its '
        "way with the one before it, so parts are judged one at a time, the oldest first",
        config.comparison.baseline,
    )
    return config.model_copy(update={"backfill": settings})


def _divide_limits(config: RunConfig, at_once: int) -> RunConfig:
    """The configuration of a part: its share of the rate limits when several are judged at once."""
    if at_once == 1:
        return config
    limits = config.limits
    shares: dict[str, Any] = {"max_in_flight": max(1, limits.max_in_flight // at_once)}
    for name in ("requests_per_minute", "tokens_per_minute"):
        # Limits that runs share by name stay whole: the Prefect server divides them.
        if limits.shared is None and (whole := getattr(limits, name)) is not None:
            shares[name] = max(1, whole // at_once)
    return config.model_copy(update={"limits": limits.model_copy(update=shares)})


class _BackfillRunner:
    """Judges the parts of a backfill, a few at a time, and collects their outcomes."""

    def __init__(
        self, config: RunConfig, parts: Sequence[RunPart], at_once: int, *, alone: bool
    ) -> None:
        """Begin nothing yet; the parts are begun in this order, at most `at_once` at a time."""
        self._alone = alone  # whether no other process can write to the store
        # Unless each part ends after every part that its baseline rule may choose, the runs are
        # compared after all are judged. A fixed baseline is in the store before the backfill.
        in_turn = at_once == 1 and config.backfill.order == "oldest"
        self._compares_later = config.comparison.baseline in RULES and not in_turn
        # The order is no setting of a run: its report must be the same in any order.
        settings = config.backfill.model_copy(update={"order": "oldest"})
        self._config = _divide_limits(config.model_copy(update={"backfill": settings}), at_once)
        self._parts = sorted(parts, key=lambda part: part.day or date.min)  # for lists
        self._waiting = list(parts)  # parts not begun
        self._at_once = at_once
        self._pending: dict[asyncio.Task[PartOutcome], RunPart] = {}
        self._ended: dict[str, PartOutcome] = {}  # by the label of the part
        self._failing = 0  # incomplete parts in a row
        self._progress = ProgressArtifact(f"assizes-backfill-progress-{artifact_key(config.name)}")
        self._stopped = False
        self._is_wait_told = (
            False  # whether a line said that days of another process are waited for
        )

    async def judge(self) -> tuple[list[PartOutcome], list[RunPart]]:
        """Judge all parts, or as many as possible; returns outcomes, and the parts not begun."""
        progress_reporter.get()("days", 0, len(self._parts))
        try:
            while self._pending or (self._waiting and not self._stopped):
                await self._begin_parts()
                await self._wait_for_part()
        finally:
            for task in self._pending:
                task.cancel()
            await asyncio.gather(*self._pending, return_exceptions=True)
        await self._progress.flush()
        if self._compares_later:
            await self._compare_parts()
        ended = [self._ended[part.label] for part in self._parts if part.label in self._ended]
        return ended, self._waiting

    async def _compare_parts(self) -> None:
        """Compare the complete runs with their baselines, the earliest day first."""
        for part in self._parts:
            # A later run might have the run of this part as its baseline.
            if part in self._waiting:
                log.warning("%s and on: compared once that is judged", part.label)
                break
            ended = self._ended[part.label]
            if ended.run_id is not None and ended.conclusion in COMPLETE_CONCLUSIONS:
                # A finished run is gone over by its stored plan, which costs no call.
                self._ended[part.label] = await judge_part(
                    self._config, "backfill", part, ended.run_id
                )

    async def _begin_parts(self) -> None:
        free = self._at_once - len(self._pending)
        if self._stopped or not free or not self._waiting:
            return
        # To judge a day that another process is judging would ask the same again, and pay twice.
        days = set() if self._alone else {part.day for part in self._waiting if part.day}
        busy = await asyncio.to_thread(days_in_progress, self._config, days) if days else set()
        # Where each part waits for the one before it, none is begun out of turn.
        next_parts = self._waiting[:1] if _waits_for_baselines(self._config) else self._waiting
        for part in [part for part in next_parts if part.day not in busy][:free]:
            self._waiting.remove(part)
            work = judge_part(self._config, "backfill", part, compares_later=self._compares_later)
            self._pending[asyncio.create_task(work)] = part

    async def _wait_for_part(self) -> None:
        """Wait up to `POLL_INTERVAL_S` until a part has ended, and record its outcome."""
        if not self._pending:
            # Every day that waits is judged by another process; it may be free later.
            self._tell_wait()
            await asyncio.sleep(POLL_INTERVAL_S if self._waiting else 0)
            return
        self._is_wait_told = False
        finished, _ = await asyncio.wait(
            self._pending, timeout=POLL_INTERVAL_S, return_when=asyncio.FIRST_COMPLETED
        )
        for task in finished:
            del self._pending[task]
            outcome = task.result()
            self._ended[outcome.part] = outcome
            self._failing = self._failing + 1 if outcome.conclusion == "Incomplete" else 0
            self._stopped |= outcome.conclusion in ("Halted", "OverBudget")
            self._stopped |= self._failing >= MAX_FAILURES_IN_A_ROW
            done, total = len(self._ended), len(self._parts)
            paid = total_cost_usd(list(self._ended.values()))
            cost = "" if paid is None else f", {paid:.4f} USD so far"
            line = f"{outcome.part}: {outcome.conclusion}, {outcome.cases} cases"
            log.info("%s (%d of %d%s)", line, done, total, cost)
            progress_reporter.get()("days", 1, 0)
            await self._progress.update(done / total, f"{done} of {total}{cost}; {line}")

    def _tell_wait(self) -> None:
        """Say once why nothing goes on: another process judges the days that are left."""
        if self._is_wait_told or not self._waiting:
            return
        self._is_wait_told = True
        days = [part.label for part in self._waiting]
        shown = ", ".join(days[:3]) + (f" and {len(days) - 3} more" if len(days) > 3 else "")
        log.warning(
            "waiting for another process that judges %s; if it died, its lock ends within %.0f s",
            shown,
            LOCK_DURATION_S,
        )


async def publish_parts(name: str, parts: Sequence[PartOutcome]) -> None:
    """Show the outcomes of the parts in a table artifact; an error of the server is ignored."""
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
