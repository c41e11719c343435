"""What an earlier run left: the records it could not read, or the cases it could not judge.

Such a run is a run of its own, over those records alone: what is committed stays as it is. It names
the earlier one in its configuration, `[transcripts] again`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from assizes.judge.case import Case
from assizes.judge.config.run import RerunConfig
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
    """What a run left in one object, as that was then; positions null: the object as a whole."""

    source: TranscriptSource
    positions: frozenset[int] | None

    def can_contain(self, source: TranscriptSource, position: int, *, exactly: bool) -> bool:
        """Whether a record of the object as it is now may be one of those.

        In an object that was mended since, records may stand elsewhere; unless positions are to be
        taken `exactly`, each of them may be one.
        """
        if self.positions is None or not (exactly or source.etag == self.source.etag):
            return True
        return position in self.positions


@dataclass(frozen=True, slots=True)
class QuarantinedSelector:
    """Records that were rejected.

    Attributes:
        left: by uri.
        judged: content hashes of the cases that are judged already, by identity.
        limited: the run took only some of what it could read; positions then hold exactly.
    """

    remaining: Mapping[str, RemainingRecords]
    judged_hashes: Mapping[bytes, str]
    limited: bool

    @property
    def objects(self) -> Iterable[TranscriptSource]:
        """Those with a rejected record."""
        return [self.remaining[uri].source for uri in sorted(self.remaining)]

    def fate(self, source: TranscriptSource, position: int, case: Case) -> int:
        """Due, unless judged already; one that contradicts what was judged is rejected again."""
        if not self._can_be_remaining(source, position):
            return UNSELECTED
        judged_hash = self.judged_hashes.get(identity(case.case_id, case.repetition))
        if judged_hash is None:
            return DUE
        return UNSELECTED if judged_hash == case.content_hash() else REJECTED

    def fate_unread(self, source: TranscriptSource, position: int) -> int:
        """Rejected again."""
        return REJECTED if self._can_be_remaining(source, position) else UNSELECTED

    def _can_be_remaining(self, source: TranscriptSource, position: int) -> bool:
        return self.remaining[source.uri].can_contain(source, position, exactly=self.limited)


@dataclass(frozen=True, slots=True)
class ErroredSelector:
    """Cases with an ask that failed, by identity with their content hash."""

    sources: tuple[TranscriptSource, ...]
    wanted_hashes: Mapping[bytes, str]

    @property
    def objects(self) -> Iterable[TranscriptSource]:
        """Those the cases were read from."""
        return self.sources

    def fate(self, source: TranscriptSource, position: int, case: Case) -> int:
        """Due, when it is the same case word for word."""
        del source, position
        same = (
            self.wanted_hashes.get(identity(case.case_id, case.repetition)) == case.content_hash()
        )
        return DUE if same else UNSELECTED

    def fate_unread(self, source: TranscriptSource, position: int) -> int:
        """Not asked for: what could not be read was not judged either."""
        del source, position
        return UNSELECTED


def rerun_selector(store: Store, again: RerunConfig | None) -> RecordSelector | None:
    """What is to be judged again; null when everything is to be.

    Raises:
        UnknownRun: the earlier run is not in the store.
        ConfigurationError: there is nothing to take up, or the run is not at its end.
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
    judged_hashes = dict(_hashes(store.table(run.run_id, "cases")))
    for earlier in _earlier_runs(store, run):
        judged_hashes |= dict(_hashes(store.table(earlier, "cases")))
    transcripts = run.config.get("transcripts", {})
    limited = any(transcripts.get(name) for name in _PARTIAL_SETTINGS)
    return QuarantinedSelector(remaining, judged_hashes, limited)


def _earlier_runs(store: Store, run: RunRecord) -> Iterable[str]:
    """The runs that a run of this kind goes back to."""
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
    return ErroredSelector(tuple(sources[uri] for uri in sorted(sources)), dict(_hashes(cases)))


def _hashes(cases: pl.DataFrame) -> Iterable[tuple[bytes, str]]:
    columns = cases.select("case_id", "repetition", "transcript_hash")
    return (
        (identity(case_id, repetition), content)
        for case_id, repetition, content in columns.iter_rows()
    )
