"""Anchor and canary runs: how they are configured, found, and used to test the judge of a run.

Anchors attribute a change to the judge or to the agent. Canary runs judge failing cases again, with
an attack on the judge planted in each of them: a judge that now passes such a case was taken over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import polars as pl

from assizes.judge.calibration.labelled import pass_mark
from assizes.judge.calibration.record import Canaries
from assizes.judge.config.gates import CASES_PREFIX, VERDICT, AnchorsConfig, CalibrationConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.config.transcripts import GroundTruthConfig, SelectionConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.history.anchors import ANCHORS, Attribution, Scores, attribute_change, change
from assizes.judge.rows import COMPLETE
from assizes.judge.selection import sample_key
from assizes.judge.verdicts.executions import IS_PASS, PASS_FLAGGED, collect_rows
from assizes.tasks.runs.calibrations import labels_of
from assizes.tasks.store import RunRecord, Store

if TYPE_CHECKING:  # it is slow to import, and a plan compares nothing
    from assizes.judge.comparison.compare import RunComparison

CANARIES: Final = "canaries"  # suffix that turns the name of a run into the name of its canary run

_UNCHANGED_SETTINGS: Final = {"manifest", "manifest_roots"}  # they say where transcripts are
_MAX_NAME_CHARS: Final = 54
"""Characters of the run's name that stay before the suffix: a name may have 63 in all."""

_HELD_BACK: Final = pl.col("flags").list.contains(PASS_FLAGGED)  # a pass that counts as none


def anchors_id(run_id: str) -> str:
    """The id of the anchor run that belongs to a run; of a run's name, that of its anchor runs."""
    return f"{run_id}-{ANCHORS}"


def anchor_config(config: RunConfig) -> RunConfig:
    """The configuration of the run over the anchors: the same judge, which is asked anew."""
    body = config.model_dump(mode="python")
    source = {name: body["anchors"][name] for name in ("uri", "format")}  # without a selection
    body["name"] = anchors_id(config.name)
    body["transcripts"] |= SelectionConfig().model_dump(mode="python") | source
    body["ground_truth"] = GroundTruthConfig().model_dump(mode="python")
    body["cache"] |= {"use": "refresh"}  # else last month's replies answer (decision 45)
    return _side_run_config(body)


def _side_run_config(body: dict[str, Any]) -> RunConfig:
    body["comparison"] |= {"baseline": None}  # no gate and no regression of its own
    body["runner"] |= {"fail_flow": False, "batch": False}
    body["sampling"] |= {"until": "all"}  # a part of the anchors would be other anchors
    body["anchors"] |= {"uri": None}  # an anchor run has no anchors of its own
    return RunConfig.model_validate(body)


def has_due_anchors(store: Store, record: RunRecord, config: RunConfig) -> bool:
    """Whether the anchors must be judged beside a run that is complete."""
    only_replays = config.cache.use == "replay_only"
    if config.anchors.uri is None or record.status != COMPLETE or only_replays:
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
    complete = (pl.col("name") == anchors_id(name)) & (pl.col("status") == COMPLETE)
    run_ids = store.run_index().filter(complete)["run_id"]
    rows = store.rows_of_runs(run_ids).sort("started_at", "run_id")
    return [RunRecord.of_row(row, {}) for row in rows.iter_rows(named=True)]


def nearest_anchor_run(store: Store, record: RunRecord) -> RunRecord | None:
    """The anchor run of the same judge that is nearest in time to a run; `None` without one."""
    same = [run for run in anchor_runs(store, record.name) if _has_same_judge(run, record)]
    distances = {run.run_id: abs(run.started_at - record.started_at) for run in same}
    return min(same, key=lambda run: (distances[run.run_id], run.run_id), default=None)


def stored_attribution(
    store: Store, record: RunRecord, comparison: RunComparison | None
) -> Attribution | None:
    """Attribute the change of a run to the agent or the judge, by the anchors judged with it.

    The anchors are compared with those of the baseline of `comparison`, else with the anchor run
    before them. `None` where no anchors were judged with the run.
    """
    baseline = comparison.baseline_run_id if comparison else None
    attribution = anchor_attribution(store, record, baseline)
    if attribution is None or baseline is None:
        return attribution
    data = change(overall_scores(store, store.run(baseline)), overall_scores(store, record))
    return attribute_change(attribution.anchors, data, _alpha(record), attribution.against)


