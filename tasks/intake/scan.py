"""The first pass over the transcripts: every record is read once and gets its fate."""

from __future__ import annotations

import logging
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple

from assizes.judge.case import Case
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import DataError
from assizes.judge.formats import FORMATS, Format
from assizes.judge.formats.shared.fidelity import fidelity_counts
from assizes.judge.formats.shared.oddities import oddities
from assizes.judge.selection import stratum_of
from assizes.tasks.intake.plan import ObjectFailure
from assizes.tasks.intake.reader import RawRecord, TranscriptReader, excerpt_of
from assizes.tasks.intake.record_joining import lines_path, manifest_digest
from assizes.tasks.intake.selection import (
    DUE,
    DUPLICATE,
    REJECTED,
    UNSELECTED,
    ScanPolicy,
    identity,
    selection_flags,
)
from assizes.tasks.sources.listing import refresh_source
from assizes.tasks.sources.spool import Spool
from assizes.tasks.sources.transcript_source import TranscriptSource

log = logging.getLogger(__name__)

_PROGRESS_EVERY: Final = 1000
_FILTER_BATCH: Final = 256
"""How many cases are filtered at once; one call of the filter costs much more than one case."""


@dataclass(slots=True)
class ScannedObject:
    """One object after the scan has read it: a fate and an offset for each record.

    Attributes:
        source: the object.
        format: the name of its format; empty where the object was not recognised.
        fates: one byte a record, a constant of `assizes.tasks.intake.selection`.
        offsets: the first byte of each record; empty unless each record is a line.
        end: bytes of the file of lines.
        failure: set where the object as a whole cannot be read.
        copies: the first copy of each duplicate, as `uri#position`, by the duplicate's position.
        identities: identity and position of each record that may have duplicates.
        reasons: how many records were rejected, by code.
        oddity_counts: how many records were taken in spite of an oddity, by code.
        sample_keys: case id and stratum of the cases to draw a sample from, by position.
        part_counts: how many turns, calls, results and other parts the cases hold, and how many
            parts have no place in a case.
        manifest_pin: pins the objects that a manifest names, as
            `assizes.tasks.intake.record_joining.manifest_digest` returns it.
        was_reread: whether the object changed during the first reading and was read once more.
    """

    source: TranscriptSource
    format: str = ""
    fates: bytearray = field(default_factory=bytearray)
    offsets: array[int] = field(default_factory=lambda: array("q"))
    end: int = 0
    failure: ObjectFailure | None = None
    copies: dict[int, str] = field(default_factory=dict)
    identities: list[tuple[bytes, int]] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    oddity_counts: Counter[str] = field(default_factory=Counter)
    sample_keys: dict[int, tuple[str, str]] = field(default_factory=dict)
    part_counts: Counter[str] = field(default_factory=Counter)
    manifest_pin: str | None = None
    was_reread: bool = False

    def reject(self, error: DataError) -> int:
        """Count the reason of a reject; returns the fate of the rejected record."""
        self.reasons[error.code] += 1
        return REJECTED


class _RecordPosition(NamedTuple):
    object_number: int
    position: int


