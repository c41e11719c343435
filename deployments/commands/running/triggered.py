"""`assizes nightly`, `after-deployment` and `backfill`: check what can be checked, run the flow, tell."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from assizes.deployments.commands.output import (
    Shown,
    print_conclusion,
    print_json,
    print_line,
    print_outcome,
    print_table,
)
from assizes.deployments.commands.running.run import check_places, find_server, progress, run_flows
from assizes.deployments.json_log import logs_json
from assizes.deployments.terminal import say
from assizes.judge.config.run import RunConfig
from assizes.tasks.intake.days import check_dated
from assizes.tasks.intake.parts import backfill_parts

if TYPE_CHECKING:
    from assizes.flows.days import SeriesOutcome
    from assizes.flows.outcome import RunOutcome

TOLD: Final = ("assizes.flows.backfill", "assizes.flows.after_deployment")
"""What these say of their progress is for whoever waits."""


@dataclass(frozen=True, slots=True)
class Version:
    """What was deployed, and how many transcripts of it are waited for; null: as configured."""

    version: str
    agent: str | None = None
    min_transcripts: int | None = None


@dataclass(frozen=True, slots=True)
class Stretch:
    """A range of days, or a list of places."""

    since: date | None = None
    until: date | None = None
    uris: list[str] | None = None


def run_nightly(config: RunConfig, on: date | None, shown: Shown) -> int:
    """Judge a night and print what it came to.

    Returns:
        The exit code of the severest conclusion.
    """
    check_dated(config.transcripts.uri)

    async def work() -> Any:
        from assizes.flows.nightly import nightly

        return await nightly(config, on, return_state=True)

    return _print_series(_reached(config, work, shown), shown)


def run_after_deployment(config: RunConfig, which: Version, shown: Shown) -> int:
    """Judge what was deployed and print the outcome.

    Returns:
        Its exit code.
    """

    async def work() -> Any:
        from assizes.flows.after_deployment import after_deployment

        given = (which.version, which.agent, which.min_transcripts)
        return await after_deployment(config, *given, return_state=True)

    outcome: RunOutcome = _reached(config, work, shown)
    if shown.as_json:
        print_json(outcome.model_dump(mode="json"))
    else:
        print_outcome(outcome)
    return outcome.exit_code


def run_backfill(config: RunConfig, stretch: Stretch, shown: Shown) -> int:
    """Judge a stretch of history and print a table of its parts.

    Returns:
        The exit code of the severest conclusion, parts without data aside.
    """
    given = (stretch.since, stretch.until, stretch.uris)
    backfill_parts(config, *given)

    async def work() -> Any:
        from assizes.flows.backfill import backfill

        return await backfill(config, *given, return_state=True)

    return _print_series(_reached(config, work, shown), shown)


def _reached(config: RunConfig, work: Callable[[], Awaitable[Any]], shown: Shown) -> Any:
    """What a flow returns.

    Raises:
        AssizesError: what it raises, or the first thing that is wrong beforehand.
    """
    check_places(config)
    find_server(verbose=shown.verbose)
    with _telling(), progress():
        return run_flows(_ended(work))


async def _ended(work: Callable[[], Awaitable[Any]]) -> Any:
    from prefect import tags

    from assizes.tasks.publish_report import TAG

    with tags(TAG):
        state = await work()
    outcome = await state.aresult(raise_on_failure=False)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


@contextlib.contextmanager
def _telling() -> Iterator[None]:
    """Lines of progress on stderr, for people and for the log of whatever runs the command."""
    if logs_json():
        yield
        return
    handler = _Lines(logging.INFO)
    handler.addFilter(lambda record: record.levelno == logging.INFO)
    loggers = [logging.getLogger(name) for name in TOLD]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


class _Lines(logging.Handler):
    """Wherever stderr leads now: a progress bar redirects it."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        say(record.getMessage())


def _print_series(outcome: SeriesOutcome, shown: Shown) -> int:
    if shown.as_json:
        print_json(outcome.model_dump(mode="json"))
        return outcome.exit_code
    rows = [
        (
            one.part,
            one.run_id,
            one.conclusion,
            str(one.cases),
            one.cases_pass_rate_pct,
            one.weighted_metrics_score_pct,
            None if one.cost_usd is None else f"{one.cost_usd:.4f}",
        )
        for one in outcome.parts
    ]
    columns = ("part", "run", "conclusion", "#cases", "#pass rate %", "#score", "#cost USD")
    print_table("", columns, rows)
    if outcome.cost_usd is not None:
        print_line(f"judge cost, over all sittings of these runs: {outcome.cost_usd:.4f} USD")
    print_conclusion(outcome.conclusion)
    for reason in outcome.reasons:
        print_line(reason)
    return outcome.exit_code
