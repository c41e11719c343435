"""The one pass over every record of a run: each is read once and its fate settled."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from judge.case import Case
from judge.config import TranscriptsConfig
from judge.errors import DataError
from judge.formats import FORMATS, Format
from tasks.objects import Source, Spool
from tasks.records import (
    Raw,
    case_of,
    digest,
    excerpt_of,
    format_of,
    head_of,
    is_meant,
    is_sampled,
    raw_records,
)

DUE: Final = ord("d")
"""Fate of a record that is to be judged."""
DUPLICATE: Final = ord("t")
"""Fate of a later copy of a record."""
REJECTED: Final = ord("r")
"""Fate of a record that cannot be read, or contradicts another of the same identity."""
UNSELECTED: Final = ord("u")
"""Fate of a good record that the configuration does not ask for."""

_PROGRESS_EVERY: Final = 1000


class Failure(NamedTuple):
    """Why an object as a whole gives no record: a reason code, a sentence, how it begins."""

    code: str
    detail: str
    excerpt: str


@dataclass(slots=True)
class Scanned:
    """One object after planning has read it: a fate and an offset for each record."""

    source: Source
    format: str = ""
    fates: bytearray = field(default_factory=bytearray)
    offsets: array[int] = field(default_factory=lambda: array("q"))
    end: int = 0
    failure: Failure | None = None


class _Place(NamedTuple):
    scanned: int
    position: int


class Scan:
    """The one pass over every record, and what has to be remembered between objects."""

    def __init__(
        self, config: TranscriptsConfig, spool: Spool, on_progress: Callable[[int], None]
    ) -> None:
        self._config = config
        self._spool = spool
        self._on_progress = on_progress
        self._seen: dict[bytes, _Place] = {}
        self._twins: dict[bytes, list[_Place]] = {}
        self._read = 0
        self.objects: list[Scanned] = []
        self.reasons: Counter[str] = Counter()

    def read(self, source: Source) -> None:
        """Settle the fate of every record of one object, twins aside."""
        scanned = Scanned(source)
        self.objects.append(scanned)
        head = b""
        try:
            path = self._spool.path(source)
            head = head_of(path)
            if not head:
                return
            format_ = format_of(self._config, head, path)
            raws = raw_records(source, format_, self._spool)
        except DataError as error:
            scanned.failure = Failure(error.code, error.detail, excerpt_of(head))
            scanned.fates.append(self._rejected(error))
            self._count()
        else:
            scanned.format = format_.name
            scanned.end = path.stat().st_size
            self._read_records(scanned, format_, raws)
        self._on_progress(self._read)

    def _read_records(self, scanned: Scanned, format_: Format, raws: Iterator[Raw]) -> None:
        for raw in raws:
            try:
                case = case_of(raw.body, format_, self._config)
            except DataError as error:
                fate = self._rejected(error)
            else:
                fate = self._fate(case, _Place(len(self.objects) - 1, raw.position))
            scanned.fates.append(fate)
            if format_.by_line:
                scanned.offsets.append(raw.offset)
            self._count()

    def _fate(self, case: Case, place: _Place) -> int:
        """Cases that `where` leaves out are no twins of those it means: agents may share tasks."""
        if not is_meant(case, self._config):
            return UNSELECTED
        self._remember(case, place)
        return DUE if is_sampled(case.case_id, self._config.sample) else UNSELECTED

    def settle_twins(self) -> None:
        """Records of one identity: later copies are duplicates, different ones are in conflict."""
        contents: dict[bytes, dict[str, _Place]] = {identity: {} for identity in self._twins}
        for place, identity in sorted(
            (place, identity) for identity, places in self._twins.items() for place in places
        ):
            first = contents[identity].setdefault(self._content_hash(place), place)
            if first is not place:
                self._set(place, DUPLICATE)
        for firsts in contents.values():
            if len(firsts) > 1:
                self.reasons["id_conflict"] += len(firsts)
                for place in firsts.values():
                    self._set(place, REJECTED)

    def _remember(self, case: Case, place: _Place) -> None:
        identity = digest(f"{case.repetition}\n{case.case_id}", 16)
        first = self._seen.setdefault(identity, place)
        if first is not place:
            self._twins.setdefault(identity, [first]).append(place)

    def _content_hash(self, place: _Place) -> str:
        scanned = self.objects[place.scanned]
        format_ = FORMATS[scanned.format]
        offset = scanned.offsets[place.position] if format_.by_line else 0
        raw = next(raw_records(scanned.source, format_, self._spool, place.position, offset))
        return case_of(raw.body, format_, self._config).content_hash()

    def _set(self, place: _Place, fate: int) -> None:
        self.objects[place.scanned].fates[place.position] = fate

    def _rejected(self, error: DataError) -> int:
        self.reasons[error.code] += 1
        return REJECTED

    def _count(self) -> None:
        self._read += 1
        if self._read % _PROGRESS_EVERY == 0:
            self._on_progress(self._read)
