"""A first look at transcripts: a few cases, what could not be read, and days in their names.

Unlike a plan, which reads every record, a look ends as soon as it has seen enough.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError

from assizes.judge.case import Case
from assizes.judge.config.columns import TranscriptColumns
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.formats.shared.column_guess import column_names, guess_columns
from assizes.judge.formats.shared.parsing import strict_json
from assizes.judge.formats.shared.table_cells import unknown_speakers
from assizes.tasks.intake.first_rejects import FirstRejects
from assizes.tasks.intake.preprocessing import CasePreprocessor
from assizes.tasks.intake.reader import TranscriptReader, is_table
from assizes.tasks.intake.run_sources import expand, transcript_sources
from assizes.tasks.sources.listing import TranscriptSource, list_sources
from assizes.tasks.sources.spool import OpenedObject, Spool

SAMPLE_CASES: Final = 200
"""Cases that a look reads, at most."""

SAMPLE_OBJECTS: Final = 40
"""Objects that a look opens, at most."""

_SAMPLE_ROWS: Final = 200  # rows of a table from which its columns are guessed

# How names of folders and files write a day, and the placeholder for it. A year begins with 20.
_DAY_NAMES: Final = (
    (
        r"year=(?P<y>20\d\d)/month=(?P<m>\d\d)/day=(?P<d>\d\d)",
        "year={date:%Y}/month={date:%m}/day={date:%d}",
    ),
    (r"(?<!\d)(?P<y>20\d\d)-(?P<m>\d\d)-(?P<d>\d\d)(?!\d)", "{date:%Y-%m-%d}"),
    (r"(?<!\d)(?P<y>20\d\d)/(?P<m>\d\d)/(?P<d>\d\d)(?!\d)", "{date:%Y/%m/%d}"),
    (r"(?<!\d)(?P<y>20\d\d)_(?P<m>\d\d)_(?P<d>\d\d)(?!\d)", "{date:%Y_%m_%d}"),
    (r"(?<!\d)(?P<y>20\d\d)(?P<m>\d\d)(?P<d>\d\d)(?!\d)", "{date:%Y%m%d}"),
)


@dataclass(frozen=True, slots=True)
class DayTemplate:
    """A URI with a place for the day, and the newest day that there is."""

    uri: str
    newest: dt.date


@dataclass(frozen=True)
class TranscriptSample:
    """What a first look found; `cases` is empty where nothing could be read."""

    objects: int  # that there are
    cases: list[Case] = field(default_factory=list)
    formats: tuple[str, ...] = ()  # of the cases
    records: int = 0  # read, those that are no case included
    rejected: int = 0  # records and objects that could not be read
    reasons: tuple[str, ...] = ()  # the first of them, "place: reason"
    columns: TranscriptColumns | None = None  # as given, or as guessed for a table
    unused: tuple[str, ...] = ()  # columns of the table that `columns` does not name
    speakers: tuple[str, ...] = ()  # words for speakers in the table that nobody knows
    table: tuple[str, ...] = ()  # columns of a table for which nothing could be guessed
    days: DayTemplate | None = None  # where the names hold days


def look_at(
    config: TranscriptsConfig, day: dt.date | None, columns: Mapping[str, Any] | None = None
) -> TranscriptSample:
    """Read up to `SAMPLE_CASES` cases; the columns of a table that has no format are guessed.

    `columns` are settings of [transcripts.columns] that are known; with any the input is a table.

    Raises:
        ConfigurationError: the transcripts cannot be reached, the day does not fit the URI, or the
            columns that are known do not fit the table.
        Inconclusive: there is no transcript.
    """
    uri = expand(config.uri, day)
    sources = list_sources(uri, config.storage_options)
    days = None if day is not None else day_template(uri, sources)
    # The newest come last by name; a look at them finds what the agent does today.
    some = sources[: -SAMPLE_OBJECTS - 1 : -1]
    with Spool.of(config) as spool:
        sample = TranscriptSample(len(sources)) if columns else _read(config, spool, some, sources)
        if not sample.cases:
            rows = _table_rows(config, spool, some, whatever=bool(columns))
            names = column_names(rows)
            table = _guessed(rows, columns or {})
            if table is None:
                # Columns that are named for one kind of files do not help with another.
                is_one_kind = len({Path(source.uri).suffix for source in some}) == 1
                return replace(sample, table=tuple(names) if is_one_kind else (), days=days)
            sample = _read(config.model_copy(update={"columns": table}), spool, some, sources)
            unused = tuple(name for name in names if name not in table.names())
            role = table.role
            speakers = [row[role] for row in rows if role is not None and role in row]
            unknown = tuple(unknown_speakers(speakers, table.roles))
            sample = replace(sample, columns=table, unused=unused, speakers=unknown)
    return replace(sample, days=days)


def _guessed(
    rows: Sequence[Mapping[str, Any]], known: Mapping[str, Any]
) -> TranscriptColumns | None:
    """The columns of a table; `None` where there are no rows, or they show no conversation."""
    names = column_names(rows)
    for name in _named_columns(known):
        if name not in names:
            raise ConfigurationError.unknown("column", name, names, "--column")
    try:
        return guess_columns(rows, known) if rows else None
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in fault["loc"])
        if fault["type"] == "extra_forbidden":
            fields = TranscriptColumns.model_fields
            raise ConfigurationError.unknown("setting", where, fields, "--column") from None
        detail = fault["msg"].removeprefix("Value error, ")
        raise ConfigurationError(f"--column{f' {where}' if where else ''}: {detail}") from None


def _named_columns(known: Mapping[str, Any]) -> Iterator[str]:
    for name, value in known.items():
        if isinstance(value, str):
            yield value
        elif name == "tags":
            yield from value


def _read(
    config: TranscriptsConfig,
    spool: Spool,
    some: Sequence[TranscriptSource],
    sources: Sequence[TranscriptSource],
) -> TranscriptSample:
    """The cases of some of the objects, and what in them could not be read."""
    cases: list[Case] = []
    formats: set[str] = set()
    rejected, rejects = 0, FirstRejects()
    for record in _first_records(config, spool, some, SAMPLE_CASES):
        if isinstance(record.case, DataError):
            rejected += 1
            rejects.add(record.uri, record.position, record.case)
            continue
        cases.append(record.case)
        formats.add(record.format_name)
        if len(cases) >= SAMPLE_CASES:
            break
    return TranscriptSample(
        objects=len(sources),
        cases=cases,
        formats=tuple(sorted(formats)),
        records=len(cases) + rejected,
        rejected=rejected,
        reasons=rejects.lines,
    )


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
        sources = transcript_sources(config, None, spool)[:SAMPLE_OBJECTS]
        for record in islice(_first_records(config, spool, sources, most), most):
            first.read += 1
            if isinstance(record.case, DataError):
                first.rejected += 1
                fault = preprocessor.redacted_fault(record.case)
                first.rejects.add(record.uri, record.position, fault)
    return first


class _Record(NamedTuple):
    uri: str
    position: int | None  # `None`: the object as a whole, which cannot be read
    case: Case | DataError
    format_name: str = ""


def _first_records(
    config: TranscriptsConfig, spool: Spool, sources: Sequence[TranscriptSource], most: int
) -> Iterator[_Record]:
    """The first records of some objects in order, at most so many of each."""
    reader = TranscriptReader(config, spool)
    for source in sources:
        try:
            opened = spool.open(source)
            with opened.stream:
                _, format_ = reader.recognise(opened)
                if isinstance(format_, DataError):
                    raise format_
                if format_ is None:  # blanks only
                    continue
                name = format_.name.partition(".")[0]  # without `.document`
                for raw, case in islice(reader.cases(opened, format_), most):
                    yield _Record(source.uri, raw.position, case, name)
        except DataError as error:
            yield _Record(source.uri, None, error)


def _table_rows(
    config: TranscriptsConfig, spool: Spool, sources: Sequence[TranscriptSource], *, whatever: bool
) -> list[dict[str, Any]]:
    """Rows of the first object that may be a table; empty where none may.

    Lines of JSON in a format of their own are none, unless `whatever` says so.
    """
    reader = TranscriptReader(config, spool)
    for source in sources:
        with suppress(DataError):
            opened = spool.open(source)
            with opened.stream:
                _, format_ = reader.recognise(opened)
                if not (whatever or isinstance(format_, DataError) or is_table(source.uri)):
                    continue
                values = list(islice(_json_values(opened, spool), _SAMPLE_ROWS))
            if rows := [value for value in values if isinstance(value, dict) and value]:
                return rows
    return []


def _json_values(opened: OpenedObject, spool: Spool) -> Iterator[Any]:
    opened.stream.seek(0)
    head = opened.stream.read(1 << 10).lstrip()
    if head.startswith(b"["):
        yield from spool.document_records(opened.source, _elements)
        return
    opened.stream.seek(0)
    for line in opened.stream:
        with suppress(DataError):
            yield strict_json(line)


def _elements(document: bytes) -> list[Any]:
    value = strict_json(document)
    return value if isinstance(value, list) else [value]


def day_template(uri: str, sources: Sequence[TranscriptSource]) -> DayTemplate | None:
    """The URI of one day's transcripts, where a folder has them by day; `None` where it has not.

    Every object must stand under the same name with another day in it.
    """
    place = uri if "://" in uri else Path(uri).as_posix()
    base = f"{place.removeprefix('file://').rstrip('/')}/"
    if "{" in uri or not all(source.uri.startswith(base) for source in sources):
        return None  # a file, or a glob
    names = [source.uri.removeprefix(base) for source in sources]
    for pattern, placeholder in _DAY_NAMES:
        matches = [match for name in names if (match := re.search(pattern, name))]
        days = {day for match in matches if (day := _day(match)) is not None}
        heads = {match.string[: match.start()] for match in matches}
        tails = {_tail(match.string[match.end() :]) for match in matches}
        if len(matches) < len(names) or not days or len(heads) > 1:
            continue
        if (
            not any("/" in tail for tail in tails) and len(days) > 1
        ):  # a day stands in a file's name
            tails = tails if len(tails) == 1 else {"*"}
        elif tails != {"/"}:
            continue
        return DayTemplate(f"{base}{heads.pop()}{placeholder}{tails.pop()}", max(days))
    return None


def _day(match: re.Match[str]) -> dt.date | None:
    with suppress(ValueError):
        return dt.date(int(match["y"]), int(match["m"]), int(match["d"]))
    return None


def _tail(rest: str) -> str:
    """What stands behind the day in a URI: the end of its folder, or all of a file's name."""
    folder, slash, _ = rest.partition("/")
    return f"{folder}{slash}"
