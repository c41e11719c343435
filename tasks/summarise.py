"""Sum up a run and set it beside its baseline, over the store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import polars as pl
from prefect import task
from prefect.cache_policies import NO_CACHE

from assizes.judge.catalog import CONVERSATION
from assizes.judge.comparison.compare import RunComparison
from assizes.judge.errors import NotComparable
from assizes.judge.families.conversation.windows import TRUNCATED
from assizes.judge.formats.shared import fidelity
from assizes.judge.formats.shared.oddities import warning_lines
from assizes.judge.history.anchors import Attribution
from assizes.judge.rows import COMPLETE, frame
from assizes.judge.summary.population import population_numbers
from assizes.judge.summary.published_numbers import run_metrics
from assizes.judge.summary.reconcile import reconcile
from assizes.judge.summary.spending import with_ledger
from assizes.judge.summary.summary import RunSummary, summarise
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.context.run_context import RunContext
from assizes.tasks.intake import sampling
from assizes.tasks.intake.shard import HEARD_STATUSES
from assizes.tasks.intake.shards import Plan
from assizes.tasks.plan import PlannedRun
from assizes.tasks.runs import incremental
from assizes.tasks.runs.baselines import RULES
from assizes.tasks.runs.stored_comparison import baseline_id, compare_stored
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.runtime.log_redaction import redacts_secrets
from assizes.tasks.store import RunRecord

_VANISHED_WARNING: Final = (
    "vanished: {} of the objects went or changed between listing and reading; what was in them is in "
    "no count, so the run is not complete; a new run lists anew"
)


@redacts_secrets
@task(name="summarise_run", cache_policy=NO_CACHE, result_serializer="json")
async def summarise_run(
    context: RunContext, run: PlannedRun, *, has_lost_shards: bool
) -> tuple[PlannedRun, RunSummary]:
    """Sum up the committed shards and finish the run; a finished run is read back as it is.

    Args:
        context: where the run sits.
        run: the planned run.
        has_lost_shards: whether some shard could not be judged. Then, and while a case is not attempted, the
            run stays `incomplete`; so it does where an object was gone before it was read.

    Returns:
        The run with its final record, and its summary.
    """
    return await asyncio.to_thread(_summarise, context, run, has_lost_shards)


def _summarise(
    context: RunContext, run: PlannedRun, has_lost_shards: bool
) -> tuple[PlannedRun, RunSummary]:
    store, run_id = context.store, run.run_id
    if run.is_finished and run.record.summary is not None:
        return run, RunSummary.model_validate(run.record.summary)
    failpoint("summary.before")
    summary = summarise(
        store.scan(run_id, "cases"),
        store.scan(run_id, "scores"),
        store.scan(run_id, "asks"),
        context.config,
        _intake_counts(run, store.shard_counts(run_id)),
        context.judge_panel.judges,
    )
    if (ledger := context.ledger_for(run_id)) is not None:
        summary = with_ledger(summary, ledger.run_account(), store.scan(run_id, "asks"))
    summary = _summary_with_intake(context, run, summary)
    is_incomplete = (
        has_lost_shards or _vanished_count(context, run) or summary.counts["not_attempted"]
    )
    record = replace(
        run.record,
        status="incomplete" if is_incomplete else COMPLETE,
        finished_at=datetime.now(UTC),
        counts=summary.counts,
        summary=summary.model_dump(mode="json"),
    )
    rows = [
        {"run_id": run_id, "name": name, "value": value}
        for name, value in {**run_metrics(summary), **_transcript_counts(run.intake)}.items()
    ]
    failpoint("summary.computed")
    store.finish(record, frame("run_metrics", rows))
    return PlannedRun(record, run.intake), summary


def _summary_with_intake(context: RunContext, run: PlannedRun, summary: RunSummary) -> RunSummary:
    """The summary with what the plan knows: odd records, the sample, the ground truth."""
    intake, always = run.intake, context.config.transcripts.always
    population = population_numbers(context.store.scan(run.run_id, "cases"), intake.design, always)
    vanished_count = _vanished_count(context, run)
    lines = (
        *warning_lines(intake.odd),
        *fidelity.fidelity_lines(intake.kept),
        *([_VANISHED_WARNING.format(vanished_count)] if vanished_count else ()),
        *incremental.warning_lines(intake.passed),
        *sampling.warning_lines(intake.design, intake.truth, population),
        *_truncation_warning(context, run.run_id),
    )
    if not lines:
        return summary
    update = {"warnings": (*summary.warnings, *lines), "population": population}
    return summary.model_copy(update=update)


def _vanished_count(context: RunContext, run: PlannedRun) -> int:
    """Objects that went while they were read; whoever takes up what another run left was told by
    that run.
    """
    return run.intake.lost_object_count if context.config.transcripts.again is None else 0


def _truncation_warning(context: RunContext, run_id: str) -> tuple[str, ...]:
    """How many conversations no judge saw at once; nothing where none can be."""
    if not context.config.judge.options.get(CONVERSATION, {}).get("context_tokens"):
        return ()
    is_truncated = pl.col("details").str.contains(f'"{TRUNCATED}":', literal=True)
    scores = (
        context.store.scan(run_id, "scores").filter(is_truncated).select("case_id", "repetition")
    )
    cases = collect_rows(scores.unique()).height
    line = f"{TRUNCATED}: {cases} conversations were shortened, or read in windows of turns"
    return (line,) if cases else ()


def _transcript_counts(intake: Plan) -> dict[str, float]:
    """What the transcripts hold, what became of parts that a case has no place for, and what was
    left to other runs.
    """
    counts = {**intake.kept, **intake.passed}
    return {f"transcripts/{name}": float(count) for name, count in counts.items()}


def _intake_counts(run: PlannedRun, committed: Mapping[str, Mapping[str, int]]) -> dict[str, int]:
    """What became of the records of the input; shards that never finished were not attempted.

    Raises:
        Unreconciled: every shard is committed, and not all that was planned came of it.
    """
    totals: Counter[str] = Counter()
    for counts in committed.values():
        totals.update(counts)
    heard_count = sum(totals[status] for status in HEARD_STATUSES)
    if len(committed) == len(run.intake.shards):
        reconcile(
            "cases due", run.intake.due, {status: totals[status] for status in HEARD_STATUSES}
        )
        quarantined = {"quarantined": totals["quarantined"]}
        reconcile("records rejected", run.intake.rejected, quarantined)
    return {
        "read": run.intake.read,
        "duplicate": run.intake.duplicates,
        "unselected": run.intake.unselected,
        "quarantined": run.intake.rejected,
        "reused": 0,
        "not_attempted": run.intake.due - heard_count,
    }


@dataclass(frozen=True, slots=True)
class BaselineResult:
    """A run beside its baseline: the comparison, or why a wanted one could not be made; and whose
    the change is, where anchors can tell.
    """

    comparison: RunComparison | None = None
    fault: str | None = None
    attribution: Attribution | None = None


@redacts_secrets
@task(name="compare_runs", cache_policy=NO_CACHE, result_serializer="json")
async def compare_with_baseline(
    context: RunContext, run: PlannedRun, *, compares_later: bool = False
) -> BaselineResult:
    """The comparison with the configured baseline; an empty result without a baseline, or when the
    run is not complete or judged nothing.

    Args:
        context: of the run.
        run: the run at its end.
        compares_later: make no comparison with a baseline that is chosen by a rule.

    Raises:
        UnknownRun: the configured baseline is not in the store.
    """
    if compares_later and context.config.comparison.baseline in RULES:
        return BaselineResult()
    return await asyncio.to_thread(_compare_with_baseline, context, run.record)


def _compare_with_baseline(context: RunContext, record: RunRecord) -> BaselineResult:
    baseline_name = context.config.comparison.baseline
    if baseline_name is None or record.status != COMPLETE or record.plan.get("due") == 0:
        return BaselineResult()
    baseline = baseline_id(context.store, baseline_name, record)
    if baseline is None:
        return BaselineResult()
    try:
        return BaselineResult(
            compare_stored(context.store, baseline, record.run_id, context.config.comparison)
        )
    except NotComparable as error:
        return BaselineResult(fault=f"not compared: {error}")
