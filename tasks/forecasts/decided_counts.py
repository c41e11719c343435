"""How far a run that stops when it is decided would go, by its plan and by earlier runs."""

from __future__ import annotations

from collections.abc import Mapping

import polars as pl

from assizes.judge.comparison.runs import case_table
from assizes.judge.config.run import RunConfig
from assizes.judge.config.sampling import sampling_fault
from assizes.judge.errors import UnknownRun
from assizes.judge.forecast.ask_forecast import AskGroup, AskTally
from assizes.judge.forecast.cost_options import DecidedChoice
from assizes.judge.forecast.decided import (
    MAX_EARLIER_CASES,
    DecidedRun,
    EarlierCases,
    equal_looks,
    stop_estimate,
)
from assizes.judge.rows import COMPLETE
from assizes.judge.statistics.intervals import MIN_CLUSTERS
from assizes.tasks.intake.plan import Plan
from assizes.tasks.intake.waves import looks_before_end, waves_in
from assizes.tasks.runs.stored_runs import RULES, baseline_by_name
from assizes.tasks.store import Store

_MIN_OVERLAP = 0.5  # share of its cases that an earlier run must have in common with the one before


def may_stop_early(config: RunConfig) -> bool:
    """Whether a run with this configuration stops when it is decided, or could."""
    decided = config.sampling.model_copy(update={"until": "decided"})
    partial = {"batch": config.runner.batch, "since_last": config.transcripts.since_last}
    is_rerun = config.transcripts.again is not None
    return not is_rerun and sampling_fault(decided, config.comparison, **partial) is None


def earlier_cases(store: Store, config: RunConfig) -> EarlierCases | None:
    """The cases of the run that a new one is most like: its fixed baseline, else the latest.

    `None`: there is no complete run of this name with cases enough for a look.
    """
    index = store.run_index().filter(pl.col("status") == COMPLETE, pl.col("name") == config.name)
    run_ids = index["run_id"].to_list()
    baseline = config.comparison.baseline
    if baseline is not None and baseline not in RULES:
        try:
            named = baseline_by_name(store, baseline).run_id
        except UnknownRun:  # the run itself would say so
            return None
        run_ids = [named, *(run_id for run_id in run_ids if run_id != named)]
    if not run_ids:
        return None
    table = _scored_cases(store, run_ids[0])
    if table["cluster"].n_unique() < MIN_CLUSTERS:
        return None
    changes = None
    if len(run_ids) > 1:
        before = _scored_cases(store, run_ids[1]).rename({"passes": "old_passes", "score": "old"})
        joined = table.join(before.drop("cluster"), on="case_id", how="inner")
        if joined.height >= _MIN_OVERLAP * table.height:
            table = joined
            changes = tuple(
                (joined[new] - joined[old]).to_numpy()
                for new, old in (("passes", "old_passes"), ("score", "old"))
            )
    return EarlierCases(
        run_id=run_ids[0],
        passes=table["passes"].to_numpy(),
        scores=table["score"].to_numpy(),
        clusters=(table["cluster"].rank("dense").to_numpy() - 1).astype("int64"),
        changes=None if changes is None else (changes[0], changes[1]),
    )


def _scored_cases(store: Store, run_id: str) -> pl.DataFrame:
    """The cases of a run that have a score, with their passes (0..1) and scores (0..100)."""
    table = case_table(store.scan(run_id, "cases")).cases.filter(pl.col("scored") > 0)
    return table.head(MAX_EARLIER_CASES).select(
        "case_id",
        "cluster",
        passes=pl.col("passes").cast(pl.Float64) / pl.col("runs"),
        score=pl.col("total").cast(pl.Float64) / pl.col("scored"),
    )


def decided_choice(
    config: RunConfig, intake: Plan, earlier: EarlierCases | None, calls: tuple[int, int] | None
) -> tuple[DecidedChoice | None, str | None]:
    """How far the run goes if it stops when it is decided, and what to say where it cannot.

    `calls` are those before the first look and those of all cases, where both were counted.
    """
    if not may_stop_early(config):
        return None, None
    sampling, is_configured = config.sampling, config.sampling.stops
    shares = looks_before_end(waves_in(intake.design)) if is_configured else ()
    if not is_configured and intake.due:
        shares = equal_looks(intake.due, sampling.looks, sampling.min_cases)
    setting = '[sampling] until = "decided"'
    if not shares:
        note = f"{setting}: {intake.due} cases are too few for a look, so every case is judged"
        return None, note if is_configured else None
    if earlier is None and config.comparison.baseline in RULES:
        note = f"{setting}: the first run of a series judges every case, as the next one's baseline"
        return None, note if is_configured else None
    if earlier is None:
        return DecidedChoice(is_configured, shares[0], calls=calls), None
    run = DecidedRun(intake.due, shares, sampling.certainty, config.comparison, config.thresholds)
    source = f"{earlier.passes.size:,} cases of {earlier.run_id}"
    estimate = stop_estimate(earlier, run)
    return DecidedChoice(is_configured, shares[0], estimate, source, calls), None


def counted_calls(tallies: Mapping[AskGroup, AskTally]) -> int:
    """The calls that the counted asks of paid models would be if no reply were kept."""
    return sum(tally.asks - tally.same for tally in tallies.values())
