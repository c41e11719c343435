"""Sum up a run and set it beside its baseline, over the store."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from contextvars import ContextVar
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
from assizes.judge.formats.shared.oddities import told
from assizes.judge.history.anchors import Attribution
from assizes.judge.rows import COMPLETE, frame
from assizes.judge.summary.population import population_numbers
from assizes.judge.summary.published_numbers import run_metrics
from assizes.judge.summary.reconcile import reconcile
from assizes.judge.summary.spending import with_ledger
from assizes.judge.summary.summary import RunSummary, summarise
from assizes.judge.verdicts.executions import collected
from assizes.tasks.context.run_context import Room
from assizes.tasks.intake import sampling
from assizes.tasks.intake.shard import HEARD
from assizes.tasks.intake.shards import Plan
from assizes.tasks.plan import PlannedRun
from assizes.tasks.runs import incremental
from assizes.tasks.runs.baselines import RULES
from assizes.tasks.runs.stored_comparison import baseline_id, compare_stored
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.runtime.log_redaction import discreet
from assizes.tasks.store import RunRecord

_GONE: Final = (
    "vanished: {} of the objects went or changed between listing and reading; what was in them is in "
    "no count, so the run is not complete; a new run lists anew"
)


@discreet
@task(name="summarise_run", cache_policy=NO_CACHE, result_serializer="json")
async def summarise_run(room: Room, run: PlannedRun, *, lost: bool) -> RunSummary:
    """Sum up the committed shards and finish the run; a finished run is read back as it is.

    Args:
        room: where the run sits.
        run: the planned run.
        lost: whether some shard could not be judged. Then, and while a case is not attempted, the
            run stays `incomplete`; so it does where an object was gone before it was read.
    """
    return await asyncio.to_thread(_summarise, room, run, lost)


def _summarise(room: Room, run: PlannedRun, lost: bool) -> RunSummary:
    store, run_id = room.store, run.run_id
    if run.finished and run.record.summary is not None:
        return RunSummary.model_validate(run.record.summary)
    failpoint("summary.before")
    summary = summarise(
        store.scan(run_id, "cases"),
        store.scan(run_id, "scores"),
        store.scan(run_id, "asks"),
        room.config,
        _intake_counts(run, store.committed(run_id)),
        room.court.judges,
    )
    if (ledger := room.ledger_for(run_id)) is not None:
        summary = with_ledger(summary, ledger.spent(), store.scan(run_id, "asks"))
    summary = _with_intake(room, run, summary)
    left = lost or _gone(room, run) or summary.counts["not_attempted"]
    record = replace(
        run.record,
        status="incomplete" if left else COMPLETE,
        finished_at=datetime.now(UTC),
        counts=summary.counts,
        summary=summary.model_dump(mode="json"),
    )
    rows = [
        {"run_id": run_id, "name": name, "value": value}
        for name, value in {**run_metrics(summary), **_kept(run.intake)}.items()
    ]
    failpoint("summary.computed")
    store.finish(record, frame("run_metrics", rows))
    run.record = record
    return summary


def _with_intake(room: Room, run: PlannedRun, summary: RunSummary) -> RunSummary:
    """The summary with what the plan knows: odd records, the sample, the ground truth."""
    intake, always = run.intake, room.config.transcripts.always
    of_all = population_numbers(room.store.scan(run.run_id, "cases"), intake.design, always)
    gone = _gone(room, run)
    lines = (
        *told(intake.odd),
        *fidelity.lines(intake.kept),
        *([_GONE.format(gone)] if gone else ()),
        *incremental.told(intake.passed),
        *sampling.told(intake.design, intake.truth, of_all),
        *_truncated(room, run.run_id),
    )
    if not lines:
        return summary
    update = {"warnings": (*summary.warnings, *lines), "population": of_all}
    return summary.model_copy(update=update)


def _gone(room: Room, run: PlannedRun) -> int:
    """Objects that went while they were read; whoever takes up what another run left was told by
    that run.
    """
    return run.intake.gone if room.config.transcripts.again is None else 0


def _truncated(room: Room, run_id: str) -> tuple[str, ...]:
    """How many conversations no judge saw at once; nothing where none can be."""
    if not room.config.judge.options.get(CONVERSATION, {}).get("context_tokens"):
        return ()
    said = pl.col("details").str.contains(f'"{TRUNCATED}":', literal=True)
    scores = room.store.scan(run_id, "scores").filter(said).select("case_id", "repetition")
    cases = collected(scores.unique()).height
    line = f"{TRUNCATED}: {cases} conversations were shortened, or read in windows of turns"
    return (line,) if cases else ()


def _kept(intake: Plan) -> dict[str, float]:
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
    done: Counter[str] = Counter()
    for counts in committed.values():
        done.update(counts)
    heard = sum(done[status] for status in HEARD)
    if len(committed) == len(run.intake.shards):
        reconcile("cases due", run.intake.due, {status: done[status] for status in HEARD})
        quarantined = {"quarantined": done["quarantined"]}
        reconcile("records rejected", run.intake.rejected, quarantined)
    return {
        "read": run.intake.read,
        "duplicate": run.intake.duplicates,
        "unselected": run.intake.unselected,
        "quarantined": run.intake.rejected,
        "reused": 0,
        "not_attempted": run.intake.due - heard,
    }


@dataclass(frozen=True, slots=True)
class Against:
    """A run beside its baseline: the comparison, or why a wanted one could not be made; and whose
    the change is, where anchors can tell.
    """

    comparison: RunComparison | None = None
    fault: str | None = None
    attribution: Attribution | None = None


compares_later: ContextVar[bool] = ContextVar("compares_later", default=False)
"""Set by whoever judges several runs and compares them when all have ended: which run a rule means
is not to depend on which of them ended first."""


@discreet
@task(name="compare_runs", cache_policy=NO_CACHE, result_serializer="json")
async def compare_with_baseline(room: Room, run: PlannedRun) -> Against:
    """The comparison with the configured baseline; none where there is no baseline, or no whole run,
    or where what a rule means is compared later.

    Raises:
        UnknownRun: the configured baseline is not in the store.
    """
    return await asyncio.to_thread(_compare_with_baseline, room, run.record)


def _compare_with_baseline(room: Room, record: RunRecord) -> Against:
    wanted = room.config.comparison.baseline
    if wanted is None or record.status != COMPLETE or record.plan.get("due") == 0:
        return Against()
    if wanted in RULES and compares_later.get():
        return Against()
    baseline = baseline_id(room.store, wanted, record)
    if baseline is None:
        return Against()
    try:
        return Against(compare_stored(room.store, baseline, record.run_id, room.config.comparison))
    except NotComparable as error:
        return Against(fault=f"not compared: {error}")
