"""Commands that begin other runs than `run`: check beforehand, run the flow, print.

They raise `AssizesError` for what is wrong beforehand, and the error of the flow.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator, Sequence
from datetime import date
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

from assizes.deployments.commands import output, run
from assizes.deployments.settings import stored_config
from assizes.deployments.terminal import StderrLines, is_json_log, tell_user
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.verdicts.run_outcome import WORDS
from assizes.tasks.intake.plan import Plan, ScanPolicy
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.intake.run_sources import backfill_parts, check_dated
from assizes.tasks.intake.series_requests import check_has_begun, check_range, check_version
from assizes.tasks.intake.shards import plan_intake
from assizes.tasks.reports.formatting import plural
from assizes.tasks.runs.record_selectors import rerun_selector
from assizes.tasks.sources.spool import Spool
from assizes.tasks.store import open_store

if TYPE_CHECKING:
    from assizes.flows.nightly import SeriesOutcome

PROGRESS_LOGGERS: Final = ("assizes.flows.backfill", "assizes.flows.after_deployment")
"""Loggers whose INFO lines tell a waiting person how far a flow is."""


def run_nightly(config: RunConfig, on: date | None, *, as_json: bool, verbose: bool) -> int:
    """Judge a day, or the days that are due; print a table, return the severest exit code."""
    check_dated(config.transcripts.uri)
    if on:
        check_has_begun(on, config.nightly.time_zone)
    result = _checked_result("nightly.nightly", config, on, verbose=verbose)
    return _print_series(result, as_json=as_json)


def run_after_deployment(
    config: RunConfig,
    version: str,
    agent: str | None,  # None: any agent
    min_transcripts: int | None,  # None: as configured
    *,
    as_json: bool,
    verbose: bool,
) -> int:
    """Judge a deployed version beside the one before, print the outcome, return its exit code."""
    check_version(version, agent)
    flow = "after_deployment.after_deployment"
    outcome = _checked_result(flow, config, version, agent, min_transcripts, verbose=verbose)
    return output.print_outcome(outcome, as_json=as_json)


def run_backfill(
    config: RunConfig,
    days: tuple[date | None, date | None],  # first and last, both judged; no last: yesterday
    uris: list[str] | None,  # instead of days
    *,
    as_json: bool,
    verbose: bool,
) -> int:
    """Judge each day or URI as a run; print a table, return the severest exit code."""
    check_range(*days, config.nightly.time_zone)
    backfill_parts(config, *days, uris)  # raises for a range or a URI that cannot be used
    result = _checked_result("backfill.backfill", config, *days, uris, verbose=verbose)
    return _print_series(result, as_json=as_json)  # days without data do not count


def _checked_result(flow: str, config: RunConfig, *more: Any, verbose: bool) -> Any:
    """Check the places of a run, find a Prefect server, and return the result of a flow."""
    run.check_places(config)
    run.find_server(verbose=verbose)  # sets the environment that Prefect reads at its import
    module, function = flow.split(".")  # below assizes.flows

    async def call_flow() -> Any:
        imported = import_module(f"assizes.flows.{module}")
        return await run.flow_outcome(getattr(imported, function), config, *more)

    with _show_progress_lines(), run.progress_bar():
        return run.run_flows(call_flow())


@contextlib.contextmanager
def _show_progress_lines() -> Iterator[None]:
    """Print the INFO lines of `PROGRESS_LOGGERS` to stderr, unless the log is JSON and has them."""
    if is_json_log():
        yield
        return
    handler = StderrLines(logging.INFO)
    handler.addFilter(lambda record: record.levelno == logging.INFO)  # `main` prints the rest
    loggers = [logging.getLogger(name) for name in PROGRESS_LOGGERS]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


def _print_series(outcome: SeriesOutcome, *, as_json: bool) -> int:
    if as_json:
        output.print_json(outcome.model_dump(mode="json"))
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
    output.print_table("", columns, rows)
    if (cost := outcome.cost_usd) is not None:
        output.print_line(f"judge cost, over all sessions of these runs: {cost:.4f} USD")
    output.print_ending(WORDS[outcome.conclusion], outcome.reasons)
    return outcome.exit_code


_SUFFIXES: Final = {"quarantined": "-rejected", "errored": "-errors"}
"""Suffix of the new run's name."""
_NAME_CHARS: Final = 63
"""Most characters of a run's name."""
_UNSET = ("limit", "number", "per_stratum")  # bounds on how many
_ALL: Final[dict[str, Any]] = {**dict.fromkeys(_UNSET), "stratify_by": []}
_SAMPLE_SETTINGS: Final = {"quarantined": _ALL, "errored": {**_ALL, "sample": 1.0}}
"""Sampling settings of the new run, which takes everything that is left.

Only the share `sample` still holds for quarantined records: the sample may not contain them. Cases
with an error were in the sample.
"""

