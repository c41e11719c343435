"""`assizes run` and `resume`: check what can be checked beforehand, then run the flow."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from assizes.deployments.commands.output import print_outcome
from assizes.deployments.commands.stores import store_config
from assizes.deployments.server import find_api_url
from assizes.deployments.settings import prepare_environment, stored_config
from assizes.deployments.terminal import is_json_log, tell_user
from assizes.judge.catalog import resolve_judges
from assizes.judge.config.run import RunConfig, StartMode
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import AssizesError, ConfigurationError, Halted, NotComparable, ServerDied
from assizes.judge.model_assignment import assign_callable_models
from assizes.judge.rows import COMPLETE
from assizes.tasks.distribute.partitions import check_distributable
from assizes.tasks.embedding.sentence_encoder import check_space
from assizes.tasks.intake.run_sources import expand
from assizes.tasks.runs.stored_runs import RULES, baseline_by_name
from assizes.tasks.runtime.places import write_probe
from assizes.tasks.runtime.process import interrupt_on_sigterm
from assizes.tasks.runtime.server_watch import end_with_server
from assizes.tasks.runtime.temporary_server import start_tied_server
from assizes.tasks.sources.listing import list_sources
from assizes.tasks.sources.trace_copies import check_trace_store
from assizes.tasks.spending.ledger_file import all_runs_stopped_at, probe_ledger
from assizes.tasks.store import open_store
from assizes.tasks.trace_stores.address import is_trace_store

T = TypeVar("T")

if TYPE_CHECKING:
    from assizes.flows.outcome import RunOutcome


@dataclass(frozen=True, slots=True)
class RunOptions:
    """One evaluation."""

    config: RunConfig
    run_id: str | None = None  # None: derived from configuration and input
    on: date | None = None  # day for date placeholders in the URI
    manner: StartMode = "begin"  # or "resume", or "fork": another run beside that of the id


def run_evaluation(wanted: RunOptions, *, as_json: bool, verbose: bool) -> int:
    """Run one evaluation, print its outcome and return its exit code; raises as `preflight` too."""
    preflight(wanted)
    (outcome,) = evaluations([wanted], verbose=verbose)
    return print_outcome(outcome, as_json=as_json)


def resume_options(
    run_id: str, file: Path | None, uri: str | None, overrides: Sequence[str]
) -> RunOptions:
    """The options that resume a stored run; file and `uri` (of `--store`) only name the store.

    Raises:
        UnknownRun: the store has no such run.
    """
    where = store_config(file, uri)
    with open_store(where) as store:
        record = store.run(run_id)
    store_settings = {"store": where.model_dump()}  # where it is now, as it may have moved
    config = stored_config(record.config, store_settings, overrides, f"run {record.run_id}")
    return RunOptions(config, record.run_id, manner="resume")


def preflight(wanted: RunOptions) -> None:
    """Check what can be checked before a server starts or money is spent.

    That is: the transcripts can be listed, a configured Prefect server answers, the models and
    their keys, the ledger, the anchors, the places to write to, and the baseline.

    Raises:
        AssizesError: the first fault; `NotComparable` for a baseline that is not complete.
    """
    config = wanted.config
    # A resumed run reads by its stored plan, a rerun (`again`) the objects of a stored run.
    if wanted.manner != "resume" and config.transcripts.again is None:
        _check_transcripts(config.transcripts, wanted.on)
    find_api_url()  # before the check of the store makes its file
    check_places(config)


def _check_transcripts(transcripts: TranscriptsConfig, day: date | None) -> None:
    """Check that the transcripts can be listed; a trace store is asked for the project only."""
    uri = expand(transcripts.uri, day)
    if is_trace_store(uri):
        check_trace_store(transcripts)
    else:
        list_sources(uri, transcripts.storage_options)


def check_places(config: RunConfig) -> None:
    """Check models and keys, ledger, anchors, the places to write to, and the baseline.

    The transcripts are not looked at: triggered runs find theirs later.

    Raises:
        AssizesError: as `preflight`.
    """
    if config.runner.kind != "local":
        check_distributable(config)
    check_space(config.causes)
    if assign_callable_models(config, resolve_judges(config.judge)).has_paid_calls:
        ledger = config.limits.ledger
        probe_ledger(ledger)
        if (at := all_runs_stopped_at(ledger)) is not None:
            raise Halted(
                f"[limits] ledger {ledger!r}: all runs were stopped at {at}; `assizes stop --lift` "
                "lets them begin again"
            )
    if config.anchors.uri is not None:
        list_sources(config.anchors.uri, config.transcripts.storage_options)
    write_probe(config.cache.uri, config.cache.storage_options, "[cache] uri")
    write_probe(config.report.uri, config.report.storage_options, "[report] uri")
    baseline = config.comparison.baseline
    with open_store(config.store, writing=True) as store:  # proves that rows can be written
        # A rule only picks complete runs.
        is_absent = baseline is None or baseline in RULES
        record = None if is_absent else baseline_by_name(store, str(baseline))
    if record is not None and record.status != COMPLETE:
        raise NotComparable(
            f"baseline run {record.run_id!r} is {record.status}; finish it with `assizes resume "
            f"{record.run_id}`, or name another with --baseline"
        )


def cache_use(*, refresh: bool, replay_only: bool) -> str | None:
    """The value of `[cache] use` for two options; `None` without them: as configured.

    Raises:
        ConfigurationError: both options are given.
    """
    if refresh and replay_only:
        raise ConfigurationError("--refresh asks anew, --replay-only asks nothing: give one")
    return "refresh" if refresh else "replay_only" if replay_only else None


def evaluations(wanted: Iterable[RunOptions], *, verbose: bool) -> list[RunOutcome]:
    """Run evaluations one after another on one Prefect server and return their outcomes.

    The next one is asked for when the one before has ended.

    Raises:
        AssizesError: the first error that ended an evaluation, or the server does not answer.
    """
    find_server(verbose=verbose)

    async def evaluate_all() -> list[RunOutcome]:
        from assizes.flows.evaluate import evaluate  # imports Prefect: after `find_server`

        outcomes = []
        for each in wanted:
            arguments = (each.config, "adhoc", each.run_id, each.on, each.manner)
            outcomes.append(await flow_outcome(evaluate, *arguments, more_tags=("adhoc",)))
        return outcomes

    with progress_bar():
        return run_flows(evaluate_all())


def run_flows(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that calls flows in a new event loop; SIGTERM ends it as Ctrl-C does.

    If the Prefect server dies, the process ends with one line and the exit code of `ServerDied`.

    Raises:
        KeyboardInterrupt: SIGTERM or SIGINT came.
    """
    from prefect.exceptions import TerminationSignal
    from prefect.settings import PREFECT_API_URL

    async def watched() -> T:
        try:
            return await end_with_server(work, PREFECT_API_URL.value())
        except ServerDied as error:
            end_now(error)

    try:
        with interrupt_on_sigterm():
            return asyncio.run(watched())
    except TerminationSignal:  # SIGTERM came while Prefect itself began or ended the flow
        raise KeyboardInterrupt from None


