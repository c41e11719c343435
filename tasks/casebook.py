"""The cases of a stored run as they were heard: read again from where their transcripts lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from judge.case import Case
from judge.catalog import court
from judge.config import RunConfig
from judge.errors import DataError, UnknownCase
from judge.retold import Retold, retell
from tasks.clerk import SandboxClerk
from tasks.intake import Shard, read_shard
from tasks.objects import Spool
from tasks.store import RunRecord, Store

TABLES = ("cases", "scores", "asks")


@dataclass(frozen=True, slots=True)
class Kept:
    """What a run keeps of one execution of a case: its row, and the rows below it."""

    case: dict[str, Any]
    scores: list[dict[str, Any]]
    asks: list[dict[str, Any]]


def kept_rows(store: Store, run_id: str, case_id: str, repetition: int | None) -> list[Kept]:
    """Every execution of a case in a run, or one of them, by repetition.

    Raises:
        UnknownRun: the store has no such run.
        UnknownCase: the run has no such case.
    """
    full_id = store.run(run_id).run_id
    wanted = pl.col("case_id") == case_id
    if repetition is not None:
        wanted &= pl.col("repetition") == repetition
    rows = {name: store.scan(full_id, name).filter(wanted).collect() for name in TABLES}
    if rows["cases"].is_empty():
        raise UnknownCase(f"run {full_id!r} has no case {case_id!r}; its report lists them")
    order = {
        "scores": ["judge", "metric", "part"],
        "asks": ["judge", "sample", "round", "index", "model"],
    }
    found = []
    for case in rows["cases"].sort("repetition").iter_rows(named=True):
        same = pl.col("repetition") == case["repetition"]
        below = {name: rows[name].filter(same).sort(by).to_dicts() for name, by in order.items()}
        found.append(Kept(case, below["scores"], below["asks"]))
    return found


def run_config(record: RunRecord) -> RunConfig:
    """The configuration that a run was frozen with."""
    known = {name: record.config[name] for name in RunConfig.model_fields if name in record.config}
    return RunConfig.model_validate(known)


def reread(record: RunRecord, row: Mapping[str, Any]) -> Case:
    """A case of a run, from its transcript's object; redacted as it was for the run.

    Args:
        record: the run, with its plan.
        row: of table cases.

    Raises:
        DataError: the object is gone or has changed since.
    """
    uri, position = row["transcript_uri"], row["position"]
    config = run_config(record).transcripts
    for body in record.plan["shards"]:
        if body["uri"] == uri and body["start"] <= position < body["stop"]:
            shard = Shard.from_dict({**body, "take": [position], "rejected": []})
            with Spool.of(config) as spool:
                (found,) = read_shard(shard, config, spool)
            if found.case is None:
                raise found.reject or DataError("vanished", "its record is gone")
            return _same(found.case, row)
    raise DataError("vanished", f"no shard of run {record.run_id} holds {uri} at {position}")


def _same(case: Case, row: Mapping[str, Any]) -> Case:
    if case.content_hash() != row["transcript_hash"]:
        raise DataError("changed", "the transcript is not the one that was judged")
    return case


async def retold(record: RunRecord, kept: Kept, judge: str) -> list[Retold]:
    """What a judge of a run asked about a case, and what it was answered.

    Raises:
        DataError: the transcript is gone or has changed since.
        ConfigurationError: the judge cannot be made any more: its rubric folder is gone.
    """
    case = reread(record, kept.case)
    bench = court(run_config(record).judge)
    rows = [row for row in kept.asks if row["judge"] == judge]
    clerk = SandboxClerk()
    try:
        for one in bench.judges:
            if one.name == judge:
                return await retell(one, case, rows, clerk)
    finally:
        await clerk.aclose()
    return []
