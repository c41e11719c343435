"""The id of a run: from content, so that the same work has the same id; another for asking anew."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from itertools import chain, count
from typing import Any

import polars as pl

from assizes.judge.config.run import RunConfig
from assizes.judge.models.replayed import NOT_CACHED
from assizes.judge.rows import COMPLETE, as_json
from assizes.tasks.intake.plan import Plan
from assizes.tasks.spending.ledger_file import known_runs
from assizes.tasks.store import RunRecord, Store
from assizes.tasks.store.record import is_same_run

REFRESHED = "r"
"""Runs that ask anew are `<id>-r2`, `<id>-r3`, ... beside the first."""

REPLAYED = "replay"
"""Runs over kept replies alone are `<id>-replay1`, ...: what they lack must not stand for the run."""

FORKED = "f"
"""Runs with another configuration or input than the one of that id are `<id>-f2`, `<id>-f3`, ..."""


def content_run_id(config: RunConfig, intake: Plan, fingerprints: dict[str, str]) -> str:
    """`<name>-<12 hex>` from configuration, input and judge fingerprints: never from the clock."""
    body = as_json([config.config_hash(), intake.content_hash, fingerprints])
    return f"{config.name}-{hashlib.sha256(body.encode()).hexdigest()[:12]}"


def chosen_run_id(base: str, config: RunConfig, store: Store, *, costs: bool) -> str:
    """The id under which a run that was given none begins, or goes on.

    Args:
        base: its content id.
        config: `[cache] use` decides.
        store: where runs are that began before.
        costs: whether a model of the run is paid for; the ledger then knows runs whose replies
            would be taken for this run's own.

    Raises:
        StoreError: when the store or the ledger cannot be read.
    """
    use = config.cache.use
    if use == "read_write":
        return base
    of_base = pl.col("run_id").str.starts_with(base)
    runs = {row["run_id"]: row for row in store.runs().filter(of_base).iter_rows(named=True)}
    if use == "replay_only":
        return _replay_run_id(base, runs)
    return _refresh_run_id(base, runs, known_runs(config.limits.ledger) if costs else ())


def forked_run_id(store: Store, record: RunRecord) -> str:
    """The id of a run, or `<id>-f2`, `<id>-f3`, ...: the first under which nothing was begun, or just
    this configuration over just this input.
    """
    candidates = chain([record.run_id], (f"{record.run_id}-{FORKED}{n}" for n in count(2)))
    begun = set(store.runs()["run_id"])
    return next(
        candidate
        for candidate in candidates
        if candidate not in begun or is_same_run(store.run(candidate), record)
    )


def _replay_run_id(base: str, runs: Mapping[str, Any]) -> str:
    """The run itself where it is complete, else a run of its own, until none lacks a reply."""
    if base in runs and runs[base]["status"] == COMPLETE:
        return base
    candidates = (f"{base}-{REPLAYED}{number}" for number in count(1))
    return next(candidate for candidate in candidates if not _lacks_replies(runs.get(candidate)))


def _refresh_run_id(base: str, runs: Mapping[str, Any], paid: Collection[str]) -> str:
    """The first id under which nothing was asked yet, or asking anew has not ended."""
    candidates = chain([base], (f"{base}-{REFRESHED}{number}" for number in count(2)))
    return next(
        candidate
        for candidate in candidates
        if (_asks_anew(runs[candidate]) if candidate in runs else candidate not in paid)
    )


def _asks_anew(run: Mapping[str, Any]) -> bool:
    """Whether it is a run that asked anew and has not ended."""
    use = json.loads(run["config"]).get("cache", {}).get("use")
    return bool(use == "refresh" and run["status"] != COMPLETE)


def _lacks_replies(run: Mapping[str, Any] | None) -> bool:
    """Whether it ended for good with asks that no reply was kept for."""
    if run is None or run["status"] != COMPLETE:
        return False
    return bool(json.loads(run["summary"] or "{}").get("failures", {}).get(NOT_CACHED))
