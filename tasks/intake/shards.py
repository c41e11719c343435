"""From transcript objects to shards, and from a shard back to its cases.

Planning reads every record once and settles its fate: judged, duplicate, rejected or not selected.
Only the fates and some offsets are kept, never the transcripts, so a plan stays small however large
the run is. Reading a shard gives back exactly what the plan promised for it, record by record.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from itertools import islice, pairwise
from typing import Any, Final

from assizes.judge.case import Case
from assizes.judge.config.run import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.formats import FORMATS, Format
from assizes.judge.rows import as_json
from assizes.judge.summary.reconcile import reconcile
from assizes.tasks.intake.days import NothingDue
from assizes.tasks.intake.manifests import refresh_if_present, transcript_sources
from assizes.tasks.intake.preprocessing import DEFAULT_PREPROCESSOR, CasePreprocessor
from assizes.tasks.intake.record_joining import check_manifest_digest
from assizes.tasks.intake.records import case_of, digest, excerpt_of, raw_records
from assizes.tasks.intake.sampling import sample_cases
from assizes.tasks.intake.scan import (
    DEFAULT_SCAN_POLICY,
    DUE,
    DUPLICATE,
    JUDGED_BEFORE,
    LEFT_OUT,
    NOT_QUIET,
    REJECTED,
    RecordSelector,
    Scan,
    ScannedObject,
    ScanPolicy,
)
from assizes.tasks.intake.shard import Shard
from assizes.tasks.sources.lines import RawRecord, sha256_of
from assizes.tasks.sources.objects import Spool, expand
from assizes.tasks.sources.pinned import TranscriptSource

_PASSED_FATES: Final = {JUDGED_BEFORE: "judged_before", NOT_QUIET: "not_quiet"}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run will judge: read = due + duplicates + rejected + unselected, always.

    Attributes:
        shards: those with something to read; an object with nothing to judge has none.
        content_hash: SHA-256 over uri, etag and the fate of every record, whatever the shard size;
            also over uri and etag of what a manifest names.
        objects: listed = read + empty + rejected, always; `reread` of them changed while they were
            read the first time.
        odd: how many records were taken in spite of something, by code of
            `assizes.judge.formats.shared.oddities`.
        reasons: how many records were rejected, by code; `rejected` is their sum.
        design: how the cases were sampled, as `assizes.tasks.intake.sampling.sampled` says it.
        truth: rows of ground truth and cases that found each other, and that did not.
        truth_digest: of the file with the ground truth.
        kept: turns, calls, results of the cases, and what became of parts that a case has no place
            for, as `assizes.judge.formats.shared.fidelity` counts them.
        passed: those of the unselected that were left out for the sake of other runs, by reason:
            `judged_before` by an earlier one, `not_quiet` and so left to a later one.
        prompts: the texts of its judges, as `assizes.judge.prompts.prompt_texts` keeps them; no part of the input.
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
        """Plain JSON values."""
        names = (plan_field.name for plan_field in fields(self) if plan_field.name != "shards")
        return {name: getattr(self, name) for name in names} | {
            "shards": [shard.as_dict() for shard in self.shards]
        }

    @property
    def lost_object_count(self) -> int:
        """How many objects went or changed between listing and reading: nobody knows what was in
        them.
        """
        return sum(self.reasons.get(code, 0) for code in ("vanished", "changed"))

    def check(self) -> None:
        """See that every object and every record listed has come to an end.

        Raises:
            Unreconciled: when one has not, or has twice.
        """
        objects = self.objects
        reconcile("objects listed", objects["listed"], _without(objects, "listed", "reread"))
        fates = ("due", "duplicates", "rejected", "unselected")
        reconcile("records read", self.read, {name: getattr(self, name) for name in fates})
        reconcile("records rejected", self.rejected, self.reasons)
        for name, parts in (
            ("due", (len(shard.due_positions()) for shard in self.shards)),
            ("rejected", (len(shard.rejected) for shard in self.shards)),
        ):
            reconcile(f"records {name}", getattr(self, name), {"in shards": sum(parts)})

    @classmethod
    def without_objects(cls, day: dt.date | None) -> Plan:
        """The plan of a day for which nothing is there; each day's is another input."""
        content = hashlib.sha256(as_json(["nothing", day and day.isoformat()]).encode())
        objects = dict.fromkeys(("listed", "read", "empty", "rejected", "reread"), 0)
        return cls((), 0, 0, 0, 0, 0, content.hexdigest(), objects, {}, {})

    @classmethod
    def from_dict(cls, body: dict[str, Any]) -> Plan:
        """The plan that `as_dict` described."""
        return cls(**body | {"shards": tuple(Shard.from_dict(shard) for shard in body["shards"])})


