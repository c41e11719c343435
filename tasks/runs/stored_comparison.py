"""Set two stored runs side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import polars as pl

from assizes.judge.comparison.bridge import verdict_with_bridges
from assizes.judge.comparison.compare import RunComparison, compare, gated_runs
from assizes.judge.comparison.runs import RunData
from assizes.judge.config.diff import TRUTH
from assizes.judge.config.run import ComparisonConfig
from assizes.judge.rows import as_json
from assizes.judge.summary.run_summary import RunSummary
from assizes.tasks.runs.anchor_runs import nearest_anchor_run
from assizes.tasks.runs.baselines import RULES, baseline_by_rule
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store import RunRecord, Store

MAX_HELD_ROWS: Final = 200_000
"""Rows of a table that a comparison may hold."""

UNUSED_COLUMNS: Final = {
    "scores": ("run_id", "reason", "turns", "details", "judge_version", "rubric_hash"),
    "cases": ("run_id", "transcript_uri", "transcript_hash", "summary", "error"),
}
"""Columns of tables that a comparison has no use for."""


def baseline_id(store: Store, wanted: str | None, record: RunRecord) -> str | None:
    """The run to compare with: as named, or by a rule of `assizes.tasks.runs.baselines`; null when there is none.

    A run that has been compared with what its rule meant stays with that one, whatever ends later.

    Raises:
        UnknownRun: a named run is not in the store.
    """
    if wanted is None:
        return None
    if wanted not in RULES:
        return store.run(wanted).run_id
    if (own_baseline := _own_baseline(store, record)) is not None:
        return own_baseline
    return baseline_by_rule(store, wanted, record)


def compare_stored(
    store: Store, baseline: str, candidate: str, thresholds: ComparisonConfig
) -> RunComparison:
    """Compare two runs of a store and keep the verdict there, unless both are the same run.

    The row's time is the candidate's finish, not the clock: comparing again changes nothing. Only
    the comparison that the candidate was configured with is kept under its own thresholds; in any
    other the baseline is kept by its id, so that the two are told apart.

    Raises:
        UnknownRun: a side is not in the store.
        NotComparable: a side is not complete.
    """
    before, after = run_data(store, baseline), run_data(store, candidate)
    comparison = _with_bridge(
        store, compare(before, after, thresholds), (before, after), thresholds
    )
    if before.run_id == after.run_id:
        return comparison
    record = store.run(after.run_id)
    if not _is_own(store, record, before.run_id, thresholds):
        thresholds = thresholds.model_copy(update={"baseline": before.run_id})
    row = {
        "baseline": before.run_id,
        "candidate": after.run_id,
        "at": record.finished_at,
        "verdict": as_json(comparison.verdict.model_dump(mode="json")),
        "thresholds": as_json(thresholds.model_dump(mode="json")),
    }
    failpoint("comparison.computed")
    store.add_comparison(row)
    return comparison


def _is_own(store: Store, record: RunRecord, baseline: str, thresholds: ComparisonConfig) -> bool:
    """Whether this is the comparison that the run was configured with."""
    configured = ComparisonConfig.model_validate(record.config["comparison"])
    if configured != thresholds or configured.baseline is None:
        return False
    if configured.baseline in RULES:
        return baseline_id(store, configured.baseline, record) == baseline
    return baseline.startswith(configured.baseline)


def _own_baseline(store: Store, record: RunRecord) -> str | None:
    """The baseline of the comparison that the run was configured with, once it has been made."""
    rows = store.comparisons().filter(pl.col("candidate") == record.run_id)
    own = rows.filter(_own_comparison_mask(rows, record))
    return None if own.is_empty() else str(own["baseline"][0])


def stored_comparison(store: Store, record: RunRecord) -> RunComparison | None:
    """The comparison this run was the candidate of, worked out again; null when there was none.

    Of several, the one the run was configured with; where it had none, the last by baseline.
    """
    rows = store.comparisons().filter(pl.col("candidate") == record.run_id)
    if rows.is_empty():
        return None
    ordered = rows.with_columns(own=_own_comparison_mask(rows, record))
    row = ordered.sort("own", "at", "baseline", "thresholds").row(-1, named=True)
    thresholds = ComparisonConfig.model_validate_json(row["thresholds"])
    sides = (run_data(store, row["baseline"]), run_data(store, record.run_id))
    return _with_bridge(store, compare(*sides, thresholds), sides, thresholds)


def _with_bridge(
    store: Store,
    comparison: RunComparison,
    sides: tuple[RunData, RunData],
    thresholds: ComparisonConfig,
) -> RunComparison:
    """The comparison, with a bridge where the judges differ and both judged the same anchors; other
    ground truth moves the run's cases, not the anchors.
    """
    verdict = comparison.verdict
    differing_fields = {mismatch.field for mismatch in verdict.mismatches if mismatch.of_judge}
    if verdict.statistics is None or not differing_fields or TRUTH in differing_fields:
        return comparison
    records = [nearest_anchor_run(store, store.run(side.run_id)) for side in sides]
    if None in records or records[0] == records[1]:
        return comparison
    anchor_data = [run_data(store, record.run_id) for record in records if record is not None]
    statistics = verdict_with_bridges(
        verdict.statistics,
        gated_runs(*sides, thresholds),
        gated_runs(anchor_data[0], anchor_data[1], thresholds),
    )
    update = {"verdict": verdict.model_copy(update={"statistics": statistics})}
    return comparison.model_copy(update=update)


def _own_comparison_mask(rows: pl.DataFrame, record: RunRecord) -> pl.Series:
    """Which comparisons were made as the run was configured. Both are read before they are held
    against each other: what was stored before a setting was added has that setting's default.
    """
    own_thresholds = ComparisonConfig.model_validate(record.config["comparison"])
    texts = rows["thresholds"].to_list()
    same = [ComparisonConfig.model_validate_json(text) == own_thresholds for text in texts]
    return pl.Series(same, dtype=pl.Boolean)


def run_data(store: Store, run_id: str) -> RunData:
    """A stored run as the comparison wants it."""
    record = store.run(run_id)
    cases = _comparison_rows(store, record.run_id, "cases")
    return RunData(
        run_id=record.run_id,
        name=record.name,
        agent_version=_distinct_text(
            cases.select("agent_version").unique().collect()["agent_version"]
        ),
        config=record.config,
        summary=RunSummary.model_validate(record.summary) if record.summary else None,
        cases=cases,
        scores=_comparison_rows(store, record.run_id, "scores"),
        status=record.status,
        answered_by=_answered_by(store.scan(record.run_id, "asks")),
        sliceable=store.sliceable,
        prompts=record.plan.get("prompts", {}),
    )


def _comparison_rows(store: Store, run_id: str, name: str) -> pl.LazyFrame:
    """A table as the comparison goes through it, many times: where each time costs a query of its
    own and the rows are few, they are held, without the columns that it has no use for.
    """
    rows = store.scan(run_id, name)
    if store.sliceable:
        return rows
    held_rows = rows.drop(UNUSED_COLUMNS[name]).head(MAX_HELD_ROWS + 1).collect()
    return rows if held_rows.height > MAX_HELD_ROWS else held_rows.lazy()


def _answered_by(asks: pl.LazyFrame) -> tuple[str, ...]:
    answered = asks.filter(pl.col("error").is_null()).select("answered_by").drop_nulls().unique()
    return tuple(sorted(answered.collect()["answered_by"]))


def _distinct_text(values: Iterable[Any]) -> str | None:
    texts = sorted({str(value) for value in values if value is not None})
    return ", ".join(texts) or None
