"""Reads the cases of a stored run again, from the objects that hold their transcripts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import polars as pl

from assizes.judge.case import Case
from assizes.judge.catalog import resolve_judges
from assizes.judge.config.gates import STORED
from assizes.judge.config.run import RunConfig
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.engine.ask_records import ReplayedHearing, replay_hearing
from assizes.judge.errors import DataError, UnknownCase
from assizes.judge.summary.headlines import case_tier_scores
from assizes.tasks.intake.plan import Shard
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.intake.shards import read_shard
from assizes.tasks.sandbox.sql_runner import SandboxSqlRunner
from assizes.tasks.sources.spool import Spool
from assizes.tasks.store import RunRecord, Store

TABLES = ("cases", "scores", "asks")

_NUMBERS: Final = 20  # repetitions that a message names, at most


@dataclass(frozen=True, slots=True)
class StoredExecution:
    """The rows of a run about one execution of a case; the store keeps no transcript."""

    case: dict[str, Any]  # the row of table `cases`, and `tier_scores`: 0..100 by tier
    scores: list[dict[str, Any]]  # in the order of judge, metric and part
    asks: list[dict[str, Any]]  # in the order of asking, judge by judge


class _TranscriptAccess(NamedTuple):
    """What it takes to read a shard of a run again."""

    transcripts: TranscriptsConfig
    spool: Spool
    preprocessor: CasePreprocessor


def stored_executions(
    store: Store, run_id: str, case_id: str, repetition: int | None
) -> list[StoredExecution]:
    """Every execution of a case in a run, or the one of a repetition.

    The run is named by its id or another name.

    Raises:
        UnknownRun: the store has no such run.
        UnknownCase: the run has no such case, or the case no such repetition.
    """
    full_id = store.full_id(run_id)
    rows = {name: store.rows_of_cases(full_id, name, [case_id]) for name in TABLES}
    numbers = sorted(rows["cases"]["repetition"])
    if not numbers:
        raise UnknownCase(f"run {full_id!r} has no case {case_id!r}")
    if repetition is not None:
        if repetition not in numbers:
            known = ", ".join(map(str, numbers[:_NUMBERS]))
            raise UnknownCase(
                f"case {case_id!r} of run {full_id!r} has no repetition {repetition}; it has {known}"
            )
        same = pl.col("repetition") == repetition
        rows = {name: table.filter(same) for name, table in rows.items()}
    order = {
        "scores": ["judge", "metric", "part"],
        "asks": ["judge", "sample", "round", "index", "model"],
    }
    executions = []
    for case in rows["cases"].sort("repetition").iter_rows(named=True):
        same = pl.col("repetition") == case["repetition"]
        below = {name: rows[name].filter(same).sort(by).to_dicts() for name, by in order.items()}
        # Computed from its scores, which the runs of older versions hold as well.
        tiers = case_tier_scores(rows["scores"].filter(same)) if case["status"] == "judged" else {}
        case |= {"tier_scores": tiers}
        executions.append(StoredExecution(case, below["scores"], below["asks"]))
    return executions


def run_config(record: RunRecord) -> RunConfig:
    """The configuration that a run was begun with, from its stored snapshot."""
    stored = record.config
    names = [name for name in RunConfig.model_fields if name in stored]  # newer ones: defaults
    return RunConfig.model_validate({name: stored[name] for name in names}, context=STORED)


def reread_case(record: RunRecord, row: Mapping[str, Any]) -> Case:
    """Read one case, by its row of table `cases`, again, redacted as the run stored it.

    Raises:
        DataError: the object of the transcript is gone or has changed since.
        ConfigurationError: the ground truth of the run is gone.
    """
    (result,) = reread_cases(record, [row])
    if isinstance(result, DataError):
        raise result
    return result


def reread_cases(
    record: RunRecord, rows: Iterable[Mapping[str, Any]], most_bytes: int | None = None
) -> list[Case | DataError]:
    """Read several cases of a run again, in the order of their rows of table `cases`.

    A case that cannot be read is replaced by its error, as is one in an object of over
    `most_bytes`.

    Raises:
        ConfigurationError: the ground truth of the run is gone.
    """
    config = run_config(record)
    preprocessor = CasePreprocessor.from_config(config)
    with Spool.of(config.transcripts) as spool:
        access = _TranscriptAccess(config.transcripts, spool, preprocessor)
        cases = [_case_as_sent(record, row, access, most_bytes) for row in rows]
    return [
        case if isinstance(case, DataError) else preprocessor.displayed_case(case) for case in cases
    ]


def _case_as_sent(
    record: RunRecord,
    row: Mapping[str, Any],
    access: _TranscriptAccess,
    most_bytes: int | None = None,
) -> Case | DataError:
    """The case exactly as its judges received it, checked by the hash of its transcript."""
    uri, position = row["transcript_uri"], row["position"]
    for body in record.plan.get("shards", ()):
        if body["uri"] != uri or not body["start"] <= position < body["stop"]:
            continue
        if most_bytes is not None and body["size"] > most_bytes:
            return DataError("too_large", f"{uri} has {body['size']:,} bytes")
        shard = Shard.from_dict({**body, "take": [position], "rejected": []})  # this record alone
        (shard_record,) = read_shard(shard, *access)
        if shard_record.case is None:
            return shard_record.reject or DataError("vanished", "its record is gone")
        # Today's code may read the same bytes as another case than the one that was judged.
        if shard_record.case.content_hash() != row["transcript_hash"]:
            return DataError("changed", "the transcript is not the one that was judged")
        return shard_record.case
    return DataError("vanished", f"no shard of run {record.run_id} holds {uri} at {position}")


def sent_and_shown_cases(
    record: RunRecord, rows: Iterable[Mapping[str, Any]]
) -> list[tuple[Case, Case] | DataError]:
    """Cases of a run as its judges were sent them, and as people may see them.

    Raises:
        ConfigurationError: the ground truth of the run is gone.
    """
    config = run_config(record)
    preprocessor = CasePreprocessor.from_config(config)
    with Spool.of(config.transcripts) as spool:
        access = _TranscriptAccess(config.transcripts, spool, preprocessor)
        cases = [_case_as_sent(record, row, access) for row in rows]
    return [
        case if isinstance(case, DataError) else (case, preprocessor.displayed_case(case))
        for case in cases
    ]


async def replay_stored_hearing(
    record: RunRecord, execution: StoredExecution, judge: str, most_bytes: int | None = None
) -> list[ReplayedHearing]:
    """The asks of a judge about a case, rendered again as they were sent, with their replies.

    Raises:
        DataError: the transcript is gone or has changed, or its object is larger than `most_bytes`.
        ConfigurationError: a rubric folder or the ground truth of the run is gone.
    """
    config = run_config(record)
    with Spool.of(config.transcripts) as spool:
        preprocessor = CasePreprocessor.from_config(config)
        access = _TranscriptAccess(config.transcripts, spool, preprocessor)
        case = _case_as_sent(record, execution.case, access, most_bytes)
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
    return []  # the judge has no say in this case
