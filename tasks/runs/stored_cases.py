"""The cases of a stored run as they were heard: read again from where their transcripts lie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from assizes.judge.case import Case
from assizes.judge.catalog import court
from assizes.judge.config.run import RunConfig, TranscriptsConfig
from assizes.judge.engine.replay_hearing import Retold, retell
from assizes.judge.errors import DataError, UnknownCase
from assizes.tasks.intake.preprocessing import Treatment
from assizes.tasks.intake.shard import Shard
from assizes.tasks.intake.shards import read_shard
from assizes.tasks.sandbox.sql_runner import SandboxClerk
from assizes.tasks.sources.objects import Spool
from assizes.tasks.store import RunRecord, Store

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
    """A case of a run, from its transcript's object; redacted as what the run stored.

    Args:
        record: the run, with its plan.
        row: of table cases.

    Raises:
        DataError: the object is gone or has changed since.
        ConfigurationError: the ground truth of the run is gone.
    """
    (found,) = reread_each(record, [row])
    if isinstance(found, DataError):
        raise found
    return found


def reread_each(
    record: RunRecord, rows: Iterable[Mapping[str, Any]], most_bytes: int | None = None
) -> list[Case | DataError]:
    """Several cases of a run, in order; in place of one that cannot be had, why.

    Args:
        record: the run, with its plan.
        rows: of table cases.
        most_bytes: objects larger than this are not fetched; null: any are.

    Raises:
        ConfigurationError: the ground truth of the run is gone.
    """
    config = run_config(record)
    treatment = Treatment.of(config)
    with Spool.of(config.transcripts) as spool:
        place = (config.transcripts, spool, treatment)
        found = [_as_sent(record, row, place, most_bytes) for row in rows]
    return [one if isinstance(one, DataError) else treatment.shown(one) for one in found]


def _as_sent(
    record: RunRecord,
    row: Mapping[str, Any],
    place: tuple[TranscriptsConfig, Spool, Treatment],
    most_bytes: int | None = None,
) -> Case | DataError:
    """The case as the judges had it."""
    uri, position = row["transcript_uri"], row["position"]
    for body in record.plan.get("shards", ()):
        if body["uri"] != uri or not body["start"] <= position < body["stop"]:
            continue
        if most_bytes is not None and body["size"] > most_bytes:
            return DataError("too_large", f"{uri} has {body['size']:,} bytes")
        shard = Shard.from_dict({**body, "take": [position], "rejected": []})
        (found,) = read_shard(shard, *place)
        if found.case is None:
            return found.reject or DataError("vanished", "its record is gone")
        if found.case.content_hash() != row["transcript_hash"]:
            return DataError("changed", "the transcript is not the one that was judged")
        return found.case
    return DataError("vanished", f"no shard of run {record.run_id} holds {uri} at {position}")


async def retold(
    record: RunRecord, kept: Kept, judge: str, most_bytes: int | None = None
) -> list[Retold]:
    """What a judge of a run asked about a case, as it was sent, and what it was answered.

    Raises:
        DataError: the transcript is gone or has changed since, or lies in an object of more than
            `most_bytes`.
        ConfigurationError: the judge or the case cannot be made any more: a rubric folder or the
            ground truth is gone.
    """
    config = run_config(record)
    with Spool.of(config.transcripts) as spool:
        place = (config.transcripts, spool, Treatment.of(config))
        case = _as_sent(record, kept.case, place, most_bytes)
    if isinstance(case, DataError):
        raise case
    rows = [row for row in kept.asks if row["judge"] == judge]
    clerk = SandboxClerk.of(config)
    try:
        for one in court(config.judge).sitting_on(case):
            if one.name == judge:
                return await retell(one, case, rows, clerk)
    finally:
        await clerk.aclose()
    return []