class Scan:
    """Reads the objects of a run one by one, and remembers which cases it has seen.

    Attributes:
        objects: the objects that were read, in order.
        total: how many records were read.
        reasons: how many records were rejected, by code.
        oddity_counts: as in `ScannedObject`, over all objects.
        case_ids: the ids of all readable cases; collected only with ground truth.
        part_counts: as in `ScannedObject`, over all objects.
    """

    def __init__(
        self,
        config: TranscriptsConfig,
        spool: Spool,
        on_progress: Callable[[int], None],
        policy: ScanPolicy,
    ) -> None:
        self._config = config
        self._selector, self._preprocessor = policy
        self._spool = spool
        self._reader = TranscriptReader(config, spool)
        self._on_progress = on_progress
        self._seen: dict[bytes, _RecordPosition] = {}
        self._duplicates: dict[bytes, list[_RecordPosition]] = {}
        self.total = 0
        self.objects: list[ScannedObject] = []
        self.reasons: Counter[str] = Counter()
        self.oddity_counts: Counter[str] = Counter()
        self.case_ids: set[str] = set()
        self.part_counts: Counter[str] = Counter()

    @property
    def identities(self) -> Collection[bytes]:
        """The identities of all cases that the configuration names, sampled or not."""
        return self._seen.keys()

    def read(self, source: TranscriptSource) -> None:
        """Give every record of one object its fate; duplicates are found by `resolve_duplicates`.

        An object that changes during the reading is read once more and pinned as it is then.
        """
        scanned = self._scan_object(source)
        if scanned.failure is not None and scanned.failure.code == "changed":
            self.total -= len(scanned.fates)
            scanned = self._rescan_object(source)
        number = len(self.objects)
        self.objects.append(scanned)
        for case_identity, position in scanned.identities:
            place = _RecordPosition(number, position)
            first = self._seen.setdefault(case_identity, place)
            if first is not place:
                self._duplicates.setdefault(case_identity, [first]).append(place)
        scanned.identities = []
        self.reasons += scanned.reasons
        self.oddity_counts += scanned.oddity_counts
        self.part_counts += scanned.part_counts
        self._on_progress(self.total)

    def _rescan_object(self, source: TranscriptSource) -> ScannedObject:
        try:
            now = refresh_source(source, self._config.storage_options)
        except DataError as error:
            return self._failed_scan(source, error, b"")
        log.warning("%s changed while it was read; it is read once more as it is now", source.uri)
        scanned = self._scan_object(now)
        scanned.was_reread = True
        return scanned

    def _scan_object(self, source: TranscriptSource) -> ScannedObject:
        head = b""
        scanned = ScannedObject(source)
        try:
            head = self._reader.head(source)
            if not head:
                if (fault := self._spool.salvage_fault(source)) is not None:
                    raise fault
                return scanned
            format_ = self._reader.format_of(source, head)
            raws = self._reader.records(source, format_)
            scanned.format = format_.name
            scanned.manifest_pin = manifest_digest(self._spool, source, format_)
            scanned.end = lines_path(self._spool, source, format_).stat().st_size
            self._read_records(scanned, format_, raws)
            # A plain local file may have been rewritten during the reading: check its etag again.
            self._spool.path(source)
        except DataError as error:
            self.total -= len(scanned.fates)
            return self._failed_scan(source, error, head)
        return scanned

    def _failed_scan(
        self, source: TranscriptSource, error: DataError, head: bytes
    ) -> ScannedObject:
        scanned = ScannedObject(source)
        excerpt = excerpt_of(head, self._preprocessor.redacted_excerpt)
        scanned.failure = ObjectFailure(
            error.code, self._preprocessor.redacted_fault(error).detail, excerpt
        )
        scanned.fates.append(scanned.reject(error))
        self._count()
        return scanned

    def _read_records(
        self, scanned: ScannedObject, format_: Format, raws: Iterator[RawRecord]
    ) -> None:
        batch_size = 1 if self._config.filter is None else _FILTER_BATCH
        while batch := list(islice(raws, batch_size)):
            cases = [self._case(raw, format_) for raw in batch]
            for raw, case, is_selected in zip(
                batch, cases, self._selected_flags(cases), strict=True
            ):
                scanned.fates.append(
                    self._fate(scanned, raw.position, case, is_selected=is_selected)
                )
                if raw.offset is not None:
                    scanned.offsets.append(raw.offset)
                self._count()

    def _case(self, raw: RawRecord, format_: Format) -> Case | DataError:
        try:
            return self._reader.case(raw, format_)
        except DataError as error:
            return error

    def _selected_flags(self, cases: Sequence[Case | DataError]) -> list[bool]:
        """Whether the configuration selects each; an unreadable record counts as selected."""
        readable = [case for case in cases if isinstance(case, Case)]
        flags = iter(selection_flags(readable, self._config))
        return [not isinstance(case, Case) or next(flags) for case in cases]

    def _fate(
        self, scanned: ScannedObject, position: int, case: Case | DataError, *, is_selected: bool
    ) -> int:
        """The fate of a record before duplicates are known.

        A case that is left out is no duplicate of a selected case: two agents may share a task.
        """
        if isinstance(case, DataError):
            return self._fate_unread(scanned, position, case)
        if self._preprocessor.truth is not None:
            self.case_ids.add(case.case_id)
        if not is_selected:
            return UNSELECTED
        if self._selector is not None:
            fate = self._selector.fate(
                scanned.source, position, self._preprocessor.prepared_case(case)
            )
            if fate == REJECTED:
                scanned.reasons["id_conflict"] += 1
            if fate != DUE:
                return fate
        scanned.identities.append((identity(case.case_id, case.repetition), position))
        scanned.oddity_counts.update(oddities(case))
        scanned.part_counts.update(fidelity_counts(case))
        if self._config.is_sampled:
            sample_key = (case.case_id, stratum_of(case, self._config.stratify_by))
            scanned.sample_keys[position] = sample_key
        return DUE

    def _fate_unread(self, scanned: ScannedObject, position: int, error: DataError) -> int:
        if self._selector is not None:
            fate = self._selector.fate_unread(scanned.source, position)
            if fate != REJECTED:
                return fate
        return scanned.reject(error)

    def resolve_duplicates(self) -> None:
        """Change the fates of records of one identity: later copies of the same content become
        duplicates; records of different content contradict each other and are rejected.
        """
        contents: dict[bytes, dict[str, _RecordPosition]] = {
            case_identity: {} for case_identity in self._duplicates
        }
        for place, case_identity in sorted(
            (place, case_identity)
            for case_identity, places in self._duplicates.items()
            for place in places
        ):
            first = contents[case_identity].setdefault(self._content_hash(place), place)
            if first is not place:
                self._set_fate(place, DUPLICATE)
                uri = self.objects[first.object_number].source.uri
                self.objects[place.object_number].copies[place.position] = f"{uri}#{first.position}"
        for firsts in contents.values():
            if len(firsts) > 1:
                self.reasons["id_conflict"] += len(firsts)
                for place in firsts.values():
                    self._set_fate(place, REJECTED)

    def _content_hash(self, place: _RecordPosition) -> str:
        scanned = self.objects[place.object_number]
        format_ = FORMATS[scanned.format]
        offset = scanned.offsets[place.position] if format_.by_line else 0
        raw = next(self._reader.records(scanned.source, format_, place.position, offset))
        return self._reader.case(raw, format_).content_hash()

    def _set_fate(self, place: _RecordPosition, fate: int) -> None:
        self.objects[place.object_number].fates[place.position] = fate

    def _count(self) -> None:
        self.total += 1
        if self.total % _PROGRESS_EVERY == 0:
            self._on_progress(self.total)
