"""One record of a transcript object: as it stands there, as a case, and whether it is wanted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

import polars as pl

from assizes.judge.case import Case
from assizes.judge.config.case_filter import (
    filter_mask,
)
from assizes.judge.config.run import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.families.custom.references import load_reference, reference_error
from assizes.judge.formats import Format, detect_format, resolve_format
from assizes.judge.formats.shared.documents import UnreadableRecord
from assizes.judge.formats.shared.parsing import check_numbers, check_size, wide_encoding
from assizes.judge.selection import (
    facts,
)
from assizes.tasks.intake.record_joining import lines_path
from assizes.tasks.sources.bounds import max_record_bytes
from assizes.tasks.sources.lines import RawRecord, canonical_json, line_records, sha256_of
from assizes.tasks.sources.objects import Spool
from assizes.tasks.sources.pinned import BOM, TranscriptSource

EXCERPT_CHARS: Final = 80
"""The most a reject shows of its record."""

_EXCERPT_FROM_BYTES: Final = 4096
_HEAD_BYTES: Final = 1 << 16
_LINES_TRIED: Final = 100
_REDACT: Final = "[transcripts] redact"


def raw_records(
    place: tuple[TranscriptSource, Spool],
    format_: Format,
    config: TranscriptsConfig,
    start: int,
    offset: int,
) -> Iterator[RawRecord]:
    """Records from a position on; what is wrong with the whole object is raised here, at once.

    Args:
        place: an object, and where its local copy is.
        format_: how it is read.
        config: bounds a record.
        start: position of the first record that is wanted.
        offset: where that begins, in a file of lines.

    Raises:
        DataError: the object as a whole cannot be read.
    """
    source, spool = place
    cap_bytes = max_record_bytes(config)
    if format_.by_line:
        path = lines_path(spool, source, format_)
        return _lines(path, start, offset, cap_bytes, spool.salvage_fault(source))
    records = spool.document_records(source, format_.records)
    check = spool.path(source).stat().st_size > cap_bytes
    return (
        _document_record(position, records[position], cap_bytes if check else None)
        for position in range(start, len(records))
    )


def _lines(
    path: Path, start: int, offset: int, cap_bytes: int, broken: DataError | None
) -> Iterator[RawRecord]:
    """The lines of a file, and behind those that were salvaged one record for the rest."""
    position = start
    for raw in line_records(path, start, offset, cap_bytes):
        yield raw
        position = raw.position + 1
    if broken is not None:
        yield RawRecord(position, path.stat().st_size, b"", broken)


def _document_record(position: int, record: Any, cap_bytes: int | None) -> RawRecord:
    """A record of a document; no document under the cap holds one over it."""
    if isinstance(record, UnreadableRecord):
        body = record.body
        return RawRecord(
            position, None, body[:_HEAD_BYTES], record.fault, sha256_of(RawRecord(0, None, body))
        )
    if cap_bytes is None or (size := len(canonical_json(record))) <= cap_bytes:
        return RawRecord(position, None, record)
    fault = DataError(
        "too_large", f"a record of {size} bytes; [transcripts] max_record_mb allows fewer"
    )
    return RawRecord(position, None, record)._replace(
        fault=fault, sha256=sha256_of(RawRecord(0, None, record))
    )


def head_of(path: Path) -> bytes:
    """How the object begins, leading blanks aside; empty where there is nothing else."""
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES).removeprefix(BOM).lstrip()
        while not head and (block := stream.read(_HEAD_BYTES)):
            head = block.lstrip()
    return head


def format_of(config: TranscriptsConfig, head: bytes, path: Path) -> Format:
    """The configured format, else the one the object shows.

    Raises:
        DataError: `format`, when it shows none that is known, or `encoding`.
    """
    if (encoding := wide_encoding(head)) is not None:
        raise DataError("encoding", f"{encoding}, wanted UTF-8; convert the file (iconv -t UTF-8)")
    if config.format != "auto":
        return resolve_format(config.format, head)
    try:
        return detect_format(head)
    except DataError:
        if (by_line := _line_format(path)) is not None:
            return by_line
        raise


def _line_format(path: Path) -> Format | None:
    """The format of the first whole line that has one: broken lines before it cost nothing else."""
    for raw in islice(line_records(path, 0, 0, _HEAD_BYTES), _LINES_TRIED):
        if raw.fault is None and raw.body.startswith(b"{") and raw.body.endswith(b"}"):
            with suppress(DataError):
                if (format_ := detect_format(raw.body)).by_line:
                    return format_
    return None


def case_of(raw: RawRecord, format_: Format, config: TranscriptsConfig) -> Case:
    """The record as a case, with what the configuration says about cases that do not.

    Raises:
        DataError: it is none, or one that is not taken in.
    """
    if raw.fault is not None:
        raise raw.fault
    case = format_.case(raw.body)
    check_size(case, config.max_turns)
    check_numbers(case)
    update: dict[str, Any] = {}
    if case.agent is None and config.agent is not None:
        update["agent"] = config.agent
    if case.agent_version is None and config.agent_version is not None:
        update["agent_version"] = config.agent_version
    if config.writes is not None and not _has_declared_writes(case):
        update["expected"] = case.expected.model_copy(update={"writes": config.writes})
    case = case.model_copy(update=update) if update else case
    return redact_case(case, config.redact) if config.redact else case


def redact_case(case: Case, reference: str) -> Case:
    """The case as the configured function lets it through; nobody sees the other one.

    Raises:
        ConfigurationError: when the function cannot be had, or did not return the same case.
    """
    redact = load_reference(reference, _REDACT, "wanted module:function, Case -> Case")
    if not callable(redact):
        raise reference_error(
            _REDACT, reference, f"is a {type(redact).__name__}, wanted a function"
        )
    result = redact(case)
    if not isinstance(result, Case):
        raise reference_error(
            _REDACT, reference, f"returned a {type(result).__name__}, wanted a Case"
        )
    if (result.case_id, result.repetition) != (case.case_id, case.repetition):
        raise reference_error(
            _REDACT, reference, "changed a case's identity; hash ids at the source"
        )
    return result


def _has_declared_writes(case: Case) -> bool:
    return case.expected.writes is not None or any(
        tool.writes is not None for tool in case.transcript.tools
    )


def selection_flags(cases: Sequence[Case], config: TranscriptsConfig) -> list[bool]:
    """Whether the configuration's `where` and `filter` mean each of some cases.

    Raises:
        ConfigurationError: the filter cannot be worked out on a case.
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
    """What a case is known by in a run, in 16 bytes."""
    return digest(f"{repetition}\n{case_id}", 16)


def digest(text: str, size: int) -> bytes:
    """BLAKE2b of the text, `size` bytes; the same on every machine."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def excerpt_of(body: Any, mask: Callable[[str], str] = str) -> str:
    """How a record begins, in printable characters only.

    Args:
        body: bytes or a parsed value.
        mask: takes out what nobody is to see, before the text is cut: half a key is not known
            for one.
    """
    if isinstance(body, bytes):
        text = body[:_EXCERPT_FROM_BYTES].decode("utf-8", "backslashreplace")
    else:
        text = json.dumps(body, ensure_ascii=False)[:_EXCERPT_FROM_BYTES]
    start = mask(text)[:EXCERPT_CHARS]
    printable = (
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in start
    )
    return "".join(printable)[:EXCERPT_CHARS]
