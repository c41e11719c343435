"""The first pass over the transcripts: every record is read once and gets its fate."""

from __future__ import annotations

import logging
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, repeat
from typing import Final

import polars as pl

from assizes.judge.case import Case
from assizes.judge.config.transcripts import TranscriptsConfig, filter_mask
from assizes.judge.errors import ConfigurationError, DataError, Inconclusive
from assizes.judge.formats.shared.containers import PieceFormat
from assizes.judge.formats.shared.parsing import SALVAGED, fidelity_counts, oddities
from assizes.judge.selection import OrderedCase, facts, ordered_case, stratum_of
from assizes.tasks.intake import plan as plans
from assizes.tasks.intake.first_rejects import SHOWN_REJECTS, FirstRejects
from assizes.tasks.intake.reader import RawRecord, TranscriptReader, excerpt_of
from assizes.tasks.intake.record_joining import joined_lines_path, manifest_digest
from assizes.tasks.intake.run_sources import transcript_sources
from assizes.tasks.sources.listing import TranscriptSource, refresh_source
from assizes.tasks.sources.spool import Spool

log = logging.getLogger(__name__)

_PROGRESS_EVERY: Final = 1000  # records
_FILTER_BATCH: Final = 256
"""How many cases are filtered at once; one call of the filter costs much more than one case."""


@dataclass(slots=True)
class ScannedObject:
    """One object after the scan has read it: a fate and an offset for each record."""

    source: TranscriptSource
    format: str = ""  # a key of `FORMATS`; empty where the object was not recognised
    fates: bytearray = field(default_factory=bytearray)  # one byte a record: `plan.DUE`, ...
    # First byte of each record, 64 bits each; empty unless each record is a line.
    offsets: array[int] = field(default_factory=partial(array, "q"))
    end: int = 0  # bytes of the file of lines
    failure: plans.ObjectFailure | None = None  # set: the object as a whole cannot be read
    copies: dict[int, str] = field(default_factory=dict)  # duplicate -> "uri#position"
    # Identity and position of each record that may have duplicates; emptied after the object.
    identities: list[tuple[bytes, int]] = field(default_factory=list)
    case_ids: set[str] = field(default_factory=set)  # as `Scan.case_ids`; emptied after the object
    reasons: Counter[str] = field(default_factory=Counter)  # code of a reject -> records
    listed_until: dict[str, int] = field(default_factory=dict)  # as `Shard.listed_until`
    # Position (`None`: the whole) and reason of the first rejects; emptied after the object.
    rejects: list[tuple[int | None, DataError]] = field(default_factory=list)
    oddity_counts: Counter[str] = field(default_factory=Counter)  # records taken with an oddity
    # Position -> case id and stratum, of the cases to draw a sample from.
    sample_keys: dict[int, tuple[str, str]] = field(default_factory=dict)
    order: dict[int, OrderedCase] = field(default_factory=dict)  # by position; of a run in waves
    part_counts: Counter[str] = field(default_factory=Counter)  # as `fidelity_counts`, summed
    manifest_pin: str | None = None  # `manifest_digest` of the object; `None`: no manifest
    was_reread: bool = False  # changed during the first reading, and read once more


_CONFLICT: Final = DataError(
    "id_conflict", "another record has the same case id and repetition, and other content"
)

_RecordPosition = tuple[int, int]
"""The number of an object, and the position of a record in it."""


