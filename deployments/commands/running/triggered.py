"""`assizes nightly`, `after-deployment` and `backfill`: check what can be checked, run the flow, tell."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final

from assizes.deployments.commands.output import (
    OutputOptions,
    print_conclusion,
    print_json,
    print_line,
    print_outcome,
    print_table,
)
from assizes.deployments.commands.running.run import (
    check_places,
    find_server,
    progress_bar,
    run_flows,
)
from assizes.deployments.json_log import is_json_log
from assizes.deployments.terminal import print_stderr
from assizes.judge.config.run import RunConfig
from assizes.tasks.intake.days import backfill_parts, check_dated

if TYPE_CHECKING:
    from assizes.flows.days import SeriesOutcome
    from assizes.flows.outcome import RunOutcome

TOLD: Final = ("assizes.flows.backfill", "assizes.flows.after_deployment")
"""What these say of their progress is for whoever waits."""


@dataclass(frozen=True, slots=True)
class DeployedVersion:
    """What was deployed, and how many transcripts of it are waited for; null: as configured."""

    version: str
    agent: str | None = None
    min_transcripts: int | None = None


@dataclass(frozen=True, slots=True)
class BackfillSelection:
    """A range of days, or a list of places."""

    since: date | None = None
    until: date | None = None
    uris: list[str] | None = None


def run_nightly(config: RunConfig, on: date | None, output: OutputOptions) -> int:
    """Judge a night and print what it came to.

    Returns:
        The exit code of the severest conclusion.
    """
    check_dated(config.transcripts.uri)

    async def work() -> Any:
        from assizes.flows.nightly import nightly

        return await nightly(config, on, return_state=True)

    return _print_series(_flow_result(config, work, output), output)


def run_after_deployment(config: RunConfig, which: DeployedVersion, output: OutputOptions) -> int:
    """Judge what was deployed and print the outcome.

    Returns:
        Its exit code.
    """

    async def work() -> Any:
        from assizes.flows.after_deployment import after_deployment

        arguments = (which.version, which.agent, which.min_transcripts)
        return await after_deployment(config, *arguments, return_state=True)

    outcome: RunOutcome = _flow_result(config, work, output)
    if output.as_json:
        print_json(outcome.model_dump(mode="json"))
    else:
        print_outcome(outcome)
    return outcome.exit_code


def run_backfill(config: RunConfig, selection: BackfillSelection, output: OutputOptions) -> int:
    """Judge a stretch of history and print a table of its parts.

    Returns:
        The exit code of the severest conclusion, parts without data aside.
    """
    arguments = (selection.since, selection.until, selection.uris)
    backfill_parts(config, *arguments)

    async def work() -> Any:
        from assizes.flows.backfill import backfill

        return await backfill(config, *arguments, return_state=True)

    return _print_series(_flow_result(config, work, output), output)


def _flow_result(
    config: RunConfig, work: Callable[[], Awaitable[Any]], output: OutputOptions
) -> Any:
    """What a flow returns.

    Raises:
        AssizesError: what it raises, or the first thing that is wrong beforehand.
    """
    check_places(config)
    find_server(verbose=output.verbose)
    with _show_progress_lines(), progress_bar():
        return run_flows(_await_outcome(work))


async def _await_outcome(work: Callable[[], Awaitable[Any]]) -> Any:
    from prefect import tags

    from assizes.tasks.publish_report import TAG

    with tags(TAG):
        state = await work()
    outcome = await state.aresult(raise_on_failure=False)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


@contextlib.contextmanager
def _show_progress_lines() -> Iterator[None]:
    """Lines of progress on stderr, for people and for the log of whatever runs the command."""
    if is_json_log():
        yield
        return
    handler = _ProgressLines(logging.INFO)
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


class _ProgressLines(logging.Handler):
    """Wherever stderr leads now: a progress bar redirects it."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        print_stderr(record.getMessage())


def _print_series(outcome: SeriesOutcome, output: OutputOptions) -> int:
    if output.as_json:
        print_json(outcome.model_dump(mode="json"))
        return outcome.exit_code
    rows = [
        (
            part.part,
            part.run_id,
            part.conclusion,
            str(part.cases),
            part.cases_pass_rate_pct,
            part.weighted_metrics_score_pct,
            None if part.cost_usd is None else f"{part.cost_usd:.4f}",
        )
        for part in outcome.parts
    ]
    columns = ("part", "run", "conclusion", "#cases", "#pass rate %", "#score", "#cost USD")
    print_table("", columns, rows)
    if outcome.cost_usd is not None:
        print_line(f"judge cost, over all sittings of these runs: {outcome.cost_usd:.4f} USD")
    print_conclusion(outcome.conclusion)
    for reason in outcome.reasons:
        print_line(reason)
    return outcome.exit_code
