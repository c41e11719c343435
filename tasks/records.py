"""One record of a transcript object: as it stands there, as a case, and whether it is wanted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from judge.case import Case
from judge.config import TranscriptsConfig
from judge.errors import DataError
from judge.formats import FORMATS, Format, detect
from judge.references import referenced, refused
from tasks.objects import BOM, Source, Spool

EXCERPT_CHARS: Final = 80
"""The most a reject shows of its record."""

_HEAD_BYTES: Final = 1 << 16
_LINES_TRIED: Final = 100
_REDACT: Final = "[transcripts] redact"


class Raw(NamedTuple):
    """A record as it stands in its object: the bytes of a line, or a parsed value."""

    position: int
    offset: int
    body: Any


def raw_records(
    source: Source, format_: Format, spool: Spool, start: int = 0, byte_start: int = 0
) -> Iterator[Raw]:
    """Records from a position on; what is wrong with the whole object is raised here, at once."""
    if format_.by_line:
        return _lines(spool.path(source), start, byte_start)
    records = spool.parsed(source, format_.records)
    return (Raw(position, 0, records[position]) for position in range(start, len(records)))


def _lines(path: Path, position: int, offset: int) -> Iterator[Raw]:
    with path.open("rb") as stream:
        stream.seek(offset)
        for line in stream:
            body = line if offset else line.removeprefix(BOM)
            if body and not body.isspace():
                yield Raw(position, offset, body.rstrip(b"\r\n"))
                position += 1
            offset += len(line)


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
        DataError: `format`, when it shows none that is known.
    """
    if config.format != "auto":
        return FORMATS[config.format]
    try:
        return detect(head)
    except DataError:
        if (by_line := _line_format(path)) is not None:
            return by_line
        raise


def _line_format(path: Path) -> Format | None:
    """The format of the first whole line that has one: broken lines before it cost nothing else."""
    for raw in islice(_lines(path, 0, 0), _LINES_TRIED):
        if raw.body.startswith(b"{") and raw.body.endswith(b"}"):
            with suppress(DataError):
                if (format_ := detect(raw.body)).by_line:
                    return format_
    return None


def case_of(body: Any, format_: Format, config: TranscriptsConfig) -> Case:
    """The record as a case, with what the configuration says about cases that do not."""
    case = format_.case(body)
    update: dict[str, Any] = {}
    if case.agent is None and config.agent is not None:
        update["agent"] = config.agent
    if case.agent_version is None and config.agent_version is not None:
        update["agent_version"] = config.agent_version
    if config.writes is not None and not _says_writes(case):
        update["expected"] = case.expected.model_copy(update={"writes": config.writes})
    case = case.model_copy(update=update) if update else case
    return redacted(case, config.redact) if config.redact else case


def redacted(case: Case, reference: str) -> Case:
    """The case as the configured function lets it through; nobody sees the other one.

    Raises:
        ConfigurationError: when the function cannot be had, or did not return the same case.
    """
    hide = referenced(reference, _REDACT, "wanted module:function, Case -> Case")
    if not callable(hide):
        raise refused(_REDACT, reference, f"is a {type(hide).__name__}, wanted a function")
    left = hide(case)
    if not isinstance(left, Case):
        raise refused(_REDACT, reference, f"returned a {type(left).__name__}, wanted a Case")
    if (left.case_id, left.repetition) != (case.case_id, case.repetition):
        raise refused(_REDACT, reference, "changed a case's identity; hash ids at the source")
    return left


def _says_writes(case: Case) -> bool:
    return case.expected.writes is not None or any(
        tool.writes is not None for tool in case.transcript.tools
    )


def is_meant(case: Case, config: TranscriptsConfig) -> bool:
    """Whether the configuration's `where` means the case."""
    return all(_said(case, name) == value for name, value in config.where.items())


def _said(case: Case, name: str) -> str | None:
    fields = {"agent": case.agent, "agent_version": case.agent_version}
    return fields[name] if name in fields else case.tags.get(name)


def is_sampled(case_id: str, share: float) -> bool:
    """Whether the id's 64-bit hash, as a fraction of 2^64, lies below the share."""
    return share >= 1 or int.from_bytes(digest(case_id, 8)) < share * 2**64


def digest(text: str, size: int) -> bytes:
    """BLAKE2b of the text, `size` bytes; the same on every machine."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=size).digest()


def excerpt_of(body: Any) -> str:
    """How a record begins, in printable characters only."""
    if isinstance(body, bytes):
        text = body[: 4 * EXCERPT_CHARS].decode("utf-8", "backslashreplace")
    else:
        text = json.dumps(body, ensure_ascii=False)
    start = text[:EXCERPT_CHARS]
    shown = (c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in start)
    return "".join(shown)[:EXCERPT_CHARS]
