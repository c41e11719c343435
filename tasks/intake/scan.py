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
from assizes.judge.formats.shared.fidelity import measured
from assizes.judge.formats.shared.oddities import oddities
from assizes.judge.selection import stratum_of
from assizes.tasks.intake.preprocessing import AS_READ, Treatment
from assizes.tasks.intake.record_joining import lines_path, named_by, plain_path
from assizes.tasks.intake.records import (
    case_of,
    excerpt_of,
    format_of,
    head_of,
    identity,
    raw_records,
    wanted,
)
from assizes.tasks.sources.lines import Raw
from assizes.tasks.sources.objects import Spool, relisted
from assizes.tasks.sources.pinned import Source

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
_FILTERED_AT_ONCE: Final = 256


class Failure(NamedTuple):
    """Why an object as a whole gives no record: a reason code, a sentence, how it begins."""

    code: str
    detail: str
    excerpt: str


class Choice(Protocol):
    """Which of the records that a configuration means are wanted, after earlier runs."""

    @property
    def objects(self) -> Iterable[Source] | None:
        """Those an earlier run left something in, as they were then; null: all that are there."""
        ...

    def fate(self, source: Source, position: int, case: Case) -> int:
        """Of a record that can be read."""
        ...

    def fate_unread(self, source: Source, position: int) -> int:
        """Of one that cannot."""
        ...


class Handling(NamedTuple):
    """What records are wanted beside what the configuration means, and what is done to a case."""

    choice: Choice | None = None
    treatment: Treatment = AS_READ


AS_IT_IS: Final = Handling()
"""All records, and nothing done to a case but what is done to every one."""


@dataclass(slots=True)
class Scanned:
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

    source: Source
    format: str = ""
    fates: bytearray = field(default_factory=bytearray)
    offsets: array[int] = field(default_factory=lambda: array("q"))
    end: int = 0
    failure: Failure | None = None
    copies: dict[int, str] = field(default_factory=dict)
    identities: list[tuple[bytes, int]] = field(default_factory=list)
    reasons: Counter[str] = field(default_factory=Counter)
    odd: Counter[str] = field(default_factory=Counter)
    lots: dict[int, tuple[str, str]] = field(default_factory=dict)
    kept: Counter[str] = field(default_factory=Counter)
    named: str | None = None
    reread: bool = False

    def reject(self, error: DataError) -> int:
        """Count a reason; the fate of what it is about."""
        self.reasons[error.code] += 1
        return REJECTED


class _Place(NamedTuple):
    scanned: int
    position: int