@dataclass
class Scan:
    """Reads the objects of a run one by one, and remembers which cases it has seen."""

    config: TranscriptsConfig
    reader: TranscriptReader
    policy: plans.ScanPolicy = plans.DEFAULT_SCAN_POLICY  # what else selects and prepares cases
    on_progress: Callable[[int], None] | None = None  # is given `total`, also after an object
    objects: list[ScannedObject] = field(default_factory=list)  # in the order of reading
    total: int = 0  # records read
    first_rejects: FirstRejects = field(default_factory=FirstRejects)  # over all objects
    reasons: Counter[str] = field(default_factory=Counter)  # over all objects, like those below
    oddity_counts: Counter[str] = field(default_factory=Counter)
    case_ids: set[str] = field(default_factory=set)  # of readable cases, with ground truth only
    # Where the first record of each case identity stands, sampled or not.
    first_places: dict[bytes, _RecordPosition] = field(default_factory=dict)
    part_counts: Counter[str] = field(default_factory=Counter)
    # Only identities that occur twice or more; the first place of each stands first.
    _duplicates: dict[bytes, list[_RecordPosition]] = field(default_factory=dict)

    def read(self, source: TranscriptSource) -> None:
        """Give every record of one object its fate; duplicates are found by `resolve_duplicates`.

        An object that changes during the reading is read once more and pinned as it is then.
        """
        scanned = self._scan_object(source)
        if scanned.failure is not None and scanned.failure.code == "changed":
            self.total -= len(scanned.fates)  # the one record that stands for a failed object
            scanned = self._rescan_object(source)
        for case_identity, position in scanned.identities:
            place = (len(self.objects), position)
            first = self.first_places.setdefault(case_identity, place)
            if first is not place:  # a repeated identity, in this object or an earlier one
                self._duplicates.setdefault(case_identity, [first]).append(place)
        self.objects.append(scanned)
        scanned.identities = []  # `first_places` has them; a second copy would double the memory
        self.case_ids |= scanned.case_ids
        scanned.case_ids = set()
        for reject_position, error in scanned.rejects:
            self.first_rejects.add(source.uri, reject_position, error)
        scanned.rejects = []
        self.reasons += scanned.reasons
        self.oddity_counts += scanned.oddity_counts
        self.part_counts += scanned.part_counts
        if self.on_progress:
            self.on_progress(self.total)

    def _rescan_object(self, source: TranscriptSource) -> ScannedObject:
        try:
            # Once only: an object that is written all the time would never be done.
            now = refresh_source(source, self.config.storage_options)
        except DataError as error:
            return self._failed_scan(source, error, b"")
        log.warning("%s changed while it was read; it is read once more as it is now", source.uri)
        scanned = self._scan_object(now)
        scanned.was_reread = True
        return scanned

    def _scan_object(self, source: TranscriptSource) -> ScannedObject:
        head = b""  # stays empty where the object cannot be opened
        scanned = ScannedObject(source)
        try:
            opened = self.reader.spool.open(source)
            with opened.stream:
                head, format_ = self.reader.recognise(opened)
                # None: blanks only. A broken object of which only blanks are left has a fault.
                if (format_ := format_ or opened.fault) is None:
                    return scanned
                if isinstance(format_, DataError):
                    raise format_
                scanned.format, scanned.end = format_.name, os.fstat(opened.stream.fileno()).st_size
                if isinstance(format_, PieceFormat):
                    scanned.manifest_pin = manifest_digest(self.reader.spool, source, format_)
                    # The offsets of the records are those in the file of joined pieces.
                    joined = joined_lines_path(self.reader.spool, [source], format_)
                    scanned.end = joined.stat().st_size
                self._read_records(scanned, self.reader.cases(opened, format_))
                if opened.fault is not None:
                    scanned.oddity_counts[SALVAGED] += 1
            # A plain local file may have been rewritten during the reading: check its etag again.
            self.reader.spool.path(source)
        except DataError as error:
            self.total -= len(scanned.fates)  # a broken object counts as one record, not as some
            return self._failed_scan(source, error, head)
        return scanned

    def _failed_scan(
        self, source: TranscriptSource, error: DataError, head: bytes
    ) -> ScannedObject:
        preprocessor = self.policy.preprocessor
        error = preprocessor.redacted_fault(error)
        excerpt = excerpt_of(head, preprocessor.redacted_excerpt)
        failure = plans.ObjectFailure(error.code, error.detail, excerpt)
        scanned = ScannedObject(source, failure=failure, rejects=[(None, error)])
        scanned.reasons[error.code] += 1
        scanned.fates.append(plans.REJECTED)
        self.total += 1
        if self.on_progress and self.total % _PROGRESS_EVERY == 0:
            self.on_progress(self.total)
        return scanned

    def _read_records(
        self, scanned: ScannedObject, records: Iterator[tuple[RawRecord, Case | DataError]]
    ) -> None:
        passes = self.config.filter  # SQL condition on one case; `None`: every case passes
        while batch := list(islice(records, 1 if passes is None else _FILTER_BATCH)):
            readable = [case for _, case in batch if isinstance(case, Case)]
            flags: Iterator[bool] = repeat(True)  # one for each readable case of the batch
            if passes is not None:
                flags = iter(_filter_flags(readable, passes))
            for raw, case in batch:
                if isinstance(case, DataError):
                    fate = self._fate_unread(scanned, raw.position, case)
                else:
                    fate = self._fate(scanned, raw.position, case, is_selected=next(flags))
                scanned.fates.append(fate)
                if raw.offset is not None:  # `None` in a document
                    scanned.offsets.append(raw.offset)
                self.total += 1
                if self.on_progress and self.total % _PROGRESS_EVERY == 0:
                    self.on_progress(self.total)

    def _fate(self, scanned: ScannedObject, position: int, case: Case, *, is_selected: bool) -> int:
        """The fate of a record before duplicates are known."""
        selector, preprocessor = self.policy.selector, self.policy.preprocessor
        if preprocessor.truth is not None:
            scanned.case_ids.add(case.case_id)
        # The two fields win over tags of the same name.
        own = {**case.tags, "agent": case.agent, "agent_version": case.agent_version}
        is_wanted = all(own.get(name) == value for name, value in self.config.where.items())
        # Left out before duplicates are looked for: two agents may share a task and a folder.
        if not (is_selected and is_wanted):
            return plans.UNSELECTED
        if selector is not None:
            fate = selector.fate(scanned.source, position, preprocessor.prepared_case(case))
            if fate == plans.REJECTED:  # an earlier run judged other content under this identity
                scanned.reasons["id_conflict"] += 1
                self._show_reject(scanned, position, _CONFLICT)
            if fate != plans.DUE:
                return fate
        scanned.identities.append((plans.identity(case.case_id, case.repetition), position))
        scanned.oddity_counts.update(oddities(case))
        scanned.part_counts.update(fidelity_counts(case))
        if self.config.is_sampled:
            stratum = stratum_of(case, self.config.stratify_by)
            scanned.sample_keys[position] = (case.case_id, stratum)
        if self.policy.waves is not None:
            scanned.order[position] = ordered_case(case, self.config.stratify_by)
        return plans.DUE

    def _fate_unread(self, scanned: ScannedObject, position: int, error: DataError) -> int:
        selector = self.policy.selector
        fate = (
            plans.REJECTED if selector is None else selector.fate_unread(scanned.source, position)
        )
        if fate == plans.REJECTED:
            scanned.reasons[error.code] += 1
            if scanned.reasons[error.code] == plans.LISTED_REJECTS + 1:
                scanned.listed_until[error.code] = position - 1
            self._show_reject(scanned, position, error)
        return fate

    def _show_reject(self, scanned: ScannedObject, position: int, error: DataError) -> None:
        if len(scanned.rejects) < SHOWN_REJECTS:
            fault = self.policy.preprocessor.redacted_fault(error)
            scanned.rejects.append((position, fault))

    def resolve_duplicates(self) -> None:
        """Give records of one identity their final fates.

        Later copies of the same content become duplicates. Of different contents the first record
        of each is rejected: nobody can say which of them is right.
        """
        # Identity -> content hash -> place of the first record with that content.
        contents: dict[bytes, dict[str, _RecordPosition]] = {
            case_identity: {} for case_identity in self._duplicates
        }
        # In the order of the objects: the spool keeps few parsed documents, each is parsed once.
        for place, case_identity in sorted(
            (place, case_identity)
            for case_identity, places in self._duplicates.items()
            for place in places
        ):
            try:
                content_hash = self._content_hash(*place)
            except DataError:  # its object changed since the scan, so its shard is not judged
                continue
            first = contents[case_identity].setdefault(content_hash, place)
            if first is not place:
                number, position = place
                self.objects[number].fates[position] = plans.DUPLICATE
                uri = self.objects[first[0]].source.uri
                self.objects[number].copies[position] = f"{uri}#{first[1]}"
        for firsts in contents.values():
            if len(firsts) > 1:  # one identity, several contents
                self.reasons["id_conflict"] += len(firsts)
                for number, position in firsts.values():
                    self.objects[number].fates[position] = plans.REJECTED
                    self.first_rejects.add(self.objects[number].source.uri, position, _CONFLICT)

    def _content_hash(self, number: int, position: int) -> str:
        scanned = self.objects[number]
        format_ = self.reader.format_named(scanned.format)
        # The scan keeps no contents: only the few records that share an identity are read again.
        offset = scanned.offsets[position] if format_.by_line else 0
        opened = self.reader.spool.open(scanned.source)
        with opened.stream:
            raw = next(self.reader.records(opened, format_, position, offset))
        case = self.reader.case(raw, format_)
        if isinstance(case, DataError):
            raise case
        return case.content_hash()


