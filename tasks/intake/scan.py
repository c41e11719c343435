"""The one pass over every record of a run: each is read once and its fate settled."""

from __future__ import annotations

import logging
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, NamedTuple, Protocol

from assizes.judge.case import Case
from assizes.judge.config.run import TranscriptsConfig
from assizes.judge.errors import DataError
from assizes.judge.formats import FORMATS, Format
from assizes.judge.formats.shared.fidelity import fidelity_counts
from assizes.judge.formats.shared.oddities import oddities
from assizes.judge.selection import stratum_of
from assizes.tasks.intake.preprocessing import DEFAULT_PREPROCESSOR, CasePreprocessor
from assizes.tasks.intake.record_joining import lines_path, manifest_digest, plain_path
from assizes.tasks.intake.records import (
    case_of,
    excerpt_of,
    format_of,
    head_of,
    identity,
    raw_records,
    selection_flags,
)
from assizes.tasks.sources.lines import RawRecord
from assizes.tasks.sources.objects import Spool, refresh_source
from assizes.tasks.sources.pinned import TranscriptSource

log = logging.getLogger(__name__)

DUE: Final = ord("d")
"""Fate of a record that is to be judged."""
DUPLICATE: Final = ord("t")
"""Fate of a later copy of a record."""
REJECTED: Final = ord("r")
"""Fate of a record that cannot be read, or contradicts another of the same identity."""
UNSELECTED: Final = ord("u")
"""Fate of a good record that the configuration does not ask for."""
JUDGED_BEFORE: Final = ord("b")
"""Fate of one that an earlier run has judged."""
NOT_QUIET: Final = ord("q")
"""Fate of one whose conversation may go on: it is left for a later run."""
LEFT_OUT: Final = (UNSELECTED, JUDGED_BEFORE, NOT_QUIET)
"""All three count as not selected."""

_PROGRESS_EVERY: Final = 1000
_FILTER_BATCH: Final = 256


class ObjectFailure(NamedTuple):
    """Why an object as a whole gives no record: a reason code, a sentence, how it begins."""

    code: str
    detail: str
    excerpt: str


class RecordSelector(Protocol):
    """Which of the records that a configuration means are wanted, after earlier runs."""

    @property
    def objects(self) -> Iterable[TranscriptSource] | None:
        """Those an earlier run left something in, as they were then; null: all that are there."""
        ...

    def fate(self, source: TranscriptSource, position: int, case: Case) -> int:
        """Of a record that can be read."""
        ...

    def fate_unread(self, source: TranscriptSource, position: int) -> int:
        """Of one that cannot."""
        ...


class ScanPolicy(NamedTuple):
    """What records are wanted beside what the configuration means, and what is done to a case."""

    selector: RecordSelector | None = None
    preprocessor: CasePreprocessor = DEFAULT_PREPROCESSOR


DEFAULT_SCAN_POLICY: Final = ScanPolicy()
"""All records, and nothing done to a case but what is done to every one."""


