"""Reads the records of transcript objects: planning, judging and importing all use this reader.

An object becomes a local file (`assizes.tasks.sources.spool`); an archive, or the pieces of
conversations, becomes a file of lines (`assizes.tasks.intake.record_joining`). `TranscriptReader`
recognises the format, reads one raw record after the other and turns each into a case. Lines are
read in bounded memory, however long a line is.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

from assizes.judge.case import Case
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import DataError
from assizes.judge.families.custom.python_judges import load_reference, reference_error
from assizes.judge.formats import (
    FORMATS,
    Format,
    detect_format,
    resolve_format,
    resolve_table,
    table_formats,
)
from assizes.judge.formats.shared.containers import PieceFormat, UnreadableRecord
from assizes.judge.formats.shared.parsing import check_bounds, strict_json, wide_encoding
from assizes.tasks.intake.record_joining import joined_lines_path
from assizes.tasks.sources.csv_files import is_csv
from assizes.tasks.sources.listing import BOM, TranscriptSource
from assizes.tasks.sources.spool import OpenedObject, Spool

_EXCERPT_CHARS: Final = 80  # of a record, as people see it
_EXCERPT_FROM_BYTES: Final = 4096  # masked before the cut: half a secret is not recognised
_LINE_EXCERPT_BYTES: Final = 1 << 10  # kept of a line that is too long
_HEAD_BYTES: Final = 1 << 16  # shows the format; also kept of a broken record
_MB: Final = 1 << 20
_LINES_TRIED: Final = 100  # lines, for a format, where the beginning shows none
_REDACT: Final = "[transcripts] redact"
_COLUMNS_SHOWN: Final = 12  # of a table, in the reason of a reject


class RawRecord(NamedTuple):
    """A record as it stands in its object, before it becomes a case."""

    position: int  # in the object, from 0; blank lines are not counted
    offset: int | None  # first byte in the unpacked object; `None` in a document
    body: Any  # bytes without line end, or a parsed value; with a fault only the beginning
    fault: DataError | None = None  # why the record is no case; `None` where it may be one
    sha256: str | None = None  # of a record with a fault; `None` where it has no bytes


@dataclass(frozen=True)
class TranscriptReader:
    """Reads transcript objects as a configuration says, through the local files of a spool."""

    config: TranscriptsConfig
    spool: Spool

    def recognise(self, opened: OpenedObject) -> tuple[bytes, Format | DataError | None]:
        """The beginning of an object, without leading blanks, and its format.

        In place of the format stand `None` for an object of blanks only, and the reason (`format`
        or `encoding`) why an object has none.
        """
        stream = opened.stream
        head = stream.read(_HEAD_BYTES).removeprefix(BOM).lstrip()
        while not head and (block := stream.read(_HEAD_BYTES)):  # more than a head of blanks
            head = block.lstrip()
        if not head:
            return head, None
        # Also with a configured format: else every line would be a reject of its own.
        if (encoding := wide_encoding(head)) is not None:
            detail = f"{encoding}, wanted UTF-8; convert the file (iconv -t UTF-8)"
            return head, DataError("encoding", detail)
        if self.config.columns is not None:
            return head, resolve_table(self.config.columns, head)
        if self.config.format != "auto":
            return head, resolve_format(self.config.format, head)
        try:
            return head, detect_format(head)
        except DataError as error:
            # The beginning may be broken lines.
            return head, _line_format(stream) or _table_error(opened.source.uri, head) or error

    def format_named(self, name: str) -> Format:
        """The format that a plan names; that of a table reads the configured columns."""
        if name in FORMATS or self.config.columns is None:
            return FORMATS[name]
        return table_formats(self.config.columns)[name]

    def records(
        self, opened: OpenedObject, format_: Format, start: int = 0, offset: int = 0
    ) -> Iterator[RawRecord]:
        """The records from position `start` on; a fault of the whole object is raised at once.

        In a file of lines the record at `start` begins at the byte `offset`.

        Raises:
            DataError: the object as a whole cannot be read.
        """
        if isinstance(format_, PieceFormat):
            # A generator in a function of its own: what is wrong with the whole is raised here.
            path = joined_lines_path(self.spool, [opened.source], format_)
            return self._file_records(path, start, offset, opened.fault)
        max_bytes = round(self.config.max_record_mb * _MB)
        if format_.by_line:
            return _line_records(opened.stream, max_bytes, start, offset, opened.fault)
        records = self.spool.document_records(opened.source, format_.records)
        # No document under the bound holds a record over it: then no record is measured.
        is_large = os.fstat(opened.stream.fileno()).st_size > max_bytes
        return (
            _document_record(position, records[position], max_bytes if is_large else None)
            for position in range(start, len(records))
        )

    def joined_records(
        self, sources: Sequence[TranscriptSource], format_: PieceFormat
    ) -> Iterator[RawRecord]:
        """The records of several objects whose pieces of conversations are joined first.

        Raises:
            DataError: an object cannot be read, at once.
        """
        return self._file_records(joined_lines_path(self.spool, sources, format_))

    def _file_records(
        self, path: Path, start: int = 0, offset: int = 0, fault: DataError | None = None
    ) -> Iterator[RawRecord]:
        max_bytes = round(self.config.max_record_mb * _MB)
        with path.open("rb") as stream:
            yield from _line_records(stream, max_bytes, start, offset, fault)

    def cases(
        self, opened: OpenedObject, format_: Format
    ) -> Iterator[tuple[RawRecord, Case | DataError]]:
        """Every record of an object, and its case or the reason why it is none.

        Raises:
            DataError: the object as a whole cannot be read, before the first record.
        """
        for raw in self.records(opened, format_):
            yield raw, self.case(raw, format_)

    def case(self, raw: RawRecord, format_: Format) -> Case | DataError:
        """The record as a case, completed from the configuration where the record says nothing.

        In its place the reason why the record is no case, or a case that is over a bound.

        Raises:
            ConfigurationError: the configured `redact` function is wrong.
        """
        if raw.fault is not None:
            return raw.fault
        config = self.config
        try:
            case = format_.case(raw.body)
            check_bounds(case, config.max_turns)
            update: dict[str, Any] = {}  # fields that only the configuration knows
            if case.agent is None and config.agent is not None:
                update["agent"] = config.agent
            if case.agent_version is None and config.agent_version is not None:
                update["agent_version"] = config.agent_version
            declared = [case.expected.writes, *(tool.writes for tool in case.transcript.tools)]
            if config.writes is not None and all(writes is None for writes in declared):
                update["expected"] = case.expected.model_copy(update={"writes": config.writes})
            case = case.model_copy(update=update) if update else case
            return _redacted_by_user(case, config.redact) if config.redact else case
        except DataError as error:
            return error


def _document_record(position: int, record: Any, cap_bytes: int | None) -> RawRecord:
    if isinstance(record, UnreadableRecord):
        body, sha256 = record.body[:_HEAD_BYTES], hashlib.sha256(record.body).hexdigest()
        return RawRecord(position, None, body, record.fault, sha256)
    raw = RawRecord(position, None, record)
    if cap_bytes is None or (size := len(_canonical_json(record))) <= cap_bytes:
        return raw
    return raw._replace(fault=_too_large(size), sha256=sha256_of(raw))


def _line_records(
    stream: IO[bytes],
    cap_bytes: int,
    position: int = 0,
    offset: int = 0,
    salvage_fault: DataError | None = None,
) -> Iterator[RawRecord]:
    """The lines of a stream from the byte `offset` on, as records; blank lines are left out.

    A line of more than `cap_bytes` becomes a record with the fault `too_large`. A last record with
    the `salvage_fault` stands for the lost rest of salvaged lines.
    """
    stream.seek(offset)
    while line := stream.readline(cap_bytes + 1):  # never more in memory, however long the line
        line_start, offset = offset, offset + len(line)
        if len(line) > cap_bytes and not line.endswith(b"\n"):
            raw = _skip_long_line(
                stream, line, RawRecord(position, line_start, line[:_LINE_EXCERPT_BYTES])
            )
            offset = stream.tell()  # behind the end of the long line
        else:
            body = line if line_start else line.removeprefix(BOM)
            blank = not body or body.isspace()  # `b"".isspace()` is false
            raw = None if blank else RawRecord(position, line_start, body.rstrip(b"\r\n"))
        if raw is not None:
            yield raw
            position += 1
    if salvage_fault is not None:
        yield RawRecord(position, offset, b"", salvage_fault)


def _skip_long_line(stream: IO[bytes], line: bytes, raw: RawRecord) -> RawRecord | None:
    """Read on to the end of a line that is too long; `None` where the line is blank throughout."""
    size, blank, hasher, pending = len(line), line.isspace(), hashlib.sha256(), line
    while not pending.endswith(b"\n") and (block := stream.readline(_MB)):
        size, blank = size + len(block), blank and block.isspace()
        # The last byte may be the first half of the line end `\r\n`.
        hasher.update(pending[:-1])
        pending = pending[-1:] + block
    if blank:
        return None
    hasher.update(pending.rstrip(b"\r\n"))
    return raw._replace(fault=_too_large(size), sha256=hasher.hexdigest())


def _too_large(size: int) -> DataError:
    return DataError(
        "too_large", f"a record of {size} bytes; [transcripts] max_record_mb allows fewer"
    )


def _line_format(stream: IO[bytes]) -> Format | None:
    """The format of the first whole line that shows a format of lines; `None` if no line does."""
    # Broken lines at the beginning of a file must not cost the good lines behind them.
    for raw in islice(_line_records(stream, _HEAD_BYTES), _LINES_TRIED):
        if raw.fault is None and raw.body.startswith(b"{") and raw.body.endswith(b"}"):
            with suppress(DataError):
                if (format_ := detect_format(raw.body)).by_line:
                    return format_
    return None


def is_table(uri: str) -> bool:
    """Whether an object is a table by its name: CSV, TSV or Parquet."""
    return is_csv(uri) or uri.lower().endswith(".parquet")


def _table_error(uri: str, head: bytes) -> DataError | None:
    """Why a table has no format, or cannot be read; `None` for what is no table."""
    if not is_table(uri):
        return None
    with suppress(DataError):
        row = strict_json(head.partition(b"\n")[0])
        if isinstance(row, str):  # in place of a row that the file does not hold as one
            return DataError("csv", row)
        if isinstance(row, dict):
            names = ", ".join(list(row)[:_COLUMNS_SHOWN])
            return DataError(
                "format",
                f"a table with the columns {names}: say in [transcripts.columns] what they hold, or "
                f"have `assizes init {uri}` guess it",
            )
    return None


def _redacted_by_user(case: Case, reference: str) -> Case:
    """The case as the user's function returns it; the original case goes no further."""
    redact = load_reference(reference, _REDACT, "wanted module:function, Case -> Case")
    if not callable(redact):
        why = f"is a {type(redact).__name__}, wanted a function"
        raise reference_error(_REDACT, reference, why)
    result = redact(case)  # the user's code: nothing it returns is taken on trust
    if not isinstance(result, Case):
        why = f"returned a {type(result).__name__}, wanted a Case"
        raise reference_error(_REDACT, reference, why)
    if (result.case_id, result.repetition) != (case.case_id, case.repetition):
        # Duplicates, earlier runs and ground truth are found by the identity.
        why = "changed a case's identity; hash ids at the source"
        raise reference_error(_REDACT, reference, why)
    return result


