"""`assizes run`: check everything that can be checked, then hand over to the flow."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

from deployments.commands.output import print_json, print_outcome
from deployments.server import running_server
from deployments.settings import configured_api_url, prepare_environment
from judge.catalog import court
from judge.config import RunConfig, Trigger
from judge.llm import check_model
from tasks.objects import expand, list_sources
from tasks.store import open_store

if TYPE_CHECKING:
    from flows.outcome import RunOutcome


@dataclass(frozen=True, slots=True)
class Wanted:
    """One evaluation as asked for on the command line."""

    config: RunConfig
    run_id: str | None = None
    on: date | None = None
    trigger: Trigger = "adhoc"


def run_evaluation(wanted: Wanted, *, as_json: bool, verbose: bool) -> int:
    """Run one evaluation and print its outcome.

    Returns:
        The exit code of the outcome.
    """
    preflight(wanted)
    (outcome,) = evaluations([wanted], verbose=verbose)
    if as_json:
        print_json(outcome.model_dump(mode="json"))
    else:
        print_outcome(outcome)
    return outcome.exit_code


def preflight(wanted: Wanted) -> None:
    """Everything that can be wrong before a server starts or money is spent.

    Raises:
        AssizesError: with the first fault found.
    """
    config = wanted.config
    court(config.judge)
    check_model(config.judge)
    list_sources(expand(config.transcripts.uri, wanted.on), config.transcripts.storage_options)
    with open_store(config.store, writing=True) as store:
        baseline = config.comparison.baseline
        if baseline is not None and baseline != "latest":
            store.run(baseline)


def evaluations(wanted: list[Wanted], *, verbose: bool) -> list[RunOutcome]:
    """Run evaluations one after another on one Prefect server and return their outcomes."""
    server = None if configured_api_url() else running_server()
    prepare_environment(verbose=verbose, api_url=server.api_url if server else None)
    if server is None and configured_api_url() is None:
        _say("starting a temporary Prefect server (12 to 20 s; `assizes up` keeps one running)")
    with _progress():
        return asyncio.run(_evaluate_all(wanted))


async def _evaluate_all(wanted: list[Wanted]) -> list[RunOutcome]:
    from flows.evaluate import evaluate

    outcomes = []
    for one in wanted:
        # Prefect types an async flow called with return_state as if it had been awaited already.
        work: Any = evaluate(
            one.config, one.trigger, run_id=one.run_id, on=one.on, return_state=True
        )
        outcome = await (await work).aresult(raise_on_failure=False)
        if isinstance(outcome, BaseException):
            raise outcome
        outcomes.append(outcome)
    return outcomes


@contextlib.contextmanager
def _progress() -> Iterator[None]:
    """A progress bar on a terminal's stderr; elsewhere nothing but the log."""
    if not sys.stderr.isatty():
        yield
        return
    from deployments.commands.progress import watching

    with watching():
        yield


def _say(line: str) -> None:
    sys.stderr.write(f"assizes: {line}\n")
    sys.stderr.flush()