@dataclass(frozen=True)
class ShardRecord:
    """One record of a shard: a case, or why there is none.

    Attributes:
        position: its number in the object, from 0, blank lines not counted.
        excerpt: how a rejected record begins, at most 80 characters, nothing unprintable.
        offset: the first byte of a rejected line in the unpacked object; null where it has none.
        sha256: of a rejected record's bytes; null where an object as a whole is rejected.
    """

    position: int
    case: Case | None
    reject: DataError | None
    excerpt: str
    offset: int | None = None
    sha256: str | None = None


def plan_intake(
    config: TranscriptsConfig,
    shard_size: int,
    spool: Spool,
    *,
    date: dt.date | None = None,
    on_progress: Callable[[int], None] | None = None,
    policy: ScanPolicy = DEFAULT_SCAN_POLICY,
) -> Plan:
    """Read every record once and cut what is to be judged into shards.

    Args:
        config: where the transcripts are and which are wanted.
        shard_size: cases per shard.
        spool: the same files are read again when the shards are.
        date: fills the uri's date placeholders.
        on_progress: told the number of records read so far, about every thousand.
        policy: only what an earlier run left, from the objects it names; the treatment that
            shards are read with.

    Raises:
        ConfigurationError: the transcripts cannot be reached, or ground truth names no case.
        NothingDue: `no_data`, nothing is left to judge.
        Unreconciled: a record is nowhere, or twice.
    """
    selector = policy.selector
    scan = Scan(config, spool, on_progress or (lambda _: None), policy)
    for source in _sources(config, date, selector, spool):
        scan.read(source)
    scan.resolve_duplicates()
    plan = _plan(scan, shard_size, policy.preprocessor, sample_cases(scan.objects, config))
    plan.check()
    if not plan.due:
        where = config.uri if config.again else expand(config.uri, date)
        raise NothingDue(_no_data(where, plan), plan)
    return plan


def _sources(
    config: TranscriptsConfig, date: dt.date | None, selector: RecordSelector | None, spool: Spool
) -> Iterator[TranscriptSource]:
    """The objects to read; one that an earlier run named and that is gone is passed on as it was."""
    if selector is None and config.again is not None:
        raise ConfigurationError(
            "[transcripts] again: needs the store of the earlier run; `assizes requeue RUN --dry-run` "
            "counts what is left of it"
        )
    if selector is None and (config.since_last or config.quiet_minutes is not None):
        raise ConfigurationError(
            "[transcripts] since_last, quiet_minutes: need the earlier runs and the time; judge with "
            "`assizes run`, or plan with `assizes plan`"
        )
    if selector is None or selector.objects is None:
        yield from transcript_sources(config, date, spool)
        return
    for source in selector.objects:
        yield refresh_if_present(source, config.storage_options)


def read_shard(
    shard: Shard,
    config: TranscriptsConfig,
    spool: Spool,
    preprocessor: CasePreprocessor = DEFAULT_PREPROCESSOR,
) -> Iterator[ShardRecord]:
    """The cases and the rejects of a shard, in order; each promised record exactly once.

    Where the object, or one that it names, has gone or changed since the plan, every promised record
    is a reject.
    """
    if shard.failure is not None:
        code, detail, excerpt = shard.failure
        yield ShardRecord(shard.start, None, DataError(code, detail), excerpt)
        return
    due, rejected = frozenset(shard.due_positions()), frozenset(shard.rejected)
    promised_positions = sorted(due | rejected)
    format_ = FORMATS[shard.format]
    try:
        where = (shard.source, spool)
        if shard.named is not None:
            check_manifest_digest(spool, shard.source, format_, shard.named)
        raws = raw_records(where, format_, config, shard.start, shard.byte_start or 0)
    except DataError as error:
        yield from (ShardRecord(position, None, error, "") for position in promised_positions)
        return
    promised = (raw for raw in raws if raw.position in due or raw.position in rejected)
    for raw in islice(promised, len(promised_positions)):
        yield _preprocess_record(
            _shard_record(raw, format_, config, is_due=raw.position in due), raw, preprocessor
        )


def _plan(
    scan: Scan, shard_size: int, preprocessor: CasePreprocessor, design: dict[str, Any]
) -> Plan:
    objects, truth = scan.objects, preprocessor.truth
    fates = Counter(fate for scanned in objects for fate in scanned.fates)
    content: list[Any] = [(s.source.uri, s.source.etag, s.fates.decode()) for s in objects]
    content += [(s.source.uri, s.manifest_pin) for s in objects if s.manifest_pin is not None]
    content += [preprocessor.truth_digest] if truth else []
    cuts = (
        (scanned, start, stop)
        for scanned in objects
        for start, stop in _cuts(scanned.fates, shard_size)
    )
    return Plan(
        shards=tuple(_shard(number, *cut) for number, cut in enumerate(cuts)),
        read=scan.total,
        due=fates[DUE],
        duplicates=fates[DUPLICATE],
        rejected=fates[REJECTED],
        unselected=sum(fates[fate] for fate in LEFT_OUT),
        content_hash=hashlib.sha256(as_json(content).encode("utf-8", "surrogatepass")).hexdigest(),
        objects=_object_counts(objects),
        odd=dict(sorted(scan.oddity_counts.items())),
        reasons=dict(sorted(scan.reasons.items())),
        design=design,
        truth=truth.counts(scan.case_ids) if truth else {},
        truth_digest=preprocessor.truth_digest,
        kept=dict(sorted(scan.part_counts.items())),
        passed={name: fates[fate] for fate, name in _PASSED_FATES.items() if fates[fate]},
    )