def _filter_flags(cases: Sequence[Case], condition: str) -> list[bool]:
    """Whether the `filter` of the configuration selects each of the cases."""
    try:
        return filter_mask([facts(case) for case in cases], condition)
    except pl.exceptions.PolarsError as error:
        why = str(error).strip().partition("\n")[0]  # Polars appends the query plan
        raise ConfigurationError(f"[transcripts] filter: {condition!r}: {why}") from None


@dataclass
class TranscriptCounter:
    """Counts the cases that a configuration names, while new objects arrive and old ones grow.

    Every count lists the objects and reads those that are new or have changed, with the reader of a
    run. `config` says where they are, and may be replaced between two counts.
    """

    config: TranscriptsConfig
    # Source with its etag -> identities of its cases: a changed object is another key.
    _identities: dict[TranscriptSource, frozenset[bytes]] = field(default_factory=dict)

    def count_cases(self) -> int:
        """How many cases there are now; a case that stands in two objects counts once.

        Raises:
            ConfigurationError: the transcripts cannot be reached.
        """
        with Spool.of(self.config) as spool:
            try:
                sources = transcript_sources(self.config, None, spool)
            except Inconclusive:  # no transcript yet
                sources = []
            known = self._identities
            self._identities = {
                source: known[source] if source in known else self._read(source, spool)
                for source in sources
            }
        return len(frozenset().union(*self._identities.values()))

    def _read(self, source: TranscriptSource, spool: Spool) -> frozenset[bytes]:
        scan = Scan(self.config, TranscriptReader(self.config, spool))
        scan.read(source)
        return frozenset(scan.first_places)
