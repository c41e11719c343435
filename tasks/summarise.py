"""Summarises a run from its rows in the store, and compares it with its baseline."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, NamedTuple

import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE

from assizes.judge.catalog import CONVERSATION
from assizes.judge.comparison.compare import RunComparison
from assizes.judge.config.run import SUITE
from assizes.judge.errors import NotComparable
from assizes.judge.families.conversation_parts import TRUNCATED
from assizes.judge.formats.shared.parsing import fidelity_lines, warning_lines
from assizes.judge.history.anchors import Attribution
from assizes.judge.rows import COMPLETE, frame
from assizes.judge.summary.early_stop import EarlyStop
from assizes.judge.summary.run_intervals import population_numbers
from assizes.judge.summary.run_summary import RunSummary, run_metrics
from assizes.judge.summary.summary import reconcile, summarise, with_ledger
from assizes.judge.verdicts.case_rows import NOT_CHECKED
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.context.looks import early_stop
from assizes.tasks.context.run_context import PlannedRun, RunContext
from assizes.tasks.intake import shards
from assizes.tasks.intake.plan import HEARD_STATUSES
from assizes.tasks.reports.schema.causes import Causes
from assizes.tasks.runs import record_selectors
from assizes.tasks.runs.stored_comparison import baseline_id, compare_stored
from assizes.tasks.runs.stored_runs import RULES
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.runtime.process import redacts_secrets
from assizes.tasks.store import RunRecord
from assizes.tasks.store.record import is_look
from assizes.tasks.suites.suite_folder import read_suite, suite_in_use
from assizes.tasks.suites.suite_status import suite_lines

_VANISHED_WARNING: Final = (
    "vanished: {} of the objects were deleted or changed between listing and reading; no count holds "
    "their records, so the run is not complete; begin a new run"
)
_FORGOTTEN_WARNING: Final = "forgotten: {} cases were deleted (`assizes store forget`) before the run ended; no count holds them"
_NAMED: Final = 20
"""The most cases that one warning names."""
_TRUNCATION_WARNING: Final = (
    f"{TRUNCATED}: {{}} conversations were shortened, or read in windows of turns"
)


class SummarisedRun(NamedTuple):
    """A summarised run."""

    run: PlannedRun  # as it stands in the store now
    summary: RunSummary


@redacts_secrets
@task(name="summarise_run", cache_policy=NO_CACHE, result_serializer="json")
async def summarise_run(
    context: RunContext, run: PlannedRun, *, has_lost_shards: bool
) -> SummarisedRun:
    """Summarise the committed shards and finish the run; a finished run is returned as it is.

    With `has_lost_shards`, some shard could not be judged, and the run stays `incomplete`. It also
    does while a case is not attempted, or where an object was gone before it was read.
    """
    return await asyncio.to_thread(_summarise, context, run, has_lost_shards)


def _summarise(context: RunContext, run: PlannedRun, has_lost_shards: bool) -> SummarisedRun:
    store, run_id = context.store, run.run_id
    if run.is_finished and run.record.summary is not None:
        return SummarisedRun(run, RunSummary.model_validate(run.record.summary))
    failpoint("summary.before")
    stop = early_stop(store, context.config, run.record, run.intake)
    committed = store.shard_counts(run_id).items()
    shard_counts = {name: counts for name, counts in committed if not is_look(name)}
    summary = summarise(
        store.scan(run_id, "cases"),
        store.scan(run_id, "scores"),
        store.scan(run_id, "asks"),
        context.config,
        _intake_counts(run, shard_counts, forgotten := store.forgotten_cases(run_id), stop),
        context.judge_panel.judges,
    )
    if (ledger := context.ledger_for(run_id)) is not None:
        summary = with_ledger(summary, ledger.run_account(), store.scan(run_id, "asks"))
    # A rerun of what another run left does not count the lost objects, as that run has counted them.
    vanished = run.intake.lost_object_count if context.config.transcripts.again is None else 0
    summary = _summary_with_intake(
        context, run, summary.model_copy(update={"early_stop": stop}), vanished
    )
    if forgotten:
        lines = (*summary.warnings, _FORGOTTEN_WARNING.format(forgotten))
        summary = summary.model_copy(update={"warnings": lines})
    is_incomplete = has_lost_shards or vanished or summary.counts["not_attempted"]
    record = replace(
        run.record,
        status="incomplete" if is_incomplete else COMPLETE,
        finished_at=datetime.now(UTC),
        counts=summary.counts,
        summary=summary.model_dump(mode="json"),
    )
    kept = {**run.intake.kept, **run.intake.passed}
    transcript_counts = {f"transcripts/{name}": float(count) for name, count in kept.items()}
    rows = [
        {"run_id": run_id, "name": name, "value": value}
        for name, value in {**run_metrics(summary), **transcript_counts}.items()
    ]
    failpoint("summary.computed")
    store.finish(record, frame("run_metrics", rows))
    return SummarisedRun(PlannedRun(record, run.intake), summary)


def _summary_with_intake(
    context: RunContext, run: PlannedRun, summary: RunSummary, vanished: int
) -> RunSummary:
    """The summary with population numbers, and with the warnings that follow from the plan."""
    intake, config, store = run.intake, context.config, context.store
    cases = store.scan(run.run_id, "cases")
    design, stop = intake.design, summary.early_stop
    if stop is not None and not design.get("strata"):  # the judged cases are a sample of all
        design = {"by": (), "strata": [{"name": "{}", "cases": stop.of, "drawn": stop.cases}]}
    drawn_apart = config.transcripts.always if intake.design.get("strata") else ()
    population = population_numbers(cases, design, drawn_apart)
    lines = [
        *((stop.line,) if stop is not None else ()),
        *warning_lines(intake.odd),  # records that were odd
        *fidelity_lines(intake.kept),  # parts of records that a case has no place for
        *([_VANISHED_WARNING.format(vanished)] if vanished else ()),
        *(record_selectors.WARNINGS[name].format(count) for name, count in intake.passed.items()),
        *shards.warning_lines(intake.design, intake.truth, population),  # sample, ground truth
    ]
    if any(name.startswith("unchecked ") for name in intake.kept):
        named = cases.filter(pl.col("summary").str.contains(f"; {NOT_CHECKED}: ", literal=True))
        ids = collect_rows(named.select(pl.col("case_id").unique().sort()))["case_id"]
        more = f" and {len(ids) - _NAMED} more" if len(ids) > _NAMED else ""
        lines.append(f"unchecked: in case {', '.join(ids.head(_NAMED))}{more}")
    if config.judge.options.get(CONVERSATION, {}).get("context_tokens"):
        is_truncated = pl.col("details").str.contains(f'"{TRUNCATED}":', literal=True)
        scores = store.scan(run.run_id, "scores").filter(is_truncated)
        if count := collect_rows(scores.select("case_id", "repetition").unique()).height:
            lines.append(_TRUNCATION_WARNING.format(count))
    if not lines:
        return summary
    update = {"warnings": (*summary.warnings, *lines), "population": population}
    return summary.model_copy(update=update)


def _intake_counts(
    run: PlannedRun,
    committed: Mapping[str, Mapping[str, int]],
    forgotten: int,
    stop: EarlyStop | None,
) -> dict[str, int]:
    """The counts of the run by fate of the records; uncommitted cases are not attempted.

    Those after an early stop are not needed.

    The cases that were deleted since they were committed count as if nobody had read them.
    """
    totals = sum((Counter(counts) for counts in committed.values()), Counter[str]())
    heard = {status: totals[status] for status in HEARD_STATUSES}
    intake, not_needed = run.intake, 0 if stop is None else stop.not_needed
    if len(committed) == len(intake.shards):  # else counts are missing
        reconcile("cases due", intake.due, heard)
        reconcile("records rejected", intake.rejected, {"quarantined": totals["quarantined"]})
    return {
        "read": intake.read - forgotten,
        "duplicate": intake.duplicates,
        "unselected": intake.unselected,
        "quarantined": intake.rejected,
        "reused": 0,
        "not_attempted": intake.due - sum(heard.values()) - not_needed,
        "not_needed": not_needed,
    }


@dataclass(frozen=True, slots=True)
class BaselineResult:
    """A run and its baseline."""

    comparison: RunComparison | None = None  # `None`: there is nothing to compare
    fault: str | None = None  # why a configured comparison could not be made
    attribution: Attribution | None = None  # whether agent or judge changed; `None`: no anchors
    causes: Causes | None = None  # what the failures have in common; `None`: nothing was found
    of_suite: tuple[str, ...] = ()  # what the run shows of the suite that it was over, in sentences


@redacts_secrets
@task(name="compare_runs", cache_policy=NO_CACHE, result_serializer="json")
async def compare_with_baseline(
    context: RunContext, run: PlannedRun, *, compares_later: bool = False
) -> BaselineResult:
    """The comparison with the configured baseline; an empty result without a baseline, or when the
    run is not complete or judged nothing.

    With `compares_later`, there is no comparison with a baseline that is chosen by a rule.

    Raises:
        UnknownRun: the configured baseline is not in the store.
    """
    of_suite = await asyncio.to_thread(_suite_lines, context, run.record)
    if compares_later and context.config.comparison.baseline in RULES:
        return BaselineResult(of_suite=of_suite)
    result = await asyncio.to_thread(_compare_with_baseline, context, run.record)
    return replace(result, of_suite=of_suite)


def _suite_lines(context: RunContext, record: RunRecord) -> tuple[str, ...]:
    """What a complete run over a suite shows of the failures that the suite guards against."""
    used = suite_in_use(context.config)
    if record.status != COMPLETE or used is None or SUITE not in record.config:
        return ()
    return tuple(suite_lines(context.store, record, read_suite(used.folder)))


def _compare_with_baseline(context: RunContext, record: RunRecord) -> BaselineResult:
    store, thresholds = context.store, context.config.comparison
    if record.status != COMPLETE or record.plan.get("due") == 0:
        return BaselineResult()
    baseline = baseline_id(store, thresholds.baseline, record)
    if baseline is None:
        return BaselineResult()
    try:
        return BaselineResult(compare_stored(store, baseline, record.run_id, thresholds))
    except NotComparable as error:
        return BaselineResult(fault=f"not compared: {error}")
