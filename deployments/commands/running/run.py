"""`assizes run`: check everything that can be checked, then hand over to the flow."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from assizes.deployments.commands.output import print_json, print_outcome
from assizes.deployments.commands.stores import store_config
from assizes.deployments.json_log import is_json_log, tell_user
from assizes.deployments.server import find_api_url
from assizes.deployments.settings import prepare_environment, stored_config
from assizes.judge.catalog import resolve_judges
from assizes.judge.config.run import RunConfig, StartMode, Trigger
from assizes.judge.errors import ConfigurationError, Halted, NotComparable
from assizes.judge.model_assignment import assign_callable_models
from assizes.judge.rows import COMPLETE
from assizes.tasks.distribute.partitions import check_distributable
from assizes.tasks.runs.baselines import RULES
from assizes.tasks.runtime.places import write_probe
from assizes.tasks.runtime.termination import interrupt_on_sigterm
from assizes.tasks.sources.objects import expand, list_sources
from assizes.tasks.spending.ledger_file import all_runs_stopped_at, probe_ledger
from assizes.tasks.store import Store, open_store

T = TypeVar("T")

if TYPE_CHECKING:
    from assizes.flows.outcome import RunOutcome


@dataclass(frozen=True, slots=True)
class RunOptions:
    """One evaluation as asked for on the command line."""

    config: RunConfig
    run_id: str | None = None
    on: date | None = None
    trigger: Trigger = "adhoc"
    manner: StartMode = "begin"


def run_evaluation(wanted: RunOptions, *, as_json: bool, verbose: bool) -> int:
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


def resume_options(
    run_id: str, file: Path | None, uri: str | None, overrides: Sequence[str]
) -> RunOptions:
    """A run that was begun before, with the configuration and the plan of that time.

    Raises:
        UnknownRun: the store has no such run.
    """
    where = store_config(file, uri)
    with open_store(where) as store:
        record = store.run(run_id)
    store_settings = {"store": where.model_dump()}
    config = stored_config(record.config, store_settings, overrides, f"run {record.run_id}")
    return RunOptions(config, record.run_id, manner="resume")


def preflight(wanted: RunOptions) -> None:
    """Everything that can be wrong before a server starts or money is spent.

    Raises:
        AssizesError: with the first fault found; NotComparable for a baseline not complete.
    """
    config = wanted.config
    if wanted.manner != "resume" and config.transcripts.again is None:
        uri = expand(config.transcripts.uri, wanted.on)
        list_sources(uri, config.transcripts.storage_options)
    check_places(config)


def check_places(config: RunConfig) -> None:
    """What can be wrong wherever the transcripts are: models and keys, ledger, anchors, the places
    that are written to, the baseline.

    Raises:
        AssizesError: as `preflight`.
    """
    if config.runner.kind != "local":
        check_distributable(config)
    if assign_callable_models(config, resolve_judges(config.judge)).has_paid_calls:
        check_ledger(config)
    if config.anchors.uri is not None:
        list_sources(config.anchors.uri, config.transcripts.storage_options)
    write_probe(config.cache.uri, config.cache.storage_options, "[cache] uri")
    write_probe(config.report.uri, config.report.storage_options, "[report] uri")
    with open_store(config.store, writing=True) as store:
        _check_baseline(store, config.comparison.baseline)


def cache_use(*, refresh: bool, replay_only: bool) -> str | None:
    """[cache] use by the two options; null: as configured.

    Raises:
        ConfigurationError: for both.
    """
    if refresh and replay_only:
        raise ConfigurationError("--refresh asks anew, --replay-only asks nothing: give one")
    return "refresh" if refresh else "replay_only" if replay_only else None


def check_ledger(config: RunConfig) -> None:
    """See that calls can be counted and that nobody has stopped all runs.

    Raises:
        ConfigurationError: the ledger cannot be written.
        Halted: `assizes stop --all` holds.
    """
    ledger = config.limits.ledger
    probe_ledger(ledger)
    if (at := all_runs_stopped_at(ledger)) is not None:
        raise Halted(
            f"[limits] ledger {ledger!r}: all runs were stopped at {at}; `assizes stop --lift` lets "
            "them begin again"
        )


def _check_baseline(store: Store, baseline: str | None) -> None:
    """Whether a baseline named by its id can be compared with; a rule takes one that can."""
    if baseline is None or baseline in RULES:
        return
    record = store.run(baseline)
    if record.status != COMPLETE:
        raise NotComparable(
            f"baseline run {record.run_id!r} is {record.status}; finish it with the command that "
            "began it, or name another with --baseline"
        )


def evaluations(wanted: list[RunOptions], *, verbose: bool) -> list[RunOutcome]:
    """Run evaluations one after another on one Prefect server and return their outcomes.

    Raises:
        ConfigurationError: when the configured Prefect server does not answer.
    """
    find_server(verbose=verbose)
    with progress_bar():
        return run_flows(_evaluate_all(wanted))


def run_flows(work: Coroutine[Any, Any, T]) -> T:
    """What flows come to, in an event loop of their own; SIGTERM ends them as Ctrl-C does."""
    from prefect.exceptions import TerminationSignal

    try:
        with interrupt_on_sigterm():
            return asyncio.run(work)
    except TerminationSignal:  # it came while Prefect began or ended the flow
        raise KeyboardInterrupt from None


def find_server(*, verbose: bool) -> None:
    """Have Prefect use the configured server, else that of `assizes up`, else a temporary one.

    Raises:
        ConfigurationError: when the configured Prefect server does not answer.
    """
    api_url = find_api_url()
    prepare_environment(verbose=verbose, api_url=api_url)
    if api_url is None:
        tell_user(
            "starting a temporary Prefect server (12 to 20 s; `assizes up` keeps one running)"
        )


async def _evaluate_all(wanted: list[RunOptions]) -> list[RunOutcome]:
    from prefect import tags

    from assizes.flows.evaluate import evaluate
    from assizes.tasks.publish_report import TAG

    outcomes = []
    for options in wanted:
        with tags(TAG, options.trigger):
            # Prefect types an async flow called with return_state as if it had been awaited.
            work: Any = evaluate(
                options.config,
                options.trigger,
                options.run_id,
                options.on,
                options.manner,
                return_state=True,
            )
            outcome = await (await work).aresult(raise_on_failure=False)
        if isinstance(outcome, BaseException):
            raise outcome
        outcomes.append(outcome)
    return outcomes


@contextlib.contextmanager
def progress_bar() -> Iterator[None]:
    """A progress bar on a terminal's stderr; elsewhere, and for programs, nothing but the log."""
    if is_json_log() or not sys.stderr.isatty():
        yield
        return
    from assizes.deployments.commands.progress import show_progress_bar

    with show_progress_bar():
        yield
