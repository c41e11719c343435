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
from assizes.judge.catalog import JudgePanel, fingerprints
from assizes.judge.config.run import RunConfig
from assizes.judge.rows import COMPLETE
from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.intake.selection import (
    DUE,
    JUDGED_BEFORE,
    NOT_QUIET,
    REJECTED,
    RecordSelector,
    digest,
)
from assizes.tasks.runs.baselines import day_of
from assizes.tasks.runs.rerun import rerun_selector
from assizes.tasks.sources.transcript_source import TranscriptSource
from assizes.tasks.store import Store

_KEY_BYTES: Final = 16
_WARNINGS: Final = {
    "judged_before": "since_last: {} records that were read are cases which earlier runs have judged",
    "not_quiet": "quiet_minutes: {} records are not quiet yet and left to a later run",
}


@dataclass(frozen=True, slots=True)
class IncrementalSelector:
    """Cases that are new, and whose conversations have ended.

    Attributes:
        judged: what the cases are known by that need not be judged.
        quiet_before: what ended later may go on; null: nothing waits.
    """

    judged_keys: frozenset[bytes]
    quiet_before: datetime | None = None

    @property
    def objects(self) -> None:
        """All that the configuration names."""

    def fate(self, source: TranscriptSource, position: int, case: Case) -> int:
        """Due, unless it was judged word for word, or may go on."""
        del position
        if _case_key(case.case_id, case.repetition, case.content_hash()) in self.judged_keys:
            return JUDGED_BEFORE
        return (
            NOT_QUIET if self._is_still_open(ended_at(case.transcript) or source.modified) else DUE
        )

    def fate_unread(self, source: TranscriptSource, position: int) -> int:
        """Rejected, unless the object may be in the writing."""
        del position
        return NOT_QUIET if self._is_still_open(source.modified) else REJECTED

    def _is_still_open(self, moment: datetime | None) -> bool:
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


def record_selector(
    store: Store | None,
    config: RunConfig,
    judge_panel: JudgePanel,
    day: date | None,
    now: datetime | None = None,
) -> RecordSelector | None:
    """Which records a run takes of those that its configuration means; null: all.

    Args:
        store: null where there is none yet.
        config: of the run.
        judge_panel: its judges; cases that others judged are new to them.
        day: of the run; other runs of that day are this one begun before, and no earlier ones.
        now: when the run is planned; null: the clock's time.

    Raises:
        UnknownRun: the run whose leavings are to be taken up is not in the store.
        ConfigurationError: that run left nothing.
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


def warning_lines(left_out: Mapping[str, int]) -> tuple[str, ...]:
    """What a reader of the run must know of what it left to others, one line each."""
    return tuple(_WARNINGS[name].format(count) for name, count in left_out.items())


def _judged_keys(
    store: Store, config: RunConfig, judge_panel: JudgePanel, day: date | None
) -> Iterator[bytes]:
    """The cases without an error of earlier complete runs under the same judges."""
    by = {
        "judge": config.model_dump(mode="json")["judge"],
        "fingerprints": fingerprints(judge_panel),
    }
    for run_id, stored, of_day in _earlier_runs(store, config.name):
        same = all(stored.get(part) == own for part, own in by.items())
        if not same or (day is not None and of_day == day):
            continue
        cases = store.scan(run_id, "cases").filter(pl.col("error").is_null())
        rows = collect_rows(cases.select("case_id", "repetition", "transcript_hash"))
        yield from (_case_key(*row) for row in rows.iter_rows())


def _earlier_runs(store: Store, name: str) -> Iterator[tuple[str, dict[str, Any], date | None]]:
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


def _case_key(case_id: str, repetition: int, content_hash: str) -> bytes:
    return digest(f"{repetition}\n{content_hash}\n{case_id}", _KEY_BYTES)
