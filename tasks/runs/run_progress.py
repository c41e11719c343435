"""How far a run is: cases done and failed, money spent, speed and expected end, by its committed rows."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import polars as pl

from assizes.judge.verdicts.executions import collect_rows
from assizes.tasks.runs.stored_runs import INTERRUPTED, LOCK_DURATION_S, displayed_status
from assizes.tasks.store import RunRecord, Store
from assizes.tasks.store.record import DONE_STATUSES, RunLock, is_look

RUNNING: Final = "running"
"""The displayed status of a run on which a living process works."""


@dataclass(frozen=True, slots=True)
class CommittedProgress:
    """How far a run is, counting what is committed."""

    status: str  # as `displayed_status` says
    due: int  # cases to judge
    done: int  # cases judged, errored or skipped
    shards: int
    shards_done: int
    counts: dict[str, int]  # records by status
    spent_usd: float | None = None  # in committed rows; None: not known, or the run has ended
    cases_per_minute: float | None = None  # of the processes at work; None before the first commit
    ends_at: datetime | None = None  # when the last case is done at that speed, in UTC
    seen_at: datetime | None = None  # when its process last said that it lives; None without one

    @property
    def failed(self) -> int:
        """Cases that could not be judged."""
        return self.counts.get("errored", 0)

    def as_dict(self) -> dict[str, Any]:
        """The progress as JSON values; times are ISO 8601."""
        times = {name: getattr(self, name) for name in ("ends_at", "seen_at")}
        texts = {name: time and time.isoformat() for name, time in times.items()}
        return {**asdict(self), **texts, "failed": self.failed}

    def line(self, now: datetime | None = None) -> str:
        """The progress in words."""
        words = [f"{self.done:,} of {self.due:,} cases done, {self.failed:,} failed"]
        if self.spent_usd is not None:
            words.append(f"${self.spent_usd:,.4f} spent")
        if self.status == RUNNING and self.cases_per_minute:
            words.append(f"{self.cases_per_minute:,.1f} cases a minute")
        if self.status == RUNNING and self.ends_at is not None:
            words.append(f"ends about {self.ends_at:%Y-%m-%d %H:%M} UTC")
        if self.seen_at is not None:
            ago = (now or datetime.now(UTC)) - self.seen_at
            words.append(f"its process was seen {max(0, round(ago.total_seconds()))} s ago")
        return ", ".join(words)


def run_progress(store: Store, record: RunRecord, now: datetime | None = None) -> CommittedProgress:
    """How far a run is at a time, by default now.

    Speed and expected end are those of the processes that work on the run now: what an earlier
    session did counts as done, not for the speed.
    """
    now = now or datetime.now(UTC)
    committed = store.shard_counts(record.run_id)
    looks = {name for name in committed if is_look(name)}  # of a run that may stop early
    counts = Counter[str]()
    for name in committed.keys() - looks:
        counts.update(committed[name])
    progress = CommittedProgress(
        status=displayed_status(store, record.run_id, record.status, now),
        due=record.plan.get("due", 0),
        done=sum(counts[name] for name in DONE_STATUSES),
        shards=len(record.plan.get("shards", ())),
        shards_done=len(committed) - len(looks),
        counts=dict(counts),
    )
    if progress.status not in (RUNNING, INTERRUPTED):
        return progress  # its summary has the final numbers
    locks = store.run_locks(record.run_id)
    last = max((lock.until for lock in locks), default=None)
    valid = [lock for lock in locks if lock.until > now]
    speed = _cases_per_minute(progress.done, valid, now)
    left = progress.due - progress.done
    return replace(
        progress,
        spent_usd=_spent_usd(store, record.run_id),
        cases_per_minute=speed,
        ends_at=now + timedelta(minutes=left / speed) if speed else None,
        seen_at=None if last is None else last - timedelta(seconds=LOCK_DURATION_S),
    )


def _cases_per_minute(done: int, locks: list[RunLock], now: datetime) -> float | None:
    """The speed since the first of the living processes began; None while nothing is known."""
    begun = [(lock.since, lock.done) for lock in locks if lock.since is not None]
    if not begun:
        return None
    since, done_before = min(begun)
    minutes = (now - since).total_seconds() / 60
    return (done - done_before) / minutes if minutes > 0 and done > done_before else None


def _spent_usd(store: Store, run_id: str) -> float | None:
    """What the committed asks of a run cost, in USD; None where the price of a call is not known."""
    asks = store.scan(run_id, "asks").select(
        pl.col("cost_usd").sum().alias("spent"), pl.col("cost_usd").is_null().any().alias("unknown")
    )
    spent, unknown = collect_rows(asks).row(0)
    return None if unknown else float(spent or 0)
