"""`assizes nightly`, `after-deployment` and `backfill`: check beforehand, run the flow, print."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator
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
    flow_outcome,
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

PROGRESS_LOGGERS: Final = ("assizes.flows.backfill", "assizes.flows.after_deployment")
"""Loggers whose INFO lines tell a waiting person how far a flow is."""


@dataclass(frozen=True, slots=True)
class DeployedVersion:
    """A version of an agent that was deployed.

    Attributes:
        version: `agent_version` of its transcripts.
        agent: name of the agent; `None`: any agent with that version.
        min_transcripts: transcripts to wait for; `None`: as configured.
    """

    version: str
    agent: str | None = None
    min_transcripts: int | None = None


@dataclass(frozen=True, slots=True)
class BackfillSelection:
    """The days of a backfill, both ends included; or the URIs of transcripts instead of days."""

    since: date | None = None
    until: date | None = None
    uris: list[str] | None = None


def run_nightly(config: RunConfig, on: date | None, output: OutputOptions) -> int:
    """Judge a day, or the days that are due, and print a table of the runs.

    Args:
        config: configuration of the runs.
        on: the day; `None`: yesterday and the nights that were missed.
        output: the output of the command.

    Returns:
        The exit code of the severest conclusion.

    Raises:
        AssizesError: what is wrong beforehand, or the error of the flow.
    """
    check_dated(config.transcripts.uri)

    async def call_flow() -> Any:
        from assizes.flows.nightly import nightly

        return await flow_outcome(nightly, config, on)

    return _print_series(_checked_result(config, call_flow, output), output)


def run_after_deployment(config: RunConfig, which: DeployedVersion, output: OutputOptions) -> int:
    """Judge a deployed version beside the version before and print the outcome.

    Returns:
        The exit code of the outcome.

    Raises:
        AssizesError: what is wrong beforehand, or the error of the flow.
    """

    async def call_flow() -> Any:
        from assizes.flows.after_deployment import after_deployment

        arguments = (which.version, which.agent, which.min_transcripts)
        return await flow_outcome(after_deployment, config, *arguments)

    outcome: RunOutcome = _checked_result(config, call_flow, output)
    if output.as_json:
        print_json(outcome.model_dump(mode="json"))
    else:
        print_outcome(outcome)
    return outcome.exit_code


def run_backfill(config: RunConfig, selection: BackfillSelection, output: OutputOptions) -> int:
    """Judge a range of days, a run for each day, and print a table of the runs.

    Returns:
        The exit code of the severest conclusion; days without data do not count.

    Raises:
        AssizesError: what is wrong beforehand, or the error of the flow.
    """
    arguments = (selection.since, selection.until, selection.uris)
    backfill_parts(config, *arguments)  # raises for a range or a URI that cannot be used

    async def call_flow() -> Any:
        from assizes.flows.backfill import backfill

        return await flow_outcome(backfill, config, *arguments)

    return _print_series(_checked_result(config, call_flow, output), output)


def _checked_result(
    config: RunConfig, call_flow: Callable[[], Coroutine[Any, Any, Any]], output: OutputOptions
) -> Any:
    """Check the places of a run, find a Prefect server, and return the result of a flow.

    The flow is imported inside `call_flow`: Prefect may be imported only once `find_server` has set
    its environment.
    """
    check_places(config)
    find_server(verbose=output.verbose)
    with _show_progress_lines(), progress_bar():
        return run_flows(call_flow())


@contextlib.contextmanager
def _show_progress_lines() -> Iterator[None]:
    """Print the INFO lines of `PROGRESS_LOGGERS` to stderr, unless the log is JSON and has them."""
    if is_json_log():
        yield
        return
    handler = _ProgressLines(logging.INFO)
    handler.addFilter(lambda record: record.levelno == logging.INFO)
    loggers = [logging.getLogger(name) for name in PROGRESS_LOGGERS]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


class _ProgressLines(logging.Handler):
    """Prints records as lines of the command; a `StreamHandler` would miss a redirected stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the message of a record as one line on stderr."""
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
