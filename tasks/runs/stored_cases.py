"""The cases of a stored run as they were heard: read again from where their transcripts lie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from assizes.judge.case import Case
from assizes.judge.catalog import resolve_judges
from assizes.judge.config.run import RunConfig, TranscriptsConfig
from assizes.judge.engine.replay_hearing import ReplayedHearing, replay_hearing
from assizes.judge.errors import DataError, UnknownCase
from assizes.tasks.intake.plan import Shard
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.intake.shards import read_shard
from assizes.tasks.sandbox.sql_runner import SandboxSqlRunner
from assizes.tasks.sources.spool import Spool
from assizes.tasks.store import RunRecord, Store

TABLES = ("cases", "scores", "asks")


@dataclass(frozen=True, slots=True)
class StoredExecution:
    """What a run keeps of one execution of a case: its row, and the rows below it."""

    case: dict[str, Any]
    scores: list[dict[str, Any]]
    asks: list[dict[str, Any]]


def stored_executions(
    store: Store, run_id: str, case_id: str, repetition: int | None
) -> list[StoredExecution]:
    """Every execution of a case in a run, or one of them, by repetition.

    Raises:
        UnknownRun: the store has no such run.
        UnknownCase: the run has no such case.
    """
    full_id = store.run(run_id).run_id
    condition = pl.col("case_id") == case_id
    if repetition is not None:
        condition &= pl.col("repetition") == repetition
    rows = {name: store.scan(full_id, name).filter(condition).collect() for name in TABLES}
    if rows["cases"].is_empty():
        raise UnknownCase(f"run {full_id!r} has no case {case_id!r}; its report lists them")
    order = {
        "scores": ["judge", "metric", "part"],
        "asks": ["judge", "sample", "round", "index", "model"],
    }
    executions = []
    for case in rows["cases"].sort("repetition").iter_rows(named=True):
        same = pl.col("repetition") == case["repetition"]
        below = {name: rows[name].filter(same).sort(by).to_dicts() for name, by in order.items()}
        executions.append(StoredExecution(case, below["scores"], below["asks"]))
    return executions


def run_config(record: RunRecord) -> RunConfig:
    """The configuration that a run was frozen with."""
    settings = {
        name: record.config[name] for name in RunConfig.model_fields if name in record.config
    }
    return RunConfig.model_validate(settings)


def reread_case(record: RunRecord, row: Mapping[str, Any]) -> Case:
    """A case of a run, from its transcript's object; redacted as what the run stored.

    Args:
        record: the run, with its plan.
        row: of table cases.

    Raises:
        DataError: the object is gone or has changed since.
        ConfigurationError: the ground truth of the run is gone.
    """
    (result,) = reread_cases(record, [row])
    if isinstance(result, DataError):
        raise result
    return result


def reread_cases(
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
    preprocessor = CasePreprocessor.from_config(config)
    with Spool.of(config.transcripts) as spool:
        place = (config.transcripts, spool, preprocessor)
        cases = [_case_as_sent(record, row, place, most_bytes) for row in rows]
    return [
        case if isinstance(case, DataError) else preprocessor.displayed_case(case) for case in cases
    ]


def _case_as_sent(
    record: RunRecord,
    row: Mapping[str, Any],
    place: tuple[TranscriptsConfig, Spool, CasePreprocessor],
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
        (shard_record,) = read_shard(shard, *place)
        if shard_record.case is None:
            return shard_record.reject or DataError("vanished", "its record is gone")
        if shard_record.case.content_hash() != row["transcript_hash"]:
            return DataError("changed", "the transcript is not the one that was judged")
        return shard_record.case
    return DataError("vanished", f"no shard of run {record.run_id} holds {uri} at {position}")


async def replay_stored_hearing(
    record: RunRecord, execution: StoredExecution, judge: str, most_bytes: int | None = None
) -> list[ReplayedHearing]:
    """What a judge of a run asked about a case, as it was sent, and what it was answered.

    Raises:
        DataError: the transcript is gone or has changed since, or lies in an object of more than
            `most_bytes`.
        ConfigurationError: the judge or the case cannot be made any more: a rubric folder or the
            ground truth is gone.
    """
    config = run_config(record)
    with Spool.of(config.transcripts) as spool:
        place = (config.transcripts, spool, CasePreprocessor.from_config(config))
        case = _case_as_sent(record, execution.case, place, most_bytes)
    if isinstance(case, DataError):
        raise case
    rows = [row for row in execution.asks if row["judge"] == judge]
    sql_runner = SandboxSqlRunner.of(config)
    try:
        for candidate in resolve_judges(config.judge).judges_for(case):
            if candidate.name == judge:
                return await replay_hearing(candidate, case, rows, sql_runner)
    finally:
        await sql_runner.aclose()
    return []
