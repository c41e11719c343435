"""`assizes run` and `resume`: check all that can be checked beforehand, then run the flow."""

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
from assizes.tasks.intake.days import expand
from assizes.tasks.runs.baselines import RULES
from assizes.tasks.runtime.places import write_probe
from assizes.tasks.runtime.termination import interrupt_on_sigterm
from assizes.tasks.sources.listing import list_sources
from assizes.tasks.spending.ledger_file import all_runs_stopped_at, probe_ledger
from assizes.tasks.store import Store, open_store

T = TypeVar("T")

if TYPE_CHECKING:
    from assizes.flows.outcome import RunOutcome


@dataclass(frozen=True, slots=True)
class RunOptions:
    """One evaluation.

    Attributes:
        config: its configuration.
        run_id: id of the run; `None`: derived from the input.
        on: day for date placeholders in the transcripts' URI.
        trigger: recorded with the run.
        manner: begin a run, resume it, or fork it.
    """

    config: RunConfig
    run_id: str | None = None
    on: date | None = None
    trigger: Trigger = "adhoc"
    manner: StartMode = "begin"


def run_evaluation(wanted: RunOptions, *, as_json: bool, verbose: bool) -> int:
    """Run one evaluation and print its outcome.

    Returns:
        The exit code of the outcome.

    Raises:
        AssizesError: as `preflight`, and every error of the run itself.
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
    """The options that resume a stored run, with its stored configuration.

    Args:
        run_id: the run id, or a unique beginning of it.
        file: configuration file; it only names the store.
        uri: value of `--store`.
        overrides: `--set` pairs over the stored configuration.

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
    """Check what can be checked before a server starts or money is spent.

    Raises:
        AssizesError: the first fault; `NotComparable` for a baseline that is not complete.
    """
    config = wanted.config
    if wanted.manner != "resume" and config.transcripts.again is None:
        uri = expand(config.transcripts.uri, wanted.on)
        list_sources(uri, config.transcripts.storage_options)
    check_places(config)


def check_places(config: RunConfig) -> None:
    """Check models and keys, ledger, anchors, the places to write to, and the baseline.

    The transcripts are not looked at: triggered runs find theirs later.

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
    """The value of `[cache] use` for two options; `None` without them: as configured.

    Raises:
        ConfigurationError: both options are given.
    """
    if refresh and replay_only:
        raise ConfigurationError("--refresh asks anew, --replay-only asks nothing: give one")
    return "refresh" if refresh else "replay_only" if replay_only else None


def check_ledger(config: RunConfig) -> None:
    """Check that model calls can be counted and that `assizes stop --all` does not hold.

    Raises:
        ConfigurationError: the ledger cannot be written.
        Halted: all runs are stopped.
    """
    ledger = config.limits.ledger
    probe_ledger(ledger)
    if (at := all_runs_stopped_at(ledger)) is not None:
        raise Halted(
            f"[limits] ledger {ledger!r}: all runs were stopped at {at}; `assizes stop --lift` lets "
            "them begin again"
        )


def _check_baseline(store: Store, baseline: str | None) -> None:
    """Check that a baseline given by its run id is complete; a rule only picks complete runs.

    Raises:
        UnknownRun: the store has no such run.
        NotComparable: the run is not complete.
    """
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
        ConfigurationError: the configured Prefect server does not answer.
        AssizesError: the first error that ended an evaluation.
    """
    find_server(verbose=verbose)
    with progress_bar():
        return run_flows(_evaluate_all(wanted))


def run_flows(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that calls flows in a new event loop; SIGTERM ends it as Ctrl-C does.

    Returns:
        The coroutine's result.

    Raises:
        KeyboardInterrupt: SIGTERM or SIGINT came.
    """
    from prefect.exceptions import TerminationSignal

    try:
        with interrupt_on_sigterm():
            return asyncio.run(work)
    except TerminationSignal:  # SIGTERM came while Prefect itself began or ended the flow
        raise KeyboardInterrupt from None


def find_server(*, verbose: bool) -> None:
    """Make Prefect use the configured server, else that of `assizes up`, else a temporary server.

    Args:
        verbose: show Prefect's log.

    Raises:
        ConfigurationError: the configured Prefect server does not answer.
    """
    api_url = find_api_url()
    prepare_environment(verbose=verbose, api_url=api_url)
    if api_url is None:
        tell_user(
            "starting a temporary Prefect server (12 to 20 s; `assizes up` keeps one running)"
        )


async def _evaluate_all(wanted: list[RunOptions]) -> list[RunOutcome]:
    from assizes.flows.evaluate import evaluate

    outcomes = []
    for options in wanted:
        arguments = (options.config, options.trigger, options.run_id, options.on, options.manner)
        outcomes.append(await flow_outcome(evaluate, *arguments, more_tags=(options.trigger,)))
    return outcomes


async def flow_outcome(flow: Any, *arguments: Any, more_tags: Sequence[str] = ()) -> Any:
    """Run an async flow and return its result.

    Args:
        flow: the flow. Prefect types an async flow called with `return_state` as if it had been
            awaited already, hence `Any`.
        arguments: positional arguments of the flow.
        more_tags: tags of the flow run, beside the tag of this package.

    Raises:
        AssizesError: the error that ended the flow, whose class gives the exit code.
    """
    from prefect import tags

    from assizes.tasks.publish_report import TAG

    with tags(TAG, *more_tags):
        state = await flow(*arguments, return_state=True)
    outcome = await state.aresult(raise_on_failure=False)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


@contextlib.contextmanager
def progress_bar() -> Iterator[None]:
    """Show a progress bar in this block, unless stderr is no terminal or the log is JSON."""
    if is_json_log() or not sys.stderr.isatty():
        yield
        return
    from assizes.deployments.commands.progress import show_progress_bar

    with show_progress_bar():
        yield
