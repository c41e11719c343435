"""Compares two stored runs, stores the verdict, and finds the comparison of a run again."""

from __future__ import annotations

from typing import Final

import polars as pl

from assizes.judge.comparison.compare import RunComparison, compare, gated_runs
from assizes.judge.comparison.runs import RunData
from assizes.judge.comparison.statistical_verdict import verdict_with_bridges
from assizes.judge.config.gates import STORED, ComparisonConfig
from assizes.judge.config.run import TRUTH
from assizes.judge.rows import as_json
from assizes.judge.summary.run_summary import RunSummary
from assizes.tasks.runs.anchor_runs import nearest_anchor_run
from assizes.tasks.runs.corrected_comparison import comparison_with_labels
from assizes.tasks.runs.kept_comparisons import KeptComparisons
from assizes.tasks.runs.stored_runs import RULES, baseline_by_name, baseline_by_rule
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store import RunRecord, Store

MAX_HELD_ROWS: Final = 200_000  # a comparison loads at most this many rows of a table into memory

UNUSED_COLUMNS: Final = {
    "scores": ("run_id", "reason", "turns", "details", "judge_version", "rubric_hash"),
    "cases": ("run_id", "transcript_uri", "transcript_hash", "summary", "error"),
}
"""Columns that a comparison never reads, by table."""

_COMPARISONS: Final = KeptComparisons()


def baseline_id(store: Store, wanted: str | None, record: RunRecord) -> str | None:
    """The id of the run to compare with; `None` if there is none.

    What is `wanted` is the name of a run, one of `RULES`, or `None`.

    Raises:
        UnknownRun: a named run is not in the store.
    """
    if wanted is None:
        return None
    if wanted not in RULES:
        return baseline_by_name(store, wanted, record.run_id).run_id
    rows = store.comparisons([record.run_id])
    # A run that was compared under a rule keeps that baseline, whatever runs end later.
    own = rows.filter(_own_comparison_mask(rows, record))
    return baseline_by_rule(store, wanted, record) if own.is_empty() else str(own["baseline"][0])


def compare_stored(
    store: Store, baseline: str, candidate: str, thresholds: ComparisonConfig
) -> RunComparison:
    """Compare two runs of a store and store the verdict, unless both are the same run.

    Comparing again changes nothing. What is stored is the verdict by the judge's numbers, as labels
    may still come; what is returned also has the corrected one.

    Raises:
        UnknownRun: one of the runs is not in the store.
        NotComparable: one of the runs is not complete.
    """
    before, after = run_data(store, baseline), run_data(store, candidate)
    comparison = compare_with_bridges(store, before, after, thresholds)
    if before.run_id == after.run_id:
        return comparison
    corrected = comparison_with_labels(store, comparison, thresholds)
    record = store.run(after.run_id)
    configured = ComparisonConfig.model_validate(record.config["comparison"], context=STORED)
    named = configured.baseline if configured == thresholds else None
    if named in RULES:
        is_own = baseline_id(store, named, record) == before.run_id
    else:
        is_own = named is not None and before.run_id.startswith(named)
    # Thresholds that name the baseline by its id are never taken for those of the run itself.
    if not is_own:
        thresholds = thresholds.model_copy(update={"baseline": before.run_id})
    row = {
        "baseline": before.run_id,
        "candidate": after.run_id,
        "at": record.finished_at,  # not the clock: comparing again gives the same row
        "verdict": as_json(comparison.verdict.model_dump(mode="json")),
        "thresholds": as_json(thresholds.model_dump(mode="json")),
    }
    failpoint("comparison.computed")
    store.add_comparison(row)
    return corrected


def stored_comparison(store: Store, record: RunRecord) -> RunComparison | None:
    """The comparison of a run with its baseline, computed again; `None` where none was stored.

    Of several, the one that the run was configured with is chosen, else the latest.
    """
    rows = store.comparisons([record.run_id])
    if rows.is_empty():
        return None
    ordered = rows.with_columns(own=_own_comparison_mask(rows, record))
    row = ordered.sort("own", "at", "baseline", "thresholds").row(-1, named=True)  # True sorts last
    thresholds = ComparisonConfig.model_validate_json(row["thresholds"], context=STORED)
    comparison = kept_comparison(store, row["baseline"], record.run_id, thresholds)
    if _differing_judge(comparison):  # the anchors of other runs count
        before, after = run_data(store, row["baseline"]), run_data(store, record.run_id)
        comparison = _with_bridges(store, comparison, before, after, thresholds)
    return comparison_with_labels(store, comparison, thresholds)