def sha256_of(raw: RawRecord) -> str | None:
    """SHA-256 of the bytes of a record, 64 hex digits; of a parsed value over its canonical JSON.

    `None` where a record with a fault has no bytes.
    """
    if raw.fault is not None:
        return raw.sha256
    body = raw.body
    return hashlib.sha256(body if isinstance(body, bytes) else _canonical_json(body)).hexdigest()


def _canonical_json(value: Any) -> bytes:
    """A parsed record as bytes: JSON with sorted keys and no spaces; 1e999 becomes `Infinity`."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "surrogatepass")


def excerpt_of(body: Any, mask: Callable[[str], str] = str) -> str:
    """How a record (bytes or a parsed value) begins, in at most 80 printable characters.

    `mask` takes secrets out of the text before the text is cut.
    """
    if isinstance(body, bytes):
        text = body[:_EXCERPT_FROM_BYTES].decode("utf-8", "backslashreplace")
    else:
        text = json.dumps(body, ensure_ascii=False)[:_EXCERPT_FROM_BYTES]
    start = mask(text)[:_EXCERPT_CHARS]
    # Escaped: control characters could change a terminal, or a page on which a reject is shown.
    printable = (
        c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in start
    )
    return "".join(printable)[:_EXCERPT_CHARS]  # escapes are longer than what they replace
