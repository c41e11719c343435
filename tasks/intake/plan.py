"""The plan of a run as data: shards of records by reference, and the counts that must add up.

Planning gives every record a fate; a selector decides on it in view of earlier runs.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, NamedTuple, Protocol

from assizes.judge.case import Case
from assizes.judge.errors import DataCode, Inconclusive
from assizes.judge.rows import as_json
from assizes.judge.selection import WaveRules
from assizes.judge.summary.summary import reconcile
from assizes.tasks.intake.first_rejects import FirstRejects
from assizes.tasks.intake.preprocessing import DEFAULT_PREPROCESSOR, CasePreprocessor
from assizes.tasks.sources.listing import TranscriptSource

HEARD_STATUSES: Final = ("judged", "errored", "skipped")
"""The statuses of a case that the judges have heard."""

# A fate is one byte, so that a plan over millions of records stays small; the letters enter
# `Plan.content_hash` and may not change.
DUE: Final = ord("d")
"""Fate of a record that is to be judged."""
DUPLICATE: Final = ord("t")
"""Fate of a later copy of a record."""
REJECTED: Final = ord("r")
"""Fate of a record that cannot be read, or contradicts another of the same identity.

It is a row of `rejects`, counted as `quarantined`.
"""
UNSELECTED: Final = ord("u")
"""Fate of a good record that the configuration leaves out."""
JUDGED_BEFORE: Final = ord("b")
"""Fate of a good record that an earlier run has judged."""
NOT_QUIET: Final = ord("q")
"""Fate of a record whose conversation may go on: the record is left to a later run."""
LISTED_REJECTS: Final = 1000
"""Rejects of one code in an object that get a row; more of them are counted, not listed."""

LEFT_OUT: Final = (UNSELECTED, JUDGED_BEFORE, NOT_QUIET)
"""The fates that count as not selected."""


class RecordSelector(Protocol):
    """Which of the records that a configuration names are wanted, in view of earlier runs."""

    @property
    def objects(self) -> Iterable[TranscriptSource] | None:
        """Objects in which an earlier run left records, as they were then; `None`: all objects."""
        ...

    def fate(self, source: TranscriptSource, position: int, case: Case) -> int:
        """The fate of a record that can be read."""
        ...

    def fate_unread(self, source: TranscriptSource, position: int) -> int:
        """The fate of a record that cannot be read."""
        ...


class ScanPolicy(NamedTuple):
    """How records are selected beyond the configuration, and how each case is preprocessed."""

    selector: RecordSelector | None = None
    preprocessor: CasePreprocessor = DEFAULT_PREPROCESSOR
    time_zone: str = "UTC"  # whose days are read from a trace store
    waves: WaveRules | None = None  # of a run that may stop early


DEFAULT_SCAN_POLICY: Final = ScanPolicy()
"""All records that the configuration names, with the default preprocessing."""


def identity(case_id: str, repetition: int) -> bytes:
    """A hash of 16 bytes that identifies a case within a run."""
    # In the other order two ids with line ends in them could give one text.
    return digest(f"{repetition}\n{case_id}", 16)


def digest(text: str, size: int) -> bytes:
    """BLAKE2b of the text, `size` bytes; the same on every machine."""
    # The name of a file may be no UTF-8; Python then writes lone surrogates into the uri.
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


class ObjectFailure(NamedTuple):
    """Why an object as a whole gives no record."""

    code: DataCode  # of the reject
    detail: str
    excerpt: str  # how the object begins, at most 80 printable characters


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive records of one object, by reference; one task judges one shard."""

    shard_id: str  # number in the plan, "-", 8 hex digits of a hash over the other fields
    uri: str
    etag: str  # pins the object; see `TranscriptSource`
    size: int  # bytes of the object as stored
    format: str  # a key of `FORMATS`; empty where the object was never recognised
    start: int  # position of the first record; blank lines have no position
    stop: int  # position after the last record
    byte_start: int | None  # first byte of the first record; `None` unless records are lines
    byte_stop: int | None  # the byte after the last record; `None` as for `byte_start`
    take: tuple[int, ...] | None  # positions to judge; `None`: all neither duplicate nor rejected
    duplicates: tuple[int, ...]  # positions of later copies of a record
    unselected: int  # how many records the selection left out
    rejected: tuple[int, ...] = ()  # positions; a readable one contradicts another of its identity
    failure: ObjectFailure | None = None  # set: no record can be read, the object counts as one
    duplicate_of: tuple[str, ...] = ()  # the first copy of each duplicate, as `uri#position`
    named: str | None = None  # pins the objects that a manifest names; `None`: no manifest
    # Code and position of the last reject of this code in the object that gets a row, where there
    # are more of them.
    listed_until: tuple[tuple[str, int], ...] = ()
    has_tool_trace: bool = True  # whether any record of the whole input holds a tool call

    @property
    def source(self) -> TranscriptSource:
        """The object this shard is cut from."""
        return TranscriptSource(self.uri, self.etag, self.size)

    def due_positions(self) -> tuple[int, ...]:
        """Positions of the cases to judge."""
        if self.take is not None:
            return self.take
        # Nothing is unselected here, or `take` would name the positions: see `shards._shard`.
        left_out = {*self.duplicates, *self.rejected}
        return tuple(
            position for position in range(self.start, self.stop) if position not in left_out
        )

    def check(self, counts: Mapping[str, int]) -> None:
        """Check that the counts of the judged shard are those that the plan promised.

        Raises:
            Unreconciled: a record is missing, or there is one too many.
        """
        heard_counts = {name: counts.get(name, 0) for name in HEARD_STATUSES}
        reconcile(f"cases due in shard {self.shard_id}", len(self.due_positions()), heard_counts)
        quarantined = {"quarantined": counts.get("quarantined", 0)}
        reconcile(f"records rejected in shard {self.shard_id}", len(self.rejected), quarantined)

    @classmethod
    def from_dict(cls, body: dict[str, Any]) -> Shard:
        """The shard that `Plan.as_dict` described."""
        # JSON has no tuples; `take` is null where all records are due.
        lists = ("take", "duplicates", "duplicate_of", "rejected")
        tuples = {name: tuple(body[name]) for name in lists if body[name] is not None}
        failure = body["failure"] and ObjectFailure(*body["failure"])
        until = tuple((str(code), int(place)) for code, place in body.get("listed_until", ()))
        return cls(**body | tuples | {"failure": failure, "listed_until": until})


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will judge: read = due + duplicates + rejected + unselected, always.

    Objects: listed = read + empty + rejected, always; `reread` of them changed during the first
    reading. `content_hash` is SHA-256 over uri, etag and the fate of every record, whatever the
    shard size, over the objects that a manifest names, and over the digest of the ground truth.
    """

    shards: tuple[Shard, ...]  # each with a case to judge or a reject
    read: int  # records, like the next four
    due: int  # to be judged
    duplicates: int  # later copies of another record
    rejected: int  # cannot be judged
    unselected: int  # left out by the configuration
    content_hash: str
    objects: dict[str, int]  # "listed", "read", "empty", "rejected", "reread" -> objects
    odd: dict[str, int]  # code of `parsing.oddities` -> records taken in spite of it
    reasons: dict[str, int]  # code of the reject -> records; the sum is `rejected`
    # How the cases were sampled: `by` what, with which `seed`, from which `strata`, and how many a
    # limit cut off (`limited`: the cases read first are no random sample). Empty: all are judged.
    design: dict[str, Any] = field(default_factory=dict)
    truth: dict[str, int] = field(default_factory=dict)  # rows and cases with and without a match
    truth_digest: str | None = None  # SHA-256 of the ground truth file; `None`: there is no file
    kept: dict[str, int] = field(default_factory=dict)  # as `parsing.fidelity_counts`
    passed: dict[str, int] = field(default_factory=dict)  # "judged_before", "not_quiet" -> records
    prompts: dict[str, Any] = field(default_factory=dict)  # of the judges; no part of the input

    def as_dict(self) -> dict[str, Any]:
        """The plan as plain JSON values."""
        names = (plan_field.name for plan_field in fields(self) if plan_field.name != "shards")
        return {name: getattr(self, name) for name in names} | {
            "shards": [
                asdict(shard) | {"failure": shard.failure and list(shard.failure)}
                for shard in self.shards
            ]
        }

    @property
    def lost_object_count(self) -> int:
        """Objects that vanished or changed before they were read; what they held is not known."""
        return sum(self.reasons.get(code, 0) for code in ("vanished", "changed"))

    def check(self) -> None:
        """Check that every listed object and every record has exactly one fate.

        Raises:
            Unreconciled: an object or a record has no fate, or two.
        """
        objects = self.objects
        # An object that was reread is also one of those that are read, empty or rejected.
        fates = {name: objects[name] for name in objects if name not in ("listed", "reread")}
        reconcile("objects listed", objects["listed"], fates)
        names = ("due", "duplicates", "rejected", "unselected")
        reconcile("records read", self.read, {name: getattr(self, name) for name in names})
        reconcile("records rejected", self.rejected, self.reasons)
        for name, parts in (
            ("due", (len(shard.due_positions()) for shard in self.shards)),
            ("rejected", (len(shard.rejected) for shard in self.shards)),
        ):
            reconcile(f"records {name}", getattr(self, name), {"in shards": sum(parts)})

    @classmethod
    def without_objects(cls, day: dt.date | None) -> Plan:
        """The plan of a day without any transcript object; the plans of two days differ."""
        content = hashlib.sha256(as_json(["nothing", day and day.isoformat()]).encode())
        objects = dict.fromkeys(("listed", "read", "empty", "rejected", "reread"), 0)
        return cls((), 0, 0, 0, 0, 0, content.hexdigest(), objects, {}, {})

    @classmethod
    def from_dict(cls, body: dict[str, Any]) -> Plan:
        """The plan that `as_dict` described."""
        return cls(**body | {"shards": tuple(Shard.from_dict(shard) for shard in body["shards"])})


class NothingDue(Inconclusive):
    """There is nothing to judge: no object, or none with a record that is wanted.

    `plan` is the plan without a case, whose rejects are still to be quarantined; `None`: no object.
    `rejects` are the first of them.
    """

    def __init__(
        self, message: str, plan: Plan | None = None, rejects: FirstRejects | None = None
    ) -> None:
        super().__init__(message)
        self.plan, self.rejects = plan, rejects or FirstRejects()