class Scan:
    """The one pass over every record, and what has to be remembered between objects."""

    def __init__(
        self,
        config: TranscriptsConfig,
        spool: Spool,
        on_progress: Callable[[int], None],
        handling: Handling,
    ) -> None:
        self._config = config
        self._choice, self._treatment = handling
        self._spool = spool
        self._on_progress = on_progress
        self._seen: dict[bytes, _Place] = {}
        self._twins: dict[bytes, list[_Place]] = {}
        self._read = 0
        self.objects: list[Scanned] = []
        self.reasons: Counter[str] = Counter()
        self.odd: Counter[str] = Counter()
        self.case_ids: set[str] = set()
        self.kept: Counter[str] = Counter()

    @property
    def total(self) -> int:
        """How many records were read, counted one by one."""
        return self._read

    @property
    def identities(self) -> Collection[bytes]:
        """What the cases are known by that are meant, sampled or not."""
        return self._seen.keys()

    def read(self, source: Source) -> None:
        """Settle the fate of every record of one object, twins aside.

        One that changes meanwhile is read once more as it is then, and pinned so.
        """
        scanned = self._scanned(source)
        if scanned.failure is not None and scanned.failure.code == "changed":
            self._read -= len(scanned.fates)
            scanned = self._scanned_anew(source)
        number = len(self.objects)
        self.objects.append(scanned)
        for known_by, position in scanned.identities:
            self._remember(known_by, _Place(number, position))
        scanned.identities = []
        self.reasons += scanned.reasons
        self.odd += scanned.odd
        self.kept += scanned.kept
        self._on_progress(self._read)

    def _scanned_anew(self, source: Source) -> Scanned:
        try:
            now = relisted(source, self._config.storage_options)
        except DataError as error:
            return self._failed(source, error, b"")
        log.warning("%s changed while it was read; it is read once more as it is now", source.uri)
        scanned = self._scanned(now)
        scanned.reread = True
        return scanned

    def _scanned(self, source: Source) -> Scanned:
        head = b""
        scanned = Scanned(source)
        try:
            path = plain_path(self._spool, source)
            head = head_of(path)
            if not head:
                if (broken := self._spool.broken(source)) is not None:
                    raise broken
                return scanned
            format_ = format_of(self._config, head, path)
            raws = raw_records((source, self._spool), format_, self._config, 0, 0)
            scanned.format = format_.name
            scanned.named = named_by(self._spool, source, format_)
            scanned.end = lines_path(self._spool, source, format_).stat().st_size
            self._read_records(scanned, format_, raws)
            self._spool.path(source)  # a plain file may have been rewritten under the reader
        except DataError as error:
            self._read -= len(scanned.fates)
            return self._failed(source, error, head)
        return scanned

    def _failed(self, source: Source, error: DataError, head: bytes) -> Scanned:
        scanned = Scanned(source)
        excerpt = excerpt_of(head, self._treatment.excerpt)
        scanned.failure = Failure(error.code, self._treatment.fault(error).detail, excerpt)
        scanned.fates.append(scanned.reject(error))
        self._count()
        return scanned

    def _read_records(self, scanned: Scanned, format_: Format, raws: Iterator[Raw]) -> None:
        at_once = 1 if self._config.filter is None else _FILTERED_AT_ONCE
        while batch := list(islice(raws, at_once)):
            cases = [self._case(raw, format_) for raw in batch]
            for raw, case, meant in zip(batch, cases, self._meant(cases), strict=True):
                scanned.fates.append(self._fate(scanned, raw.position, case, meant=meant))
                if raw.offset is not None:
                    scanned.offsets.append(raw.offset)
                self._count()

    def _case(self, raw: Raw, format_: Format) -> Case | DataError:
        try:
            return case_of(raw, format_, self._config)
        except DataError as error:
            return error

    def _meant(self, cases: Sequence[Case | DataError]) -> list[bool]:
        """Whether the configuration means each; a record that cannot be read may be meant."""
        readable = [case for case in cases if isinstance(case, Case)]
        answers = iter(wanted(readable, self._config))
        return [not isinstance(case, Case) or next(answers) for case in cases]

    def _fate(self, scanned: Scanned, position: int, case: Case | DataError, *, meant: bool) -> int:
        """Cases that are left out are no twins of those that are meant: agents may share tasks."""
        if isinstance(case, DataError):
            return self._fate_unread(scanned, position, case)
        if self._treatment.truth is not None:
            self.case_ids.add(case.case_id)
        if not meant:
            return UNSELECTED
        if self._choice is not None:
            fate = self._choice.fate(scanned.source, position, self._treatment.case(case))
            if fate == REJECTED:
                scanned.reasons["id_conflict"] += 1
            if fate != DUE:
                return fate
        scanned.identities.append((identity(case.case_id, case.repetition), position))
        scanned.odd.update(oddities(case))
        scanned.kept.update(measured(case))
        if self._config.draws:
            lot = (case.case_id, stratum_of(case, self._config.stratify_by))
            scanned.lots[position] = lot
        return DUE

    def _fate_unread(self, scanned: Scanned, position: int, error: DataError) -> int:
        if self._choice is not None:
            fate = self._choice.fate_unread(scanned.source, position)
            if fate != REJECTED:
                return fate
        return scanned.reject(error)

    def settle_twins(self) -> None:
        """Records of one identity: later copies are duplicates, different ones are in conflict."""
        contents: dict[bytes, dict[str, _Place]] = {known_by: {} for known_by in self._twins}
        for place, known_by in sorted(
            (place, known_by) for known_by, places in self._twins.items() for place in places
        ):
            first = contents[known_by].setdefault(self._content_hash(place), place)
            if first is not place:
                self._set(place, DUPLICATE)
                uri = self.objects[first.scanned].source.uri
                self.objects[place.scanned].copies[place.position] = f"{uri}#{first.position}"
        for firsts in contents.values():
            if len(firsts) > 1:
                self.reasons["id_conflict"] += len(firsts)
                for place in firsts.values():
                    self._set(place, REJECTED)

    def _remember(self, known_by: bytes, place: _Place) -> None:
        first = self._seen.setdefault(known_by, place)
        if first is not place:
            self._twins.setdefault(known_by, [first]).append(place)

    def _content_hash(self, place: _Place) -> str:
        scanned = self.objects[place.scanned]
        format_ = FORMATS[scanned.format]
        offset = scanned.offsets[place.position] if format_.by_line else 0
        where = (scanned.source, self._spool)
        raw = next(raw_records(where, format_, self._config, place.position, offset))
        return case_of(raw, format_, self._config).content_hash()

    def _set(self, place: _Place, fate: int) -> None:
        self.objects[place.scanned].fates[place.position] = fate

    def _count(self) -> None:
        self._read += 1
        if self._read % _PROGRESS_EVERY == 0:
            self._on_progress(self._read)