def kept_comparison(
    store: Store, baseline: str, candidate: str, thresholds: ComparisonConfig
) -> RunComparison:
    """The comparison of two runs by the judge's numbers, without bridges; nothing is stored.

    It is kept in memory until one of the runs changes.

    Raises:
        UnknownRun: one of the runs is not in the store.
        NotComparable: one of the runs is not complete.
    """

    def make() -> RunComparison:
        return compare(run_data(store, baseline), run_data(store, candidate), thresholds)

    return _COMPARISONS.comparison(store, (baseline, candidate), thresholds, make)


def compare_with_bridges(
    store: Store, before: RunData, after: RunData, thresholds: ComparisonConfig
) -> RunComparison:
    """The comparison of two runs, bridged where their judges differ and judged the same anchors."""
    return _with_bridges(store, compare(before, after, thresholds), before, after, thresholds)


def _differing_judge(comparison: RunComparison) -> bool:
    """Whether anchors may bridge a difference of the judges of two runs."""
    verdict = comparison.verdict
    fields = {mismatch.field for mismatch in verdict.mismatches if mismatch.of_judge}
    # Other ground truth is never bridged: it moves the cases of the runs, not the anchors.
    return verdict.statistics is not None and bool(fields) and TRUTH not in fields


def _with_bridges(
    store: Store,
    comparison: RunComparison,
    before: RunData,
    after: RunData,
    thresholds: ComparisonConfig,
) -> RunComparison:
    verdict = comparison.verdict
    if verdict.statistics is None or not _differing_judge(comparison):
        return comparison
    old, new = (nearest_anchor_run(store, store.run(run.run_id)) for run in (before, after))
    if old is None or new is None or old == new:
        return comparison
    statistics = verdict_with_bridges(
        verdict.statistics,
        gated_runs(before, after, thresholds),
        gated_runs(run_data(store, old.run_id), run_data(store, new.run_id), thresholds),
    )
    update = {"verdict": verdict.model_copy(update={"statistics": statistics})}
    return comparison.model_copy(update=update)


def _own_comparison_mask(rows: pl.DataFrame, record: RunRecord) -> pl.Series:
    """True for the comparisons that were made with the thresholds of the run's configuration."""
    own = ComparisonConfig.model_validate(record.config["comparison"], context=STORED)
    # Parsed on both sides: a setting newer than what was stored has its default on both.
    same = [
        ComparisonConfig.model_validate_json(text, context=STORED) == own
        for text in rows["thresholds"]
    ]
    return pl.Series(same, dtype=pl.Boolean)


def run_data(store: Store, run_id: str) -> RunData:
    """A stored run in the form that `compare` takes."""
    record = store.run(run_id)
    cases = _comparison_rows(store, record.run_id, "cases")
    versions = cases.select("agent_version").drop_nulls().unique().collect()["agent_version"]
    answered_asks = store.scan(record.run_id, "asks").filter(pl.col("error").is_null())
    models = answered_asks.select("answered_by").drop_nulls().unique().collect()["answered_by"]
    return RunData(
        run_id=record.run_id,
        name=record.name,
        agent_version=", ".join(sorted(versions)) or None,
        config=record.config,
        summary=RunSummary.model_validate(record.summary) if record.summary else None,
        cases=cases,
        scores=_comparison_rows(store, record.run_id, "scores"),
        status=record.status,
        answered_by=tuple(sorted(models)),
        sliceable=store.sliceable,
        prompts=record.plan.get("prompts", {}),
    )


def _comparison_rows(store: Store, run_id: str, name: str) -> pl.LazyFrame:
    """A table of a run for a comparison, which reads it many times."""
    rows = store.scan(run_id, name)
    if store.sliceable:
        return rows
    # Each reading of a DuckDB file is a query, so a table of few rows is loaded once.
    held_rows = rows.drop(UNUSED_COLUMNS[name]).head(MAX_HELD_ROWS + 1).collect()
    return rows if held_rows.height > MAX_HELD_ROWS else held_rows.lazy()
