"""From transcript objects to shards, and from a shard back to its cases.

Planning reads every record once and settles its fate: judged, duplicate, rejected or not selected.
Only the fates and some offsets are kept, never the transcripts, so a plan stays small however large
the run is. Reading a shard gives back exactly what the plan promised for it, record by record.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from typing import Any

from judge.case import Case
from judge.config import TranscriptsConfig
from judge.errors import DataError, Inconclusive
from judge.formats import FORMATS, Format
from judge.rows import as_json
from tasks.objects import Source, Spool, expand, list_sources
from tasks.records import Raw, case_of, digest, excerpt_of, raw_records
from tasks.scan import DUE, DUPLICATE, REJECTED, UNSELECTED, Failure, Scan, Scanned


@dataclass(frozen=True, slots=True)
class Shard:
    """Consecutive records of one object, by reference; what one task judges.

    Attributes:
        shard_id: number in the plan and 8 hex digits of what the shard is about.
        format: name in `judge.formats.FORMATS`; empty where the object was never recognised.
        start: position of the first record; blank lines have none.
        stop: position after the last record.
        byte_start: where the first record begins, for formats of one record a line.
        byte_stop: where the last record ends.
        take: positions to judge; null: all that are neither duplicate nor rejected.
        duplicates: positions of later copies of a record.
        rejected: positions of records that cannot be judged; one that can be read is in conflict
            with another record of the same identity.
        unselected: how many records the selection left out.
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
    failure: Failure | None = None

    @property
    def source(self) -> Source:
        """The object this shard is cut from."""
        return Source(self.uri, self.etag, self.size)

    def due(self) -> tuple[int, ...]:
        """Positions of the cases to judge."""
        if self.take is not None:
            return self.take
        out = {*self.duplicates, *self.rejected}
        return tuple(position for position in range(self.start, self.stop) if position not in out)

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
                "rejected": tuple(body["rejected"]),
                "failure": None if failure is None else Failure(*failure),
            }
        )


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will judge: read = due + duplicates + rejected + unselected, always.

    Attributes:
        shards: those with something to read; an object with nothing to judge has none.
        content_hash: SHA-256 over uri, etag and the fate of every record, whatever the shard size.
    """

    shards: tuple[Shard, ...]
    read: int
    due: int
    duplicates: int
    rejected: int
    unselected: int
    content_hash: str

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        counts = ("read", "due", "duplicates", "rejected", "unselected", "content_hash")
        return {name: getattr(self, name) for name in counts} | {
            "shards": [shard.as_dict() for shard in self.shards]
        }

    @classmethod
    def from_dict(cls, body: dict[str, Any]) -> Plan:
        """The plan that `as_dict` described."""
        return cls(**body | {"shards": tuple(Shard.from_dict(shard) for shard in body["shards"])})


@dataclass(frozen=True)
class Record:
    """One record of a shard: a case, or why there is none.

    Attributes:
        position: its number in the object, from 0, blank lines not counted.
        excerpt: how a rejected record begins, at most 80 characters, nothing unprintable.
    """

    position: int
    case: Case | None
    reject: DataError | None
    excerpt: str


def plan_intake(
    config: TranscriptsConfig,
    shard_size: int,
    spool: Spool,
    *,
    date: dt.date | None = None,
    on_progress: Callable[[int], None] | None = None,
) -> Plan:
    """Reads every record once and cuts what is to be judged into shards.

    Args:
        config: where the transcripts are and which are wanted.
        shard_size: cases per shard.
        spool: the same files are read again when the shards are.
        date: fills the uri's date placeholders.
        on_progress: told the number of records read so far, about every thousand.

    Raises:
        ConfigurationError: the transcripts cannot be reached.
        Inconclusive: `no_data`, nothing is left to judge.
    """
    uri = expand(config.uri, date)
    scan = Scan(config, spool, on_progress or (lambda _: None))
    for source in list_sources(uri, config.storage_options):
        scan.read(source)
    scan.settle_twins()
    if config.limit is not None:
        _limited(scan.objects, config.limit)
    plan = _plan(scan.objects, shard_size)
    if not plan.due:
        raise Inconclusive(_no_data(uri, plan, scan.reasons))
    return plan


def read_shard(shard: Shard, config: TranscriptsConfig, spool: Spool) -> Iterator[Record]:
    """The cases and the rejects of a shard, in order; each promised record exactly once.

    Where the object has gone or changed since the plan, every promised record is a reject.
    """
    if shard.failure is not None:
        code, detail, excerpt = shard.failure
        yield Record(shard.start, None, DataError(code, detail), excerpt)
        return
    due, rejected = frozenset(shard.due()), frozenset(shard.rejected)
    wanted = sorted(due | rejected)
    format_ = FORMATS[shard.format]
    try:
        raws = raw_records(shard.source, format_, spool, shard.start, shard.byte_start or 0)
    except DataError as error:
        yield from (Record(position, None, error, "") for position in wanted)
        return
    promised = (raw for raw in raws if raw.position in due or raw.position in rejected)
    for raw in islice(promised, len(wanted)):
        yield _record(raw, format_, config, is_due=raw.position in due)


def _limited(objects: Iterable[Scanned], limit: int) -> None:
    left = limit
    for scanned in objects:
        for position, fate in enumerate(scanned.fates):
            if fate == DUE and left:
                left -= 1
            elif fate == DUE:
                scanned.fates[position] = UNSELECTED


def _plan(objects: list[Scanned], shard_size: int) -> Plan:
    fates = Counter(fate for scanned in objects for fate in scanned.fates)
    content = as_json([(s.source.uri, s.source.etag, s.fates.decode()) for s in objects])
    cuts = (
        (scanned, start, stop)
        for scanned in objects
        for start, stop in _cuts(scanned.fates, shard_size)
    )
    return Plan(
        shards=tuple(_shard(number, *cut) for number, cut in enumerate(cuts)),
        read=fates.total(),
        due=fates[DUE],
        duplicates=fates[DUPLICATE],
        rejected=fates[REJECTED],
        unselected=fates[UNSELECTED],
        content_hash=hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest(),
    )


def _cuts(fates: bytearray, shard_size: int) -> Iterator[tuple[int, int]]:
    """Ranges of positions with at most `shard_size` cases each, and at least something to read."""
    starts = [position for position, fate in enumerate(fates) if fate == DUE][::shard_size]
    bounds = [0, *starts[1:], len(fates)]
    for start, stop in pairwise(bounds):
        if any(fate in fates[start:stop] for fate in (DUE, REJECTED)):
            yield start, stop


def _shard(number: int, scanned: Scanned, start: int, stop: int) -> Shard:
    fates, offsets = scanned.fates[start:stop], scanned.offsets
    unselected = fates.count(UNSELECTED)
    body: dict[str, Any] = {
        "uri": scanned.source.uri,
        "etag": scanned.source.etag,
        "size": scanned.source.size,
        "format": scanned.format,
        "start": start,
        "stop": stop,
        "byte_start": offsets[start] if offsets else None,
        "byte_stop": ([*offsets[stop : stop + 1], scanned.end])[0] if offsets else None,
        "take": _positions(fates, DUE, start) if unselected else None,
        "duplicates": _positions(fates, DUPLICATE, start),
        "unselected": unselected,
        "rejected": _positions(fates, REJECTED, start),
        "failure": scanned.failure,
    }
    return Shard(shard_id=f"{number:06d}-{digest(as_json(body), 4).hex()}", **body)


def _positions(fates: bytearray, wanted: int, start: int) -> tuple[int, ...]:
    return tuple(position for position, fate in enumerate(fates, start) if fate == wanted)


def _no_data(uri: str, plan: Plan, reasons: Counter[str]) -> str:
    why = ", ".join(f"{code} {count}" for code, count in sorted(reasons.items())) or "none"
    return (
        f"no_data: nothing to judge in {uri!r}: {plan.read} records read, "
        f"{plan.rejected} rejected ({why}), {plan.unselected} not selected"
    )


def _record(raw: Raw, format_: Format, config: TranscriptsConfig, *, is_due: bool) -> Record:
    try:
        case = case_of(raw.body, format_, config)
    except DataError as error:
        return Record(raw.position, None, error, excerpt_of(raw.body))
    if is_due:
        return Record(raw.position, case, None, "")
    conflict = DataError(
        "id_conflict",
        f"case {case.case_id!r} repetition {case.repetition} is there with another content",
    )
    return Record(raw.position, None, conflict, excerpt_of(raw.body))
