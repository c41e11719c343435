"""Selects the records that came since the last run: new cases of conversations that have ended.

The runs in the store are the watermark: there is no second list of judged cases that could differ
from the rows.
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
    """Selects cases that no earlier run judged and whose conversations have ended.

    Attributes:
        judged_keys: keys of the cases that earlier runs judged.
        quiet_before: a conversation that ended after this moment may still go on and is left to a
            later run; `None` to take every conversation.
    """

    judged_keys: frozenset[bytes]
    quiet_before: datetime | None = None

    @property
    def objects(self) -> None:
        """`None`: every object that the configuration names is read."""

    def fate(self, source: TranscriptSource, position: int, case: Case) -> int:
        """Due, unless exactly this transcript was judged before or may still go on."""
        del position
        if _case_key(case.case_id, case.repetition, case.content_hash()) in self.judged_keys:
            return JUDGED_BEFORE
        return (
            NOT_QUIET if self._is_still_open(ended_at(case.transcript) or source.modified) else DUE
        )

    def fate_unread(self, source: TranscriptSource, position: int) -> int:
        """Rejected, unless the object changed so recently that it may still be written."""
        del position
        return NOT_QUIET if self._is_still_open(source.modified) else REJECTED

    def _is_still_open(self, moment: datetime | None) -> bool:
        if self.quiet_before is None or moment is None:
            return False
        return moment > self.quiet_before


def ended_at(transcript: Transcript) -> datetime | None:
    """When the conversation ended: at the end of its last turn, else of its whole duration.

    `None` where the transcript has neither time.
    """
    last = transcript.turns[-1] if transcript.turns else None
    if last is not None and last.started_at is not None:
        return _after(last.started_at, last.latency_ms or 0)
    if transcript.started_at is not None and transcript.duration_ms is not None:
        return _after(transcript.started_at, transcript.duration_ms)
    return None


def _after(moment: datetime, duration_ms: float) -> datetime:
    try:
        return moment + timedelta(milliseconds=duration_ms)
    except OverflowError:  # after the year 9999
        return moment


def record_selector(
    store: Store | None,
    config: RunConfig,
    judge_panel: JudgePanel,
    day: date | None,
    now: datetime | None = None,
) -> RecordSelector | None:
    """The selector of the records of a run; `None` to take all that its configuration names.

    Args:
        store: holds the earlier runs; `None` where there is no store yet.
        config: configuration of the run.
        judge_panel: judges of the run; a case that only other judges judged is new.
        day: day that the run is about; runs of the same day are earlier attempts of this run, so
            what they judged is not skipped.
        now: time of planning; `None` for the clock's time.

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


def warning_lines(left_out: Mapping[str, int]) -> tuple[str, ...]:
    """One line for each reason why records were left out, for the warnings of the run."""
    return tuple(_WARNINGS[name].format(count) for name, count in left_out.items())


def _judged_keys(
    store: Store, config: RunConfig, judge_panel: JudgePanel, day: date | None
) -> Iterator[bytes]:
    """Keys of the cases that earlier complete runs of the same judges judged without an error."""
    own_judges = {
        "judge": config.model_dump(mode="json")["judge"],
        "fingerprints": fingerprints(judge_panel),
    }
    for run_id, stored, of_day in _earlier_runs(store, config.name):
        same_judges = all(stored.get(part) == own for part, own in own_judges.items())
        if not same_judges or (day is not None and of_day == day):
            continue
        cases = store.scan(run_id, "cases").filter(pl.col("error").is_null())
        rows = collect_rows(cases.select("case_id", "repetition", "transcript_hash"))
        yield from (_case_key(*row) for row in rows.iter_rows())


def _earlier_runs(store: Store, name: str) -> Iterator[tuple[str, dict[str, Any], date | None]]:
    """The complete runs of a name and their reruns, each with its configuration and its day."""
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