Only = Literal["quarantined", "errored"]


def errored_run(run_id: str | None, *, others: bool) -> str:
    """The run of `--only-errors`; `others`: options were given that the stored run decides.

    Raises:
        ConfigurationError: no run is named, or such an option was given.
    """
    if run_id is None or others:
        hint = "the run keeps its own configuration, and --set changes a setting"
        raise ConfigurationError(f"--only-errors: use `assizes resume RUN --errors`; {hint}")
    return run_id


def rerun_remaining(
    selection: tuple[str, Only],  # name of a stored run; what to judge
    store: StoreConfig,  # where the run is
    overrides: Sequence[str],  # --set pairs, over the stored configuration
    *,
    as_json: bool,
    verbose: bool,
    dry_run: bool = False,  # only read and count, return 0
) -> int:
    """Judge what a stored run could not, as a new run by its configuration; returns the exit code.

    Raises:
        ConfigurationError: the stored run has no quarantined records, or no cases with an error.
        Inconclusive: none of them can be judged now.
    """
    run_id, only = selection
    config, before = _config(run_id, only, store, overrides)
    with open_store(config.store) as opened:
        choice = rerun_selector(opened, config.transcripts.again)
    with Spool.of(config.transcripts) as spool:
        handling = ScanPolicy(choice, CasePreprocessor.from_config(config))
        plan = plan_intake(config.transcripts, config.shard_size, spool, policy=handling)
    counts: dict[str, Any] = {
        "of": before,
        "only": only,
        "sought": before[only],  # how many the stored run could not judge
        "due": plan.due,  # how many of them can be judged now
        "still_quarantined": plan.rejected,
        "duplicate": plan.duplicates,
        "reasons": plan.reasons,
        "objects": plan.objects,
    }
    if dry_run:
        if as_json:
            output.print_json(counts)
        else:
            output.print_line(_counts_line(counts))
        return 0
    tell_user(_counts_line(counts))
    return run.run_evaluation(run.RunOptions(config), as_json=as_json, verbose=verbose)


def _config(
    run_id: str, only: Only, store: StoreConfig, overrides: Sequence[str]
) -> tuple[RunConfig, dict[str, Any]]:
    """The configuration of the new run, and the counts of the stored run."""
    with open_store(store) as opened:
        record = opened.run(run_id)
        errored = opened.table(record.run_id, "cases")["error"].count()  # those that are not null
    plan = Plan.from_dict(record.plan)
    before: dict[str, Any] = {
        "run_id": record.run_id,
        "status": record.status,
        "quarantined": plan.rejected,
        "reasons": dict(sorted(plan.reasons.items())),  # code -> records
        "errored": errored,  # cases
    }
    suffix = _SUFFIXES[only]  # once, also after a rerun of a rerun
    name = f"{record.name.removesuffix(suffix)[: _NAME_CHARS - len(suffix)]}{suffix}"
    settings: dict[str, dict[str, Any]] = {
        "transcripts": {**_SAMPLE_SETTINGS[only], "again": {"run": record.run_id, "only": only}},
        # Part of a run cannot be compared with a whole run, and replies that are missing from the
        # cache must be asked for even if the stored run only replayed.
        "comparison": {"baseline": None},
        "cache": {"use": "read_write"},
        "store": store.model_dump(),  # where it is now, not where it was when it was judged
    }
    snapshot = {**record.config, "name": name}
    return stored_config(snapshot, settings, overrides, f"run {record.run_id}"), before


def _counts_line(counts: dict[str, Any]) -> str:
    """The counts as a sentence: how many the stored run could not judge, how many are due now."""

    def with_reasons(number: int, reasons: dict[str, int]) -> str:
        listed = ", ".join(f"{code} {count}" for code, count in reasons.items())
        return f"{plural(number, 'record')} ({listed})" if listed else plural(number, "record")

    before, due = counts["of"], counts["due"]
    if counts["only"] == "errored":
        gone = counts["sought"] - due
        suffix = f"; the transcripts of {gone} were changed or removed since" if gone > 0 else ""
        cases = plural(counts["sought"], "case")
        return f"run {before['run_id']} has {cases} with an error; {due} can be judged now{suffix}"
    rejected = with_reasons(counts["sought"], before["reasons"])
    still = with_reasons(counts["still_quarantined"], counts["reasons"])
    return f"run {before['run_id']} rejected {rejected}; {due} can be judged now, {still} cannot"