def _object_counts(objects: list[ScannedObject]) -> dict[str, int]:
    return {
        "listed": len(objects),
        "read": sum(bool(scanned.fates) and scanned.failure is None for scanned in objects),
        "empty": sum(not scanned.fates for scanned in objects),
        "rejected": sum(scanned.failure is not None for scanned in objects),
        "reread": sum(scanned.was_reread for scanned in objects),
    }


def _without(counts: Mapping[str, int], *names: str) -> dict[str, int]:
    return {name: count for name, count in counts.items() if name not in names}


def _cuts(fates: bytearray, shard_size: int) -> Iterator[tuple[int, int]]:
    """Ranges of positions with at most `shard_size` cases each, and at least something to read."""
    starts = [position for position, fate in enumerate(fates) if fate == DUE][::shard_size]
    bounds = [0, *starts[1:], len(fates)]
    for start, stop in pairwise(bounds):
        if any(fate in fates[start:stop] for fate in (DUE, REJECTED)):
            yield start, stop


def _shard(number: int, scanned: ScannedObject, start: int, stop: int) -> Shard:
    fates, offsets = scanned.fates[start:stop], scanned.offsets
    unselected = sum(fates.count(fate) for fate in LEFT_OUT)
    body: dict[str, Any] = {
        "uri": scanned.source.uri,
        "etag": scanned.source.etag,
        "size": scanned.source.size,
        "format": scanned.format,
        "start": start,
        "stop": stop,
        "byte_start": offsets[start] if offsets else None,
        "byte_stop": _byte_stop(scanned, stop),
        "take": _positions(fates, DUE, start) if unselected else None,
        "duplicates": _positions(fates, DUPLICATE, start),
        "unselected": unselected,
        "rejected": _positions(fates, REJECTED, start),
        "duplicate_of": tuple(
            scanned.copies[position] for position in _positions(fates, DUPLICATE, start)
        ),
        "failure": scanned.failure,
    }
    if scanned.manifest_pin is not None:
        body["named"] = scanned.manifest_pin
    return Shard(shard_id=f"{number:06d}-{digest(as_json(body), 4).hex()}", **body)


def _byte_stop(scanned: ScannedObject, stop: int) -> int | None:
    """Where the record after the last one begins, or the object ends; null where there are no lines."""
    if not scanned.offsets:
        return None
    return scanned.offsets[stop] if stop < len(scanned.offsets) else scanned.end


def _positions(fates: bytearray, wanted_fate: int, start: int) -> tuple[int, ...]:
    return tuple(position for position, fate in enumerate(fates, start) if fate == wanted_fate)


def _no_data(uri: str, plan: Plan) -> str:
    why = ", ".join(f"{code} {count}" for code, count in plan.reasons.items()) or "none"
    passed_text = "".join(f", {count} of them {name}" for name, count in plan.passed.items())
    return (
        f"no_data: nothing to judge in {uri!r}: {plan.read} records read, "
        f"{plan.rejected} rejected ({why}), {plan.unselected} not selected{passed_text}"
    )


def _preprocess_record(
    record: ShardRecord, raw: RawRecord, preprocessor: CasePreprocessor
) -> ShardRecord:
    if record.case is not None:
        return replace(record, case=preprocessor.prepared_case(record.case))
    error = record.reject and preprocessor.redacted_fault(record.reject)
    return replace(
        record, reject=error, excerpt=excerpt_of(raw.body, preprocessor.redacted_excerpt)
    )


def _shard_record(
    raw: RawRecord, format_: Format, config: TranscriptsConfig, *, is_due: bool
) -> ShardRecord:
    try:
        case = case_of(raw, format_, config)
    except DataError as error:
        return _reject(raw, error)
    if is_due:
        return ShardRecord(raw.position, case, None, "")
    return _reject(
        raw,
        DataError(
            "id_conflict",
            f"case {case.case_id!r} repetition {case.repetition} is there with another content",
        ),
    )


def _reject(raw: RawRecord, error: DataError) -> ShardRecord:
    return ShardRecord(raw.position, None, error, "", offset=raw.offset, sha256=sha256_of(raw))