@dataclass(slots=True)
class ScannedObject:
    """One object after planning has read it: a fate and an offset for each record.

    Attributes:
        copies: where the first copy of a duplicate stands, as `uri#position`, by its position.
        identities: of the records that may have twins, with their positions.
        reasons: how many records were rejected, by code.
        odd: how many were taken in spite of something, by code.
        lots: case id and stratum of the cases to draw from, by position.
        kept: how many turns, calls, results and other parts they hold, and what became of the rest.
        named: what pins the objects that a manifest names, as `assizes.tasks.intake.record_joining.named_by`.
        reread: whether the object changed under the first reading and was read once more.
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
        """Count a reason; the fate of what it is about."""
        self.reasons[error.code] += 1
        return REJECTED


class _RecordPosition(NamedTuple):
    object_number: int
    position: int


class Scan:
    """The one pass over every record, and what has to be remembered between objects."""

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
        self._on_progress = on_progress
        self._seen: dict[bytes, _RecordPosition] = {}
        self._twins: dict[bytes, list[_RecordPosition]] = {}
        self._read = 0
        self.objects: list[ScannedObject] = []
        self.reasons: Counter[str] = Counter()
        self.oddity_counts: Counter[str] = Counter()
        self.case_ids: set[str] = set()
        self.part_counts: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """How many records were read, counted one by one."""
        return self._read

    @property
    def identities(self) -> Collection[bytes]:
        """What the cases are known by that are meant, sampled or not."""
        return self._seen.keys()

    def read(self, source: TranscriptSource) -> None:
        """Settle the fate of every record of one object, twins aside.

        One that changes meanwhile is read once more as it is then, and pinned so.
        """
        scanned = self._scan_object(source)
        if scanned.failure is not None and scanned.failure.code == "changed":
            self._read -= len(scanned.fates)
            scanned = self._rescan_object(source)
        number = len(self.objects)
        self.objects.append(scanned)
        for known_by, position in scanned.identities:
            self._remember(known_by, _RecordPosition(number, position))
        scanned.identities = []
        self.reasons += scanned.reasons
        self.oddity_counts += scanned.oddity_counts
        self.part_counts += scanned.part_counts
        self._on_progress(self._read)

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
            path = plain_path(self._spool, source)
            head = head_of(path)
            if not head:
                if (broken := self._spool.salvage_fault(source)) is not None:
                    raise broken
                return scanned
            format_ = format_of(self._config, head, path)
            raws = raw_records((source, self._spool), format_, self._config, 0, 0)
            scanned.format = format_.name
            scanned.manifest_pin = manifest_digest(self._spool, source, format_)
            scanned.end = lines_path(self._spool, source, format_).stat().st_size
            self._read_records(scanned, format_, raws)
            self._spool.path(source)  # a plain file may have been rewritten under the reader
        except DataError as error:
            self._read -= len(scanned.fates)
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
        at_once = 1 if self._config.filter is None else _FILTER_BATCH
        while batch := list(islice(raws, at_once)):
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
            return case_of(raw, format_, self._config)
        except DataError as error:
            return error

    def _selected_flags(self, cases: Sequence[Case | DataError]) -> list[bool]:
        """Whether the configuration means each; a record that cannot be read may be meant."""
        readable = [case for case in cases if isinstance(case, Case)]
        answers = iter(selection_flags(readable, self._config))
        return [not isinstance(case, Case) or next(answers) for case in cases]

    def _fate(
        self, scanned: ScannedObject, position: int, case: Case | DataError, *, is_selected: bool
    ) -> int:
        """Cases that are left out are no twins of those that are meant: agents may share tasks."""
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
        """Records of one identity: later copies are duplicates, different ones are in conflict."""
        contents: dict[bytes, dict[str, _RecordPosition]] = {
            known_by: {} for known_by in self._twins
        }
        for place, known_by in sorted(
            (place, known_by) for known_by, places in self._twins.items() for place in places
        ):
            first = contents[known_by].setdefault(self._content_hash(place), place)
            if first is not place:
                self._set_fate(place, DUPLICATE)
                uri = self.objects[first.object_number].source.uri
                self.objects[place.object_number].copies[place.position] = f"{uri}#{first.position}"
        for firsts in contents.values():
            if len(firsts) > 1:
                self.reasons["id_conflict"] += len(firsts)
                for place in firsts.values():
                    self._set_fate(place, REJECTED)

    def _remember(self, known_by: bytes, place: _RecordPosition) -> None:
        first = self._seen.setdefault(known_by, place)
        if first is not place:
            self._twins.setdefault(known_by, [first]).append(place)

    def _content_hash(self, place: _RecordPosition) -> str:
        scanned = self.objects[place.object_number]
        format_ = FORMATS[scanned.format]
        offset = scanned.offsets[place.position] if format_.by_line else 0
        where = (scanned.source, self._spool)
        raw = next(raw_records(where, format_, self._config, place.position, offset))
        return case_of(raw, format_, self._config).content_hash()

    def _set_fate(self, place: _RecordPosition, fate: int) -> None:
        self.objects[place.object_number].fates[place.position] = fate

    def _count(self) -> None:
        self._read += 1
        if self._read % _PROGRESS_EVERY == 0:
            self._on_progress(self._read)
