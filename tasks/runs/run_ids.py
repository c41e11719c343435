"""The ids of runs: hashes of what a run does, so that the same work always has the same id.

A suffix tells runs apart that do the same work again: refreshed, replayed and forked runs.
"""

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
from assizes.tasks.runs.baselines import cache_use
from assizes.tasks.spending.ledger_file import known_runs
from assizes.tasks.store import RunRecord, Store
from assizes.tasks.store.record import is_same_run

REFRESHED = "r"
"""Suffix of runs that ask their models anew: `<id>-r2`, `<id>-r3`, ..."""

REPLAYED = "replay"
"""Suffix of runs that only replay cached replies: `<id>-replay1`, ...

They have ids of their own because replies can be missing from the cache, and a run without them
must not take the place of a complete run.
"""

FORKED = "f"
"""Suffix of runs whose id is taken by another configuration or input: `<id>-f2`, `<id>-f3`, ..."""


def content_run_id(config: RunConfig, intake: Plan, fingerprints: dict[str, str]) -> str:
    """The id `<name>-<12 hex digits>`, a hash of configuration, input and judges, not of the time.

    Args:
        config: configuration of the run.
        intake: plan of the run, with the hash of its input.
        fingerprints: hashes of the prompts and rubrics of the judges, by name.
    """
    body = as_json([config.config_hash(), intake.content_hash, fingerprints])
    return f"{config.name}-{hashlib.sha256(body.encode()).hexdigest()[:12]}"


def chosen_run_id(base: str, config: RunConfig, store: Store, *, costs: bool) -> str:
    """The id of a run that begins or is resumed, where the user gave no id.

    Args:
        base: id of the run from `content_run_id`.
        config: configuration of the run; its `[cache] use` decides which suffix is needed.
        store: holds the runs that have begun.
        costs: whether a model of the run costs money; then ids in the ledger are taken as well, as
            their cached replies would be used as replies of this run.

    Raises:
        StoreError: the store or the ledger cannot be read.
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
    """The first id of `<id>`, `<id>-f2`, `<id>-f3`, ... that is free or has the same work.

    An id has the same work if its run has the same configuration and the same input.
    """
    candidates = chain([record.run_id], (f"{record.run_id}-{FORKED}{n}" for n in count(2)))
    begun = set(store.runs()["run_id"])
    return next(
        candidate
        for candidate in candidates
        if candidate not in begun or is_same_run(store.run(candidate), record)
    )


def _replay_run_id(base: str, runs: Mapping[str, Any]) -> str:
    """The base id if that run is complete, else the first replay id that does not lack a reply."""
    if base in runs and runs[base]["status"] == COMPLETE:
        return base
    candidates = (f"{base}-{REPLAYED}{number}" for number in count(1))
    return next(candidate for candidate in candidates if not _lacks_replies(runs.get(candidate)))


def _refresh_run_id(base: str, runs: Mapping[str, Any], paid: Collection[str]) -> str:
    """The first id under which no run has asked anything, or a refreshing run has not ended."""
    candidates = chain([base], (f"{base}-{REFRESHED}{number}" for number in count(2)))
    return next(
        candidate
        for candidate in candidates
        if (_is_refreshing(runs[candidate]) if candidate in runs else candidate not in paid)
    )


def _is_refreshing(run: Mapping[str, Any]) -> bool:
    return cache_use(run) == "refresh" and run["status"] != COMPLETE


def _lacks_replies(run: Mapping[str, Any] | None) -> bool:
    """Whether a run is complete, but some of its asks had no cached reply."""
    if run is None or run["status"] != COMPLETE:
        return False
    return bool(json.loads(run["summary"] or "{}").get("failures", {}).get(NOT_CACHED))
