"""Looks at a run that may stop early: made once each, kept beside the shards of the run.

A look is a commit without rows whose name is no shard's. The first commit of a name stands, so a run
that is resumed, or that two processes judge, finds each look as it was made first and spends no
second chance of a false alarm on it.
"""

from __future__ import annotations

from typing import Final

from assizes.judge.comparison.interim import InterimLook, LookPlan, bounds_of_all, look
from assizes.judge.comparison.runs import RunData
from assizes.judge.config.run import RunConfig
from assizes.judge.rows import COMPLETE
from assizes.judge.selection import WaveRules
from assizes.judge.summary.early_stop import EarlyStop
from assizes.tasks.intake.plan import Plan
from assizes.tasks.intake.waves import looks_before_end, waves_in
from assizes.tasks.runs.stored_comparison import baseline_id, run_data
from assizes.tasks.runs.stored_runs import RULES
from assizes.tasks.store import RunRecord, Store
from assizes.tasks.store.record import LOOK_PREFIX

_LOOK: Final = LOOK_PREFIX + "{:02d}"
"""The name of a look by its number, from 1."""

_STOPS: Final = "stops"
"""Key of a look's counts: 1 where the run stops at it, else 0."""


def wave_rules(config: RunConfig) -> WaveRules | None:
    """How a run with this configuration is cut into waves; `None`: it judges all its cases."""
    sampling = config.sampling
    if not sampling.stops or config.transcripts.again is not None:
        return None
    critical = frozenset(config.comparison.critical_cases)
    return WaveRules(sampling.looks, sampling.min_cases, critical)


def stops_after(store: Store, config: RunConfig, record: RunRecord, plan: Plan, wave: int) -> bool:
    """Whether a run stops once all shards up to a wave, from 1, are committed.

    The first answer for a wave is kept in the store, and later calls repeat it.
    """
    name = _LOOK.format(wave)
    if (kept := store.shard_counts(record.run_id).get(name)) is None:
        baseline = _baseline(store, config, record)
        interim = _look(store, config, record, plan, wave, baseline)
        stops = interim.stops and not _must_be_whole(config, baseline, interim)
        store.commit_shard(record.run_id, name, {}, {_STOPS: int(stops)})
        kept = store.shard_counts(record.run_id)[name]  # that of another process, if it was first
    return bool(kept[_STOPS])


def early_stop(store: Store, config: RunConfig, record: RunRecord, plan: Plan) -> EarlyStop | None:
    """Why a run stopped before its last case; `None` where it did not."""
    waves, kept = waves_in(plan.design), store.shard_counts(record.run_id)
    stops = (w for w in range(1, len(waves)) if kept.get(_LOOK.format(w), {}).get(_STOPS))
    if (wave := next(stops, None)) is None:
        return None
    interim = _look(store, config, record, plan, wave, _baseline(store, config, record))
    not_needed = sum(len(shard.due_positions()) for shard in plan.shards[waves[wave - 1].shards :])
    rate, score = bounds_of_all(store.scan(record.run_id, "cases"), not_needed)
    return EarlyStop(
        look=wave,
        looks=len(waves) - 1,
        cases=waves[wave - 1].cases,
        of=waves[-1].cases,
        not_needed=not_needed,
        certainty=config.sampling.certainty,
        comparison=interim.comparison,
        gates=interim.gates,
        pass_rate_pct=rate,
        avg_overall_score=score,
    )


def _baseline(store: Store, config: RunConfig, record: RunRecord) -> RunData | None:
    """The rows of the complete run to compare with; `None` where there is none."""
    if (wanted := baseline_id(store, config.comparison.baseline, record)) is None:
        return None
    baseline = run_data(store, wanted)
    return baseline if baseline.status == COMPLETE else None


def _must_be_whole(config: RunConfig, baseline: RunData | None, interim: InterimLook) -> bool:
    """Whether a run of a series judges all its cases, so that later runs have a baseline to go by.

    That is so for the first run, and where a baseline that was cut short leaves the answer open: a
    series would otherwise stay with few cases, and inconclusive, for good.
    """
    if config.comparison.baseline not in RULES:
        return False
    if baseline is None:
        return True
    is_cut = baseline.summary is not None and baseline.summary.early_stop is not None
    return is_cut and interim.comparison == "inconclusive"


def _look(
    store: Store,
    config: RunConfig,
    record: RunRecord,
    plan: Plan,
    wave: int,
    baseline: RunData | None,
) -> InterimLook:
    shares = looks_before_end(waves_in(plan.design))
    where = LookPlan(shares, wave, config.sampling.certainty)
    judged = run_data(store, record.run_id)
    return look(judged, baseline, where, config.comparison, config.thresholds)
