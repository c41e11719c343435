"""A shard: records of one object that one task judges, and what was promised of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from assizes.judge.summary.reconcile import reconcile
from assizes.tasks.intake.scan import ObjectFailure
from assizes.tasks.sources.pinned import TranscriptSource

HEARD_STATUSES: Final = ("judged", "errored", "skipped")
"""What becomes of a case that was heard."""


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive records of one object, by reference; what one task judges.

    Attributes:
        shard_id: number in the plan and 8 hex digits of what the shard is about.
        format: name in `assizes.judge.formats.FORMATS`; empty where the object was never recognised.
        start: position of the first record; blank lines have none.
        stop: position after the last record.
        byte_start: where the first record begins, for formats of one record a line.
        byte_stop: where the last record ends.
        take: positions to judge; null: all that are neither duplicate nor rejected.
        duplicates: positions of later copies of a record.
        duplicate_of: where the first copy of each stands, as `uri#position`.
        rejected: positions of records that cannot be judged; one that can be read is in conflict
            with another record of the same identity.
        unselected: how many records the selection left out.
        named: what pins the objects that a manifest names; null where it is none.
        failure: set where the object as a whole cannot be read; it then counts as one record.
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
        """See that what was promised of this shard is what came of it.

        Raises:
            Unreconciled: when a record is missing, or there is one too many.
        """
        heard_counts = {name: counts.get(name, 0) for name in HEARD_STATUSES}
        reconcile(f"cases due in shard {self.shard_id}", len(self.due_positions()), heard_counts)
        quarantined = {"quarantined": counts.get("quarantined", 0)}
        reconcile(f"records rejected in shard {self.shard_id}", len(self.rejected), quarantined)

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return asdict(self) | {"failure": self.failure and list(self.failure)}

    @classmethod
    def from_dict(cls, body: dict[str, Any]) -> Shard:
        """The shard that `as_dict` described."""
        take, failure = body["take"], body["failure"]
        return cls(
            **body
            | {
                "take": None if take is None else tuple(take),
                "duplicates": tuple(body["duplicates"]),
                "duplicate_of": tuple(body["duplicate_of"]),
                "rejected": tuple(body["rejected"]),
                "failure": None if failure is None else ObjectFailure(*failure),
            }
        )