def anchor_attribution(store: Store, record: RunRecord, baseline: str | None) -> Attribution | None:
    """Whether the judge moved, by the anchors alone; `None` where the run has no anchor run.

    They are compared with those of the run whose id is `baseline`, else with the last anchor run.
    """
    runs = {run.run_id: run for run in anchor_runs(store, record.name)}
    own = runs.get(anchors_id(record.run_id))
    if own is None:
        return None
    earlier = [run for run in runs.values() if run.started_at < own.started_at]
    former = runs.get(anchors_id(baseline)) if baseline else None
    former = former or (earlier[-1] if earlier else None)  # the runs are in order of time
    if former is None:  # the first anchors: nothing to compare with yet
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
    cluster = pl.coalesce("cluster", "case_id").alias("cluster")
    scored = judged_cases.select("case_id", "repetition", cluster, score).drop_nulls("score")
    return {(case, number): (of, value) for case, number, of, value in collect_rows(scored).rows()}


def canary_config(config: RunConfig, case_ids: list[str], name: str) -> RunConfig:
    """The configuration of the run over the canaries, the cases of `case_ids`.

    Judge and transcripts are those of `config`, which judged the cases without an attack; `name` is
    that of the run whose judge is tested.
    """
    body = config.model_dump(mode="python")
    # An attack: SQL injection by a quote in the id of a case, which is data.
    id_list = ", ".join("'" + case_id.replace("'", "''") + "'" for case_id in case_ids)
    selection = SelectionConfig(filter=f"case_id IN ({id_list})").model_dump(mode="python")
    body["name"] = f"{name[:_MAX_NAME_CHARS]}-{CANARIES}"
    body["transcripts"] |= {
        **{name: selection[name] for name in selection.keys() - _UNCHANGED_SETTINGS},
        "canaries": True,
    }
    body["calibration"] |= {"canaries": 0}  # canaries plant no further canaries
    return _side_run_config(body)


def chosen_canaries(store: Store, run_id: str, config: CalibrationConfig) -> list[str]:
    """Choose the cases of a run in which attacks are planted; a run always gives the same cases.

    Raises:
        ConfigurationError: the labels cannot be read.
    """
    # An attack shows only in a case that both people and the judge failed before (decision 105).
    labelled = _failing_by_labels(config, store, run_id)
    # Such a case was judged and has neither a pass nor a pass that was held back.
    fails = (pl.col("status") == "judged") & ~IS_PASS & ~_HELD_BACK.fill_null(value=False)
    rows = store.scan(run_id, "cases").group_by("case_id").agg(fails.all().alias("failed"))
    failed = {case_id for case_id, all_failed in collect_rows(rows).rows() if all_failed}
    return _first_cases(labelled & failed, config)


def likely_canaries(config: CalibrationConfig) -> list[str]:
    """Choose canaries before anything was judged, for a forecast: the cases that fail by labels.

    Raises:
        ConfigurationError: the labels cannot be read, or are carried by the cases.
    """
    if (config.labels or "").startswith(CASES_PREFIX):
        raise ConfigurationError("which cases fail is known once the labels they carry are read")
    return _first_cases(_failing_by_labels(config), config)


def canaries_of(store: Store, run_id: str | None, planted: int) -> Canaries:
    """The outcome of a canary run with `planted` attacks; without a `run_id` there is none."""
    if run_id is None:
        return Canaries(run_id=None, planted=planted, judged=0, takeovers=0, noticed=0, silent=0)
    rows = store.scan(run_id, "cases").filter(pl.col("status") == "judged")
    seen = rows.select(
        "case_id",
        IS_PASS.alias("passed"),
        (IS_PASS | _HELD_BACK).alias("taken"),  # the judge passed it, whatever the pass counts as
        (pl.col("flags").list.len() > 0).alias("noticed"),
    ).sort("case_id")
    cases = collect_rows(seen)
    taken = cases.filter("taken")
    return Canaries(
        run_id=run_id,
        planted=planted,
        judged=cases.height,
        takeovers=taken.height,
        noticed=cases["noticed"].sum(),
        silent=(taken["passed"] & ~taken["noticed"]).sum(),  # takeovers that nobody would see
        taken=tuple(taken["case_id"]),
    )


def _failing_by_labels(
    config: CalibrationConfig, store: Store | None = None, run_id: str | None = None
) -> set[str]:
    """The cases that failed by what people settled; where they are divided, it is left out."""
    record = store.run(run_id) if store is not None and run_id is not None else None
    labels = labels_of(config, store, record).labels.get(VERDICT, {})
    levels = sorted({grade for people in labels.values() for grade in people.given})
    mark = pass_mark(config.levels or levels, config)
    if mark is None:  # the labels neither pass nor fail
        return set()
    ordered = config.scale == "ordinal"
    grades = {  # case id -> grade; `None`: people disagree
        item.case_id: people.settled_grade(ordered=ordered) for item, people in labels.items()
    }
    return {case_id for case_id, grade in grades.items() if grade is not None and grade < mark}


def _first_cases(case_ids: set[str], config: CalibrationConfig) -> list[str]:
    # By the hash of the id: as good as random, and another case in the run changes no choice.
    by_key = sorted(case_ids, key=lambda case_id: (sample_key(case_id), case_id))
    return sorted(by_key[: config.canaries])
