"""Foreign transcripts converted, object by object, with an account of what was kept."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from io import BufferedWriter
from pathlib import Path
from typing import Any, Final

from assizes.judge.case import Case
from assizes.judge.config.run import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, DataError, Inconclusive
from assizes.judge.formats import Format, native_line
from assizes.judge.formats.shared.containers import PieceFormat
from assizes.judge.formats.shared.fidelity import HUMAN_LABELS, fidelity_counts
from assizes.judge.formats.writing import WRITERS, lost_fields
from assizes.tasks.intake.record_joining import joined_lines_path, plain_path
from assizes.tasks.intake.records import case_of, format_of, head_of, raw_records
from assizes.tasks.sources.bounds import max_record_bytes
from assizes.tasks.sources.lines import RawRecord, line_records
from assizes.tasks.sources.objects import Spool, list_sources
from assizes.tasks.sources.pinned import TranscriptSource

_MAX_SHOWN_REJECTS: Final = 20
"""So many rejects are told with their place; all of them are counted."""


@dataclass
class ImportResult:
    """What became of the records: `records` = `cases` + the sum of `rejected`.

    Attributes:
        formats: how many cases came from each format.
        kept: turns, tool calls, results of the cases, and what became of other parts.
        lost: fields of cases that the format written to has no place for.
        rejected: by reason.
        rejects: the first ones, `uri#position: reason`.
        labels: how many labels of people went into the labels file.
    """

    records: int = 0
    cases: int = 0
    formats: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    lost: Counter[str] = field(default_factory=Counter)
    rejected: Counter[str] = field(default_factory=Counter)
    rejects: list[str] = field(default_factory=list)
    labels: int = 0

    def reject(self, where: str, error: DataError) -> None:
        """Count a record that is no case."""
        self.records += 1
        self.rejected[error.code] += 1
        if len(self.rejects) < _MAX_SHOWN_REJECTS:
            self.rejects.append(f"{where}: {error}")


def import_transcripts(config: TranscriptsConfig, out: Path, to: str, labels: Path) -> ImportResult:
    """Convert every record that can be read; one that cannot costs itself alone.

    Pieces of one conversation are brought together over all objects.

    Args:
        config: where the transcripts are, and their format.
        out: file to write; ending in `.gz` it is packed. It is there when all is written.
        to: `native`, or a name in `assizes.judge.formats.writing.WRITERS`.
        labels: file for what people said; only written where they did.

    Raises:
        ConfigurationError: the transcripts cannot be reached, or a file cannot be written.
        Inconclusive: no record is a case.
    """
    result = ImportResult()
    drafts = [path.with_name(f".{path.name}.draft") for path in (out, labels)]
    try:
        with ExitStack() as closing:
            spool = closing.enter_context(Spool.of(config))
            target = closing.enter_context(_open_output(drafts[0], packed=out.name.endswith(".gz")))
            rows = closing.enter_context(_open_output(drafts[1], packed=False))
            for case in _cases(config, spool, result):
                target.write(_line(case, to, result))
                for row in _label_rows(case):
                    rows.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")
                    result.labels += 1
        if not result.cases:
            why = ", ".join(f"{code} {n}" for code, n in sorted(result.rejected.items())) or "none"
            raise Inconclusive(f"no_data: {result.records} records read, none is a case ({why})")
        drafts[0].replace(out)
        if result.labels:
            drafts[1].replace(labels)
    except OSError as error:
        raise ConfigurationError(f"{str(out)!r} cannot be written: {error.strerror}") from error
    finally:
        for draft in drafts:
            draft.unlink(missing_ok=True)
    return result


def _open_output(path: Path, *, packed: bool) -> BufferedWriter | gzip.GzipFile:
    path.parent.mkdir(parents=True, exist_ok=True)
    return gzip.GzipFile(path, "wb", mtime=0) if packed else path.open("wb")


def _cases(config: TranscriptsConfig, spool: Spool, result: ImportResult) -> Iterator[Case]:
    in_pieces: dict[str, tuple[PieceFormat, list[TranscriptSource]]] = {}
    for source in list_sources(config.uri, config.storage_options):
        try:
            path = plain_path(spool, source)
            if not (head := head_of(path)):
                continue
            format_ = format_of(config, head, path)
            if isinstance(format_, PieceFormat):
                in_pieces.setdefault(format_.name, (format_, []))[1].append(source)
                continue
            raws = raw_records((source, spool), format_, config, 0, 0)
        except DataError as error:
            result.reject(source.uri, error)
            continue
        yield from _read(raws, format_, config, source.uri, result)
    for format_, sources in in_pieces.values():
        yield from _joined_cases(format_, sources, config, spool, result)


def _joined_cases(
    format_: PieceFormat,
    sources: list[TranscriptSource],
    config: TranscriptsConfig,
    spool: Spool,
    result: ImportResult,
) -> Iterator[Case]:
    where = sources[0].uri if len(sources) == 1 else config.uri
    try:
        path = joined_lines_path(spool, sources, format_)
    except DataError as error:
        result.reject(where, error)
        return
    raws = line_records(path, 0, 0, max_record_bytes(config))
    yield from _read(raws, format_, config, where, result)


def _read(
    raws: Iterator[RawRecord],
    format_: Format,
    config: TranscriptsConfig,
    uri: str,
    result: ImportResult,
) -> Iterator[Case]:
    for raw in raws:
        try:
            case = case_of(raw, format_, config)
        except DataError as error:
            result.reject(f"{uri}#{raw.position}", error)
            continue
        result.records += 1
        result.cases += 1
        result.formats[format_.name.partition(".")[0]] += 1
        result.kept.update(fidelity_counts(case))
        yield case


def _line(case: Case, to: str, result: ImportResult) -> bytes:
    if to == "native":
        return native_line(case)
    write, layout = WRITERS[to]
    record = write(case)
    result.lost += lost_fields(case, record, layout)
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def _label_rows(case: Case) -> Iterator[dict[str, Any]]:
    """What people said, as `assizes calibrate` reads it; of one rater the last grade a metric."""
    human_labels = case.metadata.get(HUMAN_LABELS)
    rows = (
        [row for row in human_labels if isinstance(row, dict)]
        if isinstance(human_labels, list)
        else []
    )
    last = {(row.get("metric"), row.get("rater")): row for row in rows}
    for row in last.values():
        yield {
            "case_id": case.case_id,
            "repetition": case.repetition,
            **{name: row.get(name) for name in ("metric", "label", "rater")},
            "cluster": case.cluster,
        }
