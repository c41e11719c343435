"""What came since the last run: cases that no run has judged, of conversations at their end.

The runs in the store are the watermark. There is no second record of what was judged that could
differ from the rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import polars as pl

from assizes.judge.case import Case, Transcript
from assizes.judge.catalog import Court, fingerprints
from assizes.judge.config.run import RunConfig
from assizes.judge.rows import COMPLETE
from assizes.judge.verdicts.executions import collected
from assizes.tasks.intake.records import digest
from assizes.tasks.intake.scan import DUE, JUDGED_BEFORE, NOT_QUIET, REJECTED, Choice
from assizes.tasks.runs.baselines import day_of
from assizes.tasks.runs.rerun import again_choice
from assizes.tasks.sources.pinned import Source
from assizes.tasks.store import Store

_KEY_BYTES: Final = 16
_TOLD: Final = {
    "judged_before": "since_last: {} records that were read are cases which earlier runs have judged",
    "not_quiet": "quiet_minutes: {} records are not quiet yet and left to a later run",
}


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Cases that are new, and whose conversations have ended.

    Attributes:
        judged: what the cases are known by that need not be judged.
        quiet_before: what ended later may go on; null: nothing waits.
    """

    judged: frozenset[bytes]
    quiet_before: datetime | None = None

    @property
    def objects(self) -> None:
        """All that the configuration names."""

    def fate(self, source: Source, position: int, case: Case) -> int:
        """Due, unless it was judged word for word, or may go on."""
        del position
        if _known_by(case.case_id, case.repetition, case.content_hash()) in self.judged:
            return JUDGED_BEFORE
        return NOT_QUIET if self._goes_on(ended_at(case.transcript) or source.modified) else DUE

    def fate_unread(self, source: Source, position: int) -> int:
        """Rejected, unless the object may be in the writing."""
        del position
        return NOT_QUIET if self._goes_on(source.modified) else REJECTED

    def _goes_on(self, moment: datetime | None) -> bool:
        if self.quiet_before is None or moment is None:
            return False
        return moment > self.quiet_before


def ended_at(transcript: Transcript) -> datetime | None:
    """When the last turn ended, else the whole; null where the transcript does not say."""
    last = transcript.turns[-1] if transcript.turns else None
    if last is not None and last.started_at is not None:
        return _after(last.started_at, last.latency_ms or 0)
    if transcript.started_at is not None and transcript.duration_ms is not None:
        return _after(transcript.started_at, transcript.duration_ms)
    return None


def _after(moment: datetime, duration_ms: float) -> datetime:
    try:
        return moment + timedelta(milliseconds=duration_ms)
    except OverflowError:  # behind the year 9999
        return moment


def run_choice(
    store: Store | None,
    config: RunConfig,
    court: Court,
    day: date | None,
    now: datetime | None = None,
) -> Choice | None:
    """Which records a run takes of those that its configuration means; null: all.

    Args:
        store: null where there is none yet.
        config: of the run.
        court: its judges; cases that others judged are new to them.
        day: of the run; other runs of that day are this one begun before, and no earlier ones.
        now: when the run is planned; null: the clock's time.

    Raises:
        UnknownRun: the run whose leavings are to be taken up is not in the store.
        ConfigurationError: that run left nothing.
        StoreError: the store cannot be read.
    """
    wanted = config.transcripts
    if store is not None and wanted.again is not None:
        return again_choice(store, wanted.again)
    if not wanted.since_last and wanted.quiet_minutes is None:
        return None
    judged: Iterable[bytes] = ()
    if store is not None and wanted.since_last:
        judged = _judged(store, config, court, day)
    quiet_before = None
    if wanted.quiet_minutes is not None:
        quiet_before = (now or datetime.now(UTC)) - timedelta(minutes=wanted.quiet_minutes)
    return Arrivals(frozenset(judged), quiet_before)


def told(passed: Mapping[str, int]) -> tuple[str, ...]:
    """What a reader of the run must know of what it left to others, one line each."""
    return tuple(_TOLD[name].format(count) for name, count in passed.items())


def _judged(store: Store, config: RunConfig, court: Court, day: date | None) -> Iterator[bytes]:
    """The cases without an error of earlier complete runs under the same judges."""
    by = {"judge": config.model_dump(mode="json")["judge"], "fingerprints": fingerprints(court)}
    for run_id, stored, of_day in _earlier(store, config.name):
        same = all(stored.get(part) == own for part, own in by.items())
        if not same or (day is not None and of_day == day):
            continue
        cases = store.scan(run_id, "cases").filter(pl.col("error").is_null())
        rows = collected(cases.select("case_id", "repetition", "transcript_hash"))
        yield from (_known_by(*row) for row in rows.iter_rows())


def _earlier(store: Store, name: str) -> Iterator[tuple[str, dict[str, Any], date | None]]:
    """The complete runs of a name, and those that took up what they left: configuration and day."""
    days: dict[str, date | None] = {}
    for row in store.runs().sort("started_at", "run_id").iter_rows(named=True):
        stored = json.loads(row["config"])
        again = (stored.get("transcripts", {}).get("again") or {}).get("run")
        if row["name"] != name and again not in days:
            continue
        days[row["run_id"]] = day_of(row) or days.get(again or "")
        if row["status"] == COMPLETE:
            yield row["run_id"], stored, days[row["run_id"]]


def _known_by(case_id: str, repetition: int, content_hash: str) -> bytes:
    return digest(f"{repetition}\n{content_hash}\n{case_id}", _KEY_BYTES)
