"""The first records that cannot be read, as people are shown them: where they stand, and why."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import DataError
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.intake.reader import TranscriptReader
from assizes.tasks.intake.run_sources import transcript_sources
from assizes.tasks.sources.spool import Spool

SHOWN_REJECTS: Final = 3
"""Rejects that are shown, each with a reason of its own; all are counted."""

_MOST_OBJECTS: Final = 20  # opened by `check_first_records`, of which each may be a large document


def place_text(uri: str, position: int | None) -> str:
    """Where a record stands; `None` is the object as a whole. People count records from 1."""
    return uri if position is None else f"{uri}, record {position + 1}"


@dataclass
class FirstRejects:
    """The first rejects that have different reasons, at most `SHOWN_REJECTS`."""

    lines: list[str] = field(default_factory=list)  # "place: code: detail"
    _reasons: set[str] = field(default_factory=set)

    def add(self, uri: str, position: int | None, error: DataError) -> None:
        """Take a reject in, unless there are enough or its reason is there already."""
        reason = str(error)
        if len(self.lines) < SHOWN_REJECTS and reason not in self._reasons:
            self._reasons.add(reason)
            self.lines.append(f"{place_text(uri, position)}: {reason}")

    def __str__(self) -> str:
        """All of them in one line."""
        return "; ".join(self.lines)


@dataclass
class FirstRecords:
    """What came of the first records of transcripts."""

    read: int = 0
    rejected: int = 0
    rejects: FirstRejects = field(default_factory=FirstRejects)


def check_first_records(
    config: TranscriptsConfig, preprocessor: CasePreprocessor, most: int
) -> FirstRecords:
    """Read up to `most` records as a run would, and say which of them cannot be read.

    Raises:
        ConfigurationError: the transcripts cannot be reached.
        NothingDue: there is no transcript.
    """
    first = FirstRecords()
    with Spool.of(config) as spool:
        for uri, position, fault in islice(_first_faults(config, spool), most):
            first.read += 1
            if fault is not None:
                first.rejected += 1
                first.rejects.add(uri, position, preprocessor.redacted_fault(fault))
    return first


def _first_faults(
    config: TranscriptsConfig, spool: Spool
) -> Iterator[tuple[str, int | None, DataError | None]]:
    """The first records in order, each with its fault; `None` as fault: it can be read."""
    reader = TranscriptReader(config, spool)
    for source in transcript_sources(config, None, spool)[:_MOST_OBJECTS]:
        try:
            opened = spool.open(source)
            with opened.stream:
                _, format_ = reader.recognise(opened)
                if isinstance(format_, DataError):
                    raise format_
                if format_ is None:  # blanks only
                    continue
                for raw, case in reader.cases(opened, format_):
                    yield source.uri, raw.position, case if isinstance(case, DataError) else None
        except DataError as error:
            yield source.uri, None, error
