"""Selects the records of a run that goes by earlier runs: new ones, or those that were left over.

The rows of earlier runs are the watermark (decision 85). A rerun is a run of its own, which names
the earlier run in its configuration, `[transcripts] again` (decision 39).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import polars as pl

from assizes.judge.case import Case, Transcript
from assizes.judge.catalog import JudgePanel, fingerprints
from assizes.judge.config.run import RunConfig
from assizes.judge.config.transcripts import RerunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.rows import COMPLETE
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.intake.plan import (
    DUE,
    JUDGED_BEFORE,
    NOT_QUIET,
    REJECTED,
    UNSELECTED,
    Plan,
    RecordSelector,
    digest,
    identity,
)
from assizes.tasks.runs.stored_runs import day_of
from assizes.tasks.sources.listing import TranscriptSource
from assizes.tasks.store import RunRecord, Store

_PARTIAL_SETTINGS: Final = (
    *("limit", "number", "per_stratum", "stratify_by"),
    *("since_last", "quiet_minutes"),
)
"""Settings under which a run takes only some of the records that it could read."""

_KEY_BYTES: Final = 16  # 128 bits: no two of a billion cases share a key

WARNINGS: Final = {
    "judged_before": "since_last: {} records that were read are cases which earlier runs have judged",
    "not_quiet": "quiet_minutes: {} records are not quiet yet and left to a later run",
}
"""A warning of the run for each reason why records were left out, with a place for their number."""


@dataclass(frozen=True, slots=True)
class RemainingRecords:
    """The records that a run did not judge in one object, as it was then."""

    source: TranscriptSource
    positions: frozenset[int] | None  # of the records; `None`: the object as a whole


@dataclass(frozen=True, slots=True)
class QuarantinedSelector:
    """Selects the records that an earlier run rejected."""

    remaining: Mapping[str, RemainingRecords]  # by URI
    judged_hashes: Mapping[bytes, str]  # identity of a judged case -> hash of its content
    limited: bool  # the earlier run took only some records, so positions count exactly

    @property
    def objects(self) -> Iterable[TranscriptSource]:
        """The objects that have a rejected record."""
        return [self.remaining[uri].source for uri in sorted(self.remaining)]

    def fate(self, source: TranscriptSource, position: int, case: Case) -> int:
        """Due, unless the case is judged already; with another content it is rejected again."""
        if not self._can_be_remaining(source, position):
            return UNSELECTED
        judged_hash = self.judged_hashes.get(identity(case.case_id, case.repetition))
        if judged_hash is None:
            return DUE
        return UNSELECTED if judged_hash == case.content_hash() else REJECTED

    def fate_unread(self, source: TranscriptSource, position: int) -> int:
        """Rejected again, if the record is one of the remaining records."""
        return REJECTED if self._can_be_remaining(source, position) else UNSELECTED

    def _can_be_remaining(self, source: TranscriptSource, position: int) -> bool:
        """Whether a record of the object as it is now may be one of the remaining records."""
        then = self.remaining[source.uri]
        # In a corrected object records may have moved: any may be one, unless positions are exact.
        if then.positions is None or not (self.limited or source.etag == then.source.etag):
            return True
        return position in then.positions


@dataclass(frozen=True, slots=True)
class ErroredSelector:
    """Selects the cases of an earlier run that ended with an error."""

    objects: tuple[TranscriptSource, ...]  # those that hold the cases
    wanted_hashes: Mapping[bytes, str]  # identity of a case -> hash of its content

    def fate(self, source: TranscriptSource, position: int, case: Case) -> int:
        """Due, if the case is one of them and its content has not changed."""
        del source, position
        wanted_hash = self.wanted_hashes.get(identity(case.case_id, case.repetition))
        return DUE if wanted_hash == case.content_hash() else UNSELECTED

    def fate_unread(self, source: TranscriptSource, position: int) -> int:
        """Unselected: a record that cannot be read was not among the judged cases."""
        del source, position
        return UNSELECTED


def rerun_selector(store: Store, again: RerunConfig | None) -> RecordSelector | None:
    """The selector of a rerun; `None` for a run that is not a rerun.

    Raises:
        UnknownRun: the earlier run is not in the store.
        ConfigurationError: the earlier run left nothing to judge, or has not ended.
    """
    if again is None:
        return None
    make = _quarantined_selector if again.only == "quarantined" else _errored_selector
    return make(store, store.run(again.run))


def _quarantined_selector(store: Store, run: RunRecord) -> QuarantinedSelector:
    plan = Plan.from_dict(run.plan)
    remaining: dict[str, RemainingRecords] = {}
    for shard in plan.shards:
        if shard.failure is not None:
            remaining[shard.uri] = RemainingRecords(shard.source, None)
        elif shard.rejected:
            previous = remaining.get(shard.uri, RemainingRecords(shard.source, frozenset()))
            positions = (previous.positions or frozenset()) | set(shard.rejected)
            remaining[shard.uri] = replace(previous, positions=positions)
    if not remaining:
        raise ConfigurationError(
            f"run {run.run_id} rejected no record, so there is nothing to retry; "
            f"`assizes show {run.run_id}` shows its counts"
        )
    transcripts = run.config.get("transcripts", {})
    limited = any(transcripts.get(name) for name in _PARTIAL_SETTINGS)
    judged_hashes = _hashes(store.table(run.run_id, "cases"))
    # The run of which this is a rerun, the run of which that was one, and so on.
    while (again := run.config.get("transcripts", {}).get("again")) is not None:
        run = store.run(again["run"])
        judged_hashes |= _hashes(store.table(run.run_id, "cases"))
    return QuarantinedSelector(remaining, judged_hashes, limited)


def _errored_selector(store: Store, run: RunRecord) -> ErroredSelector:
    if run.status != COMPLETE:
        raise ConfigurationError(
            f"run {run.run_id} is {run.status}: `assizes resume {run.run_id}` goes on with it and "
            "judges what is left; --errors is for complete runs"
        )
    cases = store.table(run.run_id, "cases").filter(pl.col("error").is_not_null())
    if cases.is_empty():
        raise ConfigurationError(
            f"run {run.run_id} has no case with an error, so there is nothing to judge; "
            f"`assizes show {run.run_id}` shows its counts"
        )
    uris = set(cases["transcript_uri"])
    shards = Plan.from_dict(run.plan).shards
    sources = {shard.uri: shard.source for shard in shards if shard.uri in uris}
    return ErroredSelector(tuple(sources[uri] for uri in sorted(sources)), _hashes(cases))


def _hashes(cases: pl.DataFrame) -> dict[bytes, str]:
    """The content hash of each case, by identity."""
    columns = cases.select("case_id", "repetition", "transcript_hash")
    return {
        identity(case_id, repetition): content_hash
        for case_id, repetition, content_hash in columns.iter_rows()
    }


@dataclass(frozen=True, slots=True)
class IncrementalSelector:
    """Selects cases that no earlier run judged and whose conversations have ended."""

    judged_keys: frozenset[bytes]  # of the cases that earlier runs judged
    quiet_before: datetime | None = None  # what ended later may go on; `None`: all have ended

    @property
    def objects(self) -> None:
        """`None`: every object that the configuration names is read."""

    def fate(self, source: TranscriptSource, position: int, case: Case) -> int:
        """Due, unless exactly this transcript was judged before or may still go on."""
        del position
        if _case_key(case.case_id, case.repetition, case.content_hash()) in self.judged_keys:
            return JUDGED_BEFORE
        is_open = self._is_still_open(ended_at(case.transcript) or source.modified)
        return NOT_QUIET if is_open else DUE

    def fate_unread(self, source: TranscriptSource, position: int) -> int:
        """Rejected, unless the object changed so recently that it may still be written."""
        del position
        return NOT_QUIET if self._is_still_open(source.modified) else REJECTED

    def _is_still_open(self, moment: datetime | None) -> bool:
        if self.quiet_before is None or moment is None:  # a time nobody knows leaves no case behind
            return False
        return moment > self.quiet_before


def ended_at(transcript: Transcript) -> datetime | None:
    """When the conversation ended, by its last turn, else its duration; `None` without either."""
    last = transcript.turns[-1] if transcript.turns else None
    begun, duration_ms = transcript.started_at, transcript.duration_ms
    if last is not None and last.started_at is not None:
        begun, duration_ms = last.started_at, last.latency_ms or 0
    if begun is None or duration_ms is None:
        return None
    try:
        return begun + timedelta(milliseconds=duration_ms)
    except OverflowError:  # after the year 9999
        return begun


def record_selector(
    store: Store | None,
    config: RunConfig,
    judge_panel: JudgePanel,
    day: date | None,
    now: datetime | None = None,
) -> RecordSelector | None:
    """The selector of the records of a run; `None` to take all that its configuration names.

    `store` is `None` where there is none yet; `now` is the time of planning, if not the clock's.

    Raises:
        UnknownRun: the run whose remaining records are to be judged is not in the store.
        ConfigurationError: that run left no records.
        StoreError: the store cannot be read.
    """
    transcripts = config.transcripts
    if store is not None and transcripts.again is not None:
        return rerun_selector(store, transcripts.again)
    if not transcripts.since_last and transcripts.quiet_minutes is None:
        return None
    judged_keys: Iterable[bytes] = ()
    if store is not None and transcripts.since_last:
        judged_keys = _judged_keys(store, config, judge_panel, day)
    quiet_before = None
    if transcripts.quiet_minutes is not None:
        quiet_before = (now or datetime.now(UTC)) - timedelta(minutes=transcripts.quiet_minutes)
    return IncrementalSelector(frozenset(judged_keys), quiet_before)


def _judged_keys(
    store: Store, config: RunConfig, judge_panel: JudgePanel, day: date | None
) -> Iterator[bytes]:
    """Keys of the cases that earlier complete runs of the same judges judged without an error."""
    own_judges = (config.model_dump(mode="json")["judge"], fingerprints(judge_panel))
    for run_id, stored, of_day in _earlier_runs(store, config.name):
        judges = (stored.get("judge"), stored.get("fingerprints"))
        # What only other judges judged is new; runs about the same day are attempts of this run.
        if judges != own_judges or (day is not None and of_day == day):
            continue
        cases = store.scan(run_id, "cases").filter(pl.col("error").is_null())
        rows = collect_rows(cases.select("case_id", "repetition", "transcript_hash"))
        yield from (_case_key(*row) for row in rows.iter_rows())


def _earlier_runs(store: Store, name: str) -> Iterator[tuple[str, dict[str, Any], date | None]]:
    """The complete runs of a name and their reruns, each with its configuration and its day."""
    days: dict[str, date | None] = {}  # run id -> its day; a rerun has that of the run before it
    index = store.run_index()
    of_name = index.filter(name=name)["run_id"]
    reruns = index.filter(pl.col("again").is_not_null())["run_id"]
    rows = store.rows_of_runs({*of_name, *reruns}).sort("started_at", "run_id")
    for row in rows.iter_rows(named=True):
        stored = json.loads(row["config"])
        again = (stored.get("transcripts", {}).get("again") or {}).get("run")
        if row["name"] != name and again not in days:
            continue
        days[row["run_id"]] = day_of(row) or days.get(again or "")
        if row["status"] == COMPLETE:
            yield row["run_id"], stored, days[row["run_id"]]


def _case_key(case_id: str, repetition: int, content_hash: str) -> bytes:
    return digest(f"{repetition}\n{content_hash}\n{case_id}", _KEY_BYTES)