def end_now(error: AssizesError) -> NoReturn:
    """Say what ends this process, and end it at once: Prefect would wait for its server for minutes.

    Shards are committed whole and replies kept as they come, so nothing is lost that `kill` would
    not lose too.
    """
    tell_user(f"{error}; {error.remedy}", error=error)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(error.exit_code)


def find_server(*, verbose: bool) -> None:
    """Make Prefect use the configured server, else that of `assizes up`, else a temporary one.

    Raises:
        ConfigurationError: the configured Prefect server does not answer.
    """
    api_url = find_api_url()
    prepare_environment(verbose=verbose, api_url=api_url)
    if api_url is None:
        hint = "12 to 20 s; `assizes up` keeps one running"
        tell_user(f"starting a temporary Prefect server ({hint})")
        start_tied_server()


# `Any`: Prefect types an async flow called with `return_state` as if it had been awaited already.
async def flow_outcome(flow: Any, *arguments: Any, more_tags: Sequence[str] = ()) -> Any:
    """Run an async flow with these arguments; returns its result, or raises what ended it."""
    from prefect import tags

    from assizes.tasks.publish_report import TAG

    with tags(TAG, *more_tags):  # of the flow run
        state = await flow(*arguments, return_state=True)
    outcome = await state.aresult(raise_on_failure=False)
    if isinstance(outcome, BaseException):  # its class gives the exit code
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
