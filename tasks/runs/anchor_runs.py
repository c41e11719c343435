"""Anchor runs: how they are configured, found in the store, and used to attribute a change."""

from __future__ import annotations

import polars as pl

from assizes.judge.comparison.compare import RunComparison
from assizes.judge.config.anchors import AnchorsConfig
from assizes.judge.config.ground_truth import GroundTruthConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.config.selection import SelectionConfig
from assizes.judge.history.anchors import ANCHORS, Attribution, Scores, attribute_change, change
from assizes.judge.rows import COMPLETE
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.store import RunRecord, Store


def anchors_id(run_id: str) -> str:
    """The id of the anchor run that belongs to a run."""
    return f"{run_id}-{ANCHORS}"


def anchors_name(name: str) -> str:
    """The name of the anchor runs that belong to the runs of a name."""
    return f"{name}-{ANCHORS}"


def anchor_config(config: RunConfig) -> RunConfig:
    """The configuration of the run over the anchors.

    The judge is the same and is asked anew; the anchor run has no baseline and fails no flow.
    """
    body = config.model_dump(mode="python")
    anchors = body["anchors"]
    body["name"] = anchors_name(config.name)
    body["transcripts"] |= {
        **SelectionConfig().model_dump(mode="python"),
        "uri": anchors["uri"],
        "format": anchors["format"],
    }
    body["ground_truth"] = GroundTruthConfig().model_dump(mode="python")
    body["cache"] |= {"use": "refresh"}
    body["comparison"] |= {"baseline": None}
    body["runner"] |= {"fail_flow": False, "batch": False}
    body["anchors"] |= {"uri": None}
    return RunConfig.model_validate(body)


def has_due_anchors(store: Store, record: RunRecord, config: RunConfig) -> bool:
    """Whether the anchors must be judged beside a run that is complete.

    Anchors are due after runs of the configured triggers, and when the judge has no anchor run yet.
    """
    if config.anchors.uri is None or record.status != COMPLETE:
        return False
    if config.cache.use == "replay_only":
        return False
    runs = anchor_runs(store, record.name)
    if any(run.run_id == anchors_id(record.run_id) for run in runs):
        return False
    is_known_judge = any(_has_same_judge(run, record) for run in runs)
    return record.trigger in config.anchors.triggers or not is_known_judge


def _has_same_judge(run: RunRecord, other_run: RunRecord) -> bool:
    return all(
        run.config.get(part) == other_run.config.get(part) for part in ("judge", "fingerprints")
    )


def anchor_runs(store: Store, name: str) -> list[RunRecord]:
    """The complete anchor runs of a name, in order of time."""
    complete = (pl.col("name") == anchors_name(name)) & (pl.col("status") == COMPLETE)
    rows = store.runs().filter(complete).sort("started_at", "run_id")
    return [RunRecord.of_row(row, {}) for row in rows.iter_rows(named=True)]


def nearest_anchor_run(store: Store, record: RunRecord) -> RunRecord | None:
    """The anchor run of the same judge that is nearest in time to a run; `None` without one."""
    same = [run for run in anchor_runs(store, record.name) if _has_same_judge(run, record)]
    distances = {run.run_id: abs(run.started_at - record.started_at) for run in same}
    return min(same, key=lambda run: (distances[run.run_id], run.run_id), default=None)


def stored_attribution(
    store: Store, record: RunRecord, comparison: RunComparison | None
) -> Attribution | None:
    """Attribute the change of a run to the agent or to the judge, by the anchors judged with it.

    The anchors are compared with those of the baseline, else with the anchor run before them.
    `None` where no anchors were judged with the run.

    Args:
        store: holds the runs.
        record: the run.
        comparison: the comparison of the run with its baseline; `None` without a baseline.
    """
    baseline = comparison.baseline_run_id if comparison else None
    attribution = anchor_attribution(store, record, baseline)
    if attribution is None or baseline is None:
        return attribution
    data = change(overall_scores(store, store.run(baseline)), overall_scores(store, record))
    return attribute_change(attribution.anchors, data, _alpha(record), attribution.against)


def anchor_attribution(store: Store, record: RunRecord, baseline: str | None) -> Attribution | None:
    """Whether the judge moved, by the anchors alone; `None` where the run has no anchor run.

    Args:
        store: holds the runs.
        record: the run.
        baseline: id of the baseline whose anchors to compare with; `None` for the last anchor run.
    """
    runs = {run.run_id: run for run in anchor_runs(store, record.name)}
    own = runs.get(anchors_id(record.run_id))
    if own is None:
        return None
    earlier = [run for run in runs.values() if run.started_at < own.started_at]
    former = runs.get(anchors_id(baseline)) if baseline else None
    former = former or (earlier[-1] if earlier else None)
    if former is None:
        return attribute_change(None, None, _alpha(record))
    score_change = change(overall_scores(store, former), overall_scores(store, own))
    return attribute_change(score_change, None, _alpha(record), former.run_id)


def _alpha(record: RunRecord) -> float:
    return AnchorsConfig.model_validate(record.config.get("anchors", {})).alpha


def overall_scores(store: Store, record: RunRecord) -> Scores:
    """The overall score (0..100) of every judged case; 100 or 0 where cases only pass or fail."""
    judged_cases = store.scan(record.run_id, "cases").filter(pl.col("status") == "judged")
    passed = pl.col("passed").cast(pl.Float64) * 100
    score = pl.coalesce("overall_score", passed).alias("score")
    rows = collect_rows(
        judged_cases.select(
            "case_id", "repetition", pl.coalesce("cluster", "case_id").alias("cluster"), score
        ).drop_nulls("score")
    )
    return {
        (case, repetition): (cluster, value) for case, repetition, cluster, value in rows.rows()
    }
