"""Which of the records that are read a run judges: the fates of records, and what decides them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol

import polars as pl

from assizes.judge.case import Case
from assizes.judge.config.case_filter import filter_mask
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.selection import facts
from assizes.tasks.intake.preprocessing import DEFAULT_PREPROCESSOR, CasePreprocessor
from assizes.tasks.sources.transcript_source import TranscriptSource

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


def selection_flags(cases: Sequence[Case], config: TranscriptsConfig) -> list[bool]:
    """Whether `where` and `filter` of the configuration select each of the cases.

    Raises:
        ConfigurationError: the filter cannot be evaluated on a case.
    """
    where_matches = [
        all(_case_attribute(case, name) == value for name, value in config.where.items())
        for case in cases
    ]
    if config.filter is None:
        return where_matches
    try:
        filter_matches = filter_mask([facts(case) for case in cases], config.filter)
    except pl.exceptions.PolarsError as error:
        why = str(error).strip().partition("\n")[0]
        raise ConfigurationError(f"[transcripts] filter: {config.filter!r}: {why}") from None
    return [
        where_match and filter_match
        for where_match, filter_match in zip(where_matches, filter_matches, strict=True)
    ]


def _case_attribute(case: Case, name: str) -> str | None:
    fields = {"agent": case.agent, "agent_version": case.agent_version}
    return fields[name] if name in fields else case.tags.get(name)


def identity(case_id: str, repetition: int) -> bytes:
    """A hash of 16 bytes that identifies a case within a run."""
    return digest(f"{repetition}\n{case_id}", 16)


def digest(text: str, size: int) -> bytes:
    """BLAKE2b of the text, `size` bytes; the same on every machine."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()
