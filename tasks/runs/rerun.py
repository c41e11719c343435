"""Reruns: judge only the records that an earlier run could not read or could not judge.

A rerun is a run of its own. What the earlier run committed stays as it is; the rerun names the
earlier run in its configuration, `[transcripts] again`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from assizes.judge.case import Case
from assizes.judge.config.transcripts import RerunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.rows import COMPLETE
from assizes.tasks.intake.plan import Plan
from assizes.tasks.intake.selection import DUE, REJECTED, UNSELECTED, RecordSelector, identity
from assizes.tasks.sources.transcript_source import TranscriptSource
from assizes.tasks.store import RunRecord, Store

_PARTIAL_SETTINGS: Final = (
    *("limit", "number", "per_stratum", "stratify_by"),
    *("since_last", "quiet_minutes"),
)
"""Settings under which a run takes only some of the records that it could read."""


@dataclass(frozen=True, slots=True)
class RemainingRecords:
    """The records that a run did not judge in one object.

    Attributes:
        source: the object as it was then.
        positions: positions of the records in the object; `None` for the object as a whole.
    """

    source: TranscriptSource
    positions: frozenset[int] | None

    def can_contain(self, source: TranscriptSource, position: int, *, exactly: bool) -> bool:
        """Whether a record of the object as it is now may be one of the remaining records.

        In an object that was corrected since, records may have other positions; then any record may
        be one of them, unless the positions count `exactly`.
        """
        if self.positions is None or not (exactly or source.etag == self.source.etag):
            return True
        return position in self.positions


@dataclass(frozen=True, slots=True)
class QuarantinedSelector:
    """Selects the records that an earlier run rejected.

    Attributes:
        remaining: the rejected records by URI of their object.
        judged_hashes: content hashes of the cases that are judged already, by identity.
        limited: whether the earlier run took only some of the records it could read; positions then
            count exactly.
    """

    remaining: Mapping[str, RemainingRecords]
    judged_hashes: Mapping[bytes, str]
    limited: bool

    @property
    def objects(self) -> Iterable[TranscriptSource]:
        """The objects that have a rejected record."""
        return [self.remaining[uri].source for uri in sorted(self.remaining)]

    def fate(self, source: TranscriptSource, position: int, case: Case) -> int:
        """Due, unless the case is judged already.

        A record of a judged case with another content is rejected again.
        """
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
        return self.remaining[source.uri].can_contain(source, position, exactly=self.limited)


@dataclass(frozen=True, slots=True)
class ErroredSelector:
    """Selects the cases of an earlier run that ended with an error.

    Attributes:
        sources: the objects that hold these cases.
        wanted_hashes: content hashes of these cases, by identity.
    """

    sources: tuple[TranscriptSource, ...]
    wanted_hashes: Mapping[bytes, str]

    @property
    def objects(self) -> Iterable[TranscriptSource]:
        """The objects from which these cases were read."""
        return self.sources

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
    run = store.run(again.run)
    return (
        _quarantined_selector(store, run)
        if again.only == "quarantined"
        else _errored_selector(store, run)
    )


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
        raise ConfigurationError(f"run {run.run_id} has no quarantined record: nothing to requeue")
    judged_hashes = _hashes(store.table(run.run_id, "cases"))
    for earlier in _earlier_runs(store, run):
        judged_hashes |= _hashes(store.table(earlier, "cases"))
    transcripts = run.config.get("transcripts", {})
    limited = any(transcripts.get(name) for name in _PARTIAL_SETTINGS)
    return QuarantinedSelector(remaining, judged_hashes, limited)


def _earlier_runs(store: Store, run: RunRecord) -> Iterable[str]:
    """The run of which a rerun is one, the run of which that was a rerun, and so on."""
    while (again := run.config.get("transcripts", {}).get("again")) is not None:
        run = store.run(again["run"])
        yield run.run_id


def _errored_selector(store: Store, run: RunRecord) -> ErroredSelector:
    if run.status != COMPLETE:
        raise ConfigurationError(
            f"run {run.run_id} is {run.status}: the command that began it goes on with it and judges "
            "what is left; --only-errors is for complete runs"
        )
    cases = store.table(run.run_id, "cases").filter(pl.col("error").is_not_null())
    if cases.is_empty():
        raise ConfigurationError(f"run {run.run_id} has no case with an error: nothing to judge")
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
