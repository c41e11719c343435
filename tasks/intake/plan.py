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
from assizes.judge.errors import Inconclusive
from assizes.judge.rows import as_json
from assizes.judge.summary.summary import reconcile
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
"""Fate of a record that cannot be read, or contradicts another of the same identity."""
UNSELECTED: Final = ord("u")
"""Fate of a good record that the configuration leaves out."""
JUDGED_BEFORE: Final = ord("b")
"""Fate of a good record that an earlier run has judged."""
NOT_QUIET: Final = ord("q")
"""Fate of a record whose conversation may go on: the record is left to a later run."""
LEFT_OUT: Final = (UNSELECTED, JUDGED_BEFORE, NOT_QUIET)
"""The fates that count as not selected."""


class RecordSelector(Protocol):
    """Which of the records that a configuration names are wanted, in view of earlier runs."""

    @property
    def objects(self) -> Iterable[TranscriptSource] | None:
        """The objects in which an earlier run left records, pinned as they were then.

        `None`: all objects that the configuration names.
        """
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


DEFAULT_SCAN_POLICY: Final = ScanPolicy()
"""All records that the configuration names, with the default preprocessing."""


def identity(case_id: str, repetition: int) -> bytes:
    """A hash of 16 bytes that identifies a case within a run."""
    return digest(f"{repetition}\n{case_id}", 16)


def digest(text: str, size: int) -> bytes:
    """BLAKE2b of the text, `size` bytes; the same on every machine."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


class ObjectFailure(NamedTuple):
    """Why an object as a whole gives no record.

    Attributes:
        code: the reason code of the reject.
        detail: a sentence.
        excerpt: how the object begins, in at most 80 printable characters.
    """

    code: str
    detail: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive records of one object, by reference; one task judges one shard.

    Attributes:
        shard_id: the number in the plan and 8 hex digits of a hash over the other fields.
        uri: the object.
        etag: pins the object; see `TranscriptSource`.
        size: bytes of the object as stored.
        format: name in `assizes.judge.formats.FORMATS`; empty where the object was never recognised.
        start: position of the first record; blank lines have no position.
        stop: position after the last record.
        byte_start: first byte of the first record; `None` unless each record is a line.
        byte_stop: the byte after the last record; `None` as for `byte_start`.
        take: positions to judge; `None`: all that are neither duplicate nor rejected.
        duplicates: positions of later copies of a record.
        unselected: how many records the selection left out.
        rejected: positions of records that cannot be judged; a readable record among them
            contradicts another record of the same identity.
        failure: set where the object as a whole cannot be read; it then counts as one record.
        duplicate_of: the first copy of each duplicate, as `uri#position`.
        named: pins the objects that a manifest names; `None` where the object is no manifest.
    """

    shard_id: str
    uri: str
    etag: str
    size: int
    format: str
    start: int
    stop: int
    byte_start: int | None
    byte_stop: int | None
    take: tuple[int, ...] | None
    duplicates: tuple[int, ...]
    unselected: int
    rejected: tuple[int, ...] = ()
    failure: ObjectFailure | None = None
    duplicate_of: tuple[str, ...] = ()
    named: str | None = None

    @property
    def source(self) -> TranscriptSource:
        """The object this shard is cut from."""
        return TranscriptSource(self.uri, self.etag, self.size)

    def due_positions(self) -> tuple[int, ...]:
        """Positions of the cases to judge."""
        if self.take is not None:
            return self.take
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
        lists = ("take", "duplicates", "duplicate_of", "rejected")
        tuples = {name: tuple(body[name]) for name in lists if body[name] is not None}
        failure = body["failure"] and ObjectFailure(*body["failure"])
        return cls(**body | tuples | {"failure": failure})


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will judge: read = due + duplicates + rejected + unselected, always.

    Attributes:
        shards: the shards with something to read; an object with nothing to judge has no shard.
        read: how many records were read.
        due: how many of them are to be judged.
        duplicates: how many are later copies of another record.
        rejected: how many cannot be judged.
        unselected: how many the configuration leaves out.
        content_hash: SHA-256 over uri, etag and the fate of every record, whatever the shard size;
            also over uri and etag of the objects that a manifest names.
        objects: listed = read + empty + rejected, always; `reread` of them changed while they were
            read the first time.
        odd: how many records were taken in spite of an oddity, by code of
            `assizes.judge.formats.shared.parsing`.
        reasons: how many records were rejected, by code; `rejected` is their sum.
        design: how the cases were sampled: `by` what, with which `seed`, from which `strata`, and how
            many a limit cut off (`limited`; the cases read first are no random sample); empty where
            all cases are judged.
        truth: counts of ground truth rows and cases that match each other, and that do not.
        truth_digest: SHA-256 of the file with the ground truth; `None` without such a file.
        kept: turns, calls and results of the cases, and parts that a case has no place for, as
            `assizes.judge.formats.shared.parsing` counts them.
        passed: how many of the unselected are left to other runs, by reason: `judged_before` by an
            earlier run, `not_quiet` and so left to a later run.
        prompts: the texts of the judges, as `assizes.judge.prompts.prompt_texts` keeps them; no
            part of the input.
    """

    shards: tuple[Shard, ...]
    read: int
    due: int
    duplicates: int
    rejected: int
    unselected: int
    content_hash: str
    objects: dict[str, int]
    odd: dict[str, int]
    reasons: dict[str, int]
    design: dict[str, Any] = field(default_factory=dict)
    truth: dict[str, int] = field(default_factory=dict)
    truth_digest: str | None = None
    kept: dict[str, int] = field(default_factory=dict)
    passed: dict[str, int] = field(default_factory=dict)
    prompts: dict[str, Any] = field(default_factory=dict)

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
        """How many objects vanished or changed between listing and reading; nobody knows how many
        records were in them.
        """
        return sum(self.reasons.get(code, 0) for code in ("vanished", "changed"))

    def check(self) -> None:
        """Check that every listed object and every record has exactly one fate.

        Raises:
            Unreconciled: an object or a record has no fate, or two.
        """
        objects = self.objects
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

    Args:
        message: one line that says where and why.
        plan: the plan without a case; its unreadable records are still to be quarantined. `None`
            where there is no object.
    """

    def __init__(self, message: str, plan: Plan | None = None) -> None:
        super().__init__(message)
        self.plan = plan
