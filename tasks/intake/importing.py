"""Converts foreign transcripts object by object, and counts what is converted and what is lost."""

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
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, DataError, Inconclusive
from assizes.judge.formats import WRITERS, Format, lost_fields, native_line
from assizes.judge.formats.shared.containers import PieceFormat
from assizes.judge.formats.shared.parsing import HUMAN_LABELS, fidelity_counts, unchecked_truth
from assizes.tasks.intake.first_rejects import SHOWN_REJECTS, place_text
from assizes.tasks.intake.reader import RawRecord, TranscriptReader
from assizes.tasks.sources.listing import TranscriptSource, list_sources
from assizes.tasks.sources.spool import Spool
from assizes.tasks.sources.trace_copies import trace_sources
from assizes.tasks.trace_stores.address import is_trace_store

_MAX_SHOWN_REJECTS: Final = 20
"""How many rejects, and cases with unchecked ground truth, are named; all are counted."""


@dataclass
class ImportResult:
    """The counts of an import: `records` = `cases` + the sum of `rejected`."""

    records: int = 0
    cases: int = 0  # records that became cases
    formats: Counter[str] = field(default_factory=Counter)  # name -> cases
    kept: Counter[str] = field(default_factory=Counter)  # `fidelity_counts` of all cases
    lost: Counter[str] = field(default_factory=Counter)  # path of a field -> times lost
    rejected: Counter[str] = field(default_factory=Counter)  # code -> records
    rejects: list[str] = field(default_factory=list)  # the first ones, "place: reason"
    unchecked: list[str] = field(default_factory=list)  # the first cases, "case: what of its truth"
    labels: int = 0  # rows written to the labels file

    def reject(self, uri: str, position: int | None, error: DataError) -> None:
        """Count a record, or an object as a whole (`None`), that gives no case."""
        self.records += 1
        self.rejected[error.code] += 1
        if len(self.rejects) < _MAX_SHOWN_REJECTS:
            self.rejects.append(f"{place_text(uri, position)}: {error}")


def import_transcripts(config: TranscriptsConfig, out: Path, to: str, labels: Path) -> ImportResult:
    """Convert every record that can be read; a record that cannot be read is counted and left out.

    Pieces of one conversation are joined over all objects. The cases are written as `to`, `native`
    or a name in `assizes.judge.formats.WRITERS`, to the file `out`, which is packed where its name
    ends in `.gz`, and there only when complete. `labels` is the file for human labels, if there are
    any.

    Raises:
        ConfigurationError: the transcripts cannot be reached, or a file cannot be written.
        Inconclusive: no record is a case.
    """
    result = ImportResult()
    # Beside the targets, since a rename is atomic within one file system only.
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
            reasons = sorted(result.rejected.items())
            why = ", ".join(f"{code} {count}" for code, count in reasons) or "none"
            shown = "; ".join([*result.rejects[:SHOWN_REJECTS], _remedy(config, result)])
            raise Inconclusive(
                f"no_data: {result.records} records read, none is a case ({why}); {shown}"
            )
        drafts[0].replace(out)
        if result.labels:  # no labels, no file
            drafts[1].replace(labels)
    except OSError as error:
        raise ConfigurationError(f"{str(out)!r} cannot be written: {error.strerror}") from error
    finally:  # a draft is left after an error, or where there are no labels
        for draft in drafts:
            draft.unlink(missing_ok=True)
    return result


def _remedy(config: TranscriptsConfig, result: ImportResult) -> str:
    if not result.records:
        return f"{config.uri} is empty: give another IN to `assizes import FORMAT IN OUT`"
    if config.format == "auto":
        return "where the format is known, name it: `assizes import FORMAT IN OUT`"
    return "`assizes import auto IN OUT` recognises the format by itself"


def _open_output(path: Path, *, packed: bool) -> BufferedWriter | gzip.GzipFile:
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without a time in the header the same cases give the same bytes.
    return gzip.GzipFile(path, "wb", mtime=0) if packed else path.open("wb")


def _sources(config: TranscriptsConfig) -> list[TranscriptSource]:
    if is_trace_store(config.uri):
        return trace_sources(config)
    return list_sources(config.uri, config.storage_options)


def _cases(config: TranscriptsConfig, spool: Spool, result: ImportResult) -> Iterator[Case]:
    reader = TranscriptReader(config, spool)
    # Name of the format -> format and its objects: a session may be spread over many of them.
    in_pieces: dict[str, tuple[PieceFormat, list[TranscriptSource]]] = {}
    for source in _sources(config):
        try:
            opened = spool.open(source)
            with opened.stream:
                _, format_ = reader.recognise(opened)
                if isinstance(format_, DataError):
                    raise format_
                if isinstance(format_, PieceFormat):
                    in_pieces.setdefault(format_.name, (format_, []))[1].append(source)
                elif format_ is not None:  # `None`: blanks only
                    records = reader.cases(opened, format_)
                    yield from _counted_cases(records, format_, source.uri, result)
        except DataError as error:
            result.reject(source.uri, None, error)
    for format_, sources in in_pieces.values():
        uri = sources[0].uri if len(sources) == 1 else config.uri
        try:
            raws = reader.joined_records(sources, format_)
        except DataError as error:
            result.reject(uri, None, error)
            continue
        records = ((raw, reader.case(raw, format_)) for raw in raws)
        yield from _counted_cases(records, format_, uri, result)


def _counted_cases(
    records: Iterator[tuple[RawRecord, Case | DataError]],
    format_: Format,
    uri: str,
    result: ImportResult,
) -> Iterator[Case]:
    for raw, case in records:
        if isinstance(case, DataError):
            result.reject(uri, raw.position, case)
            continue
        result.records += 1
        result.cases += 1
        result.formats[format_.name.partition(".")[0]] += 1  # without `.document`
        result.kept.update(fidelity_counts(case))
        if (unchecked := unchecked_truth(case)) and len(result.unchecked) < _MAX_SHOWN_REJECTS:
            result.unchecked.append(f"{case.case_id}: {unchecked}")
        yield case


def _line(case: Case, to: str, result: ImportResult) -> bytes:
    if to == "native":  # holds every field of a case: nothing is lost
        return native_line(case)
    write, layout = WRITERS[to]
    record = write(case)
    result.lost += lost_fields(case, record, layout)
    return json.dumps(record, ensure_ascii=False).encode() + b"\n"


def _label_rows(case: Case) -> Iterator[dict[str, Any]]:
    """The human labels of a case, as `assizes calibrate` reads them."""
    labels = case.metadata.get(HUMAN_LABELS)
    rows = [row for row in labels if isinstance(row, dict)] if isinstance(labels, list) else []
    # Of several labels that one rater gave for one metric the last counts.
    for row in {(row.get("metric"), row.get("rater")): row for row in rows}.values():
        yield {
            "case_id": case.case_id,
            "repetition": case.repetition,
            **{name: row.get(name) for name in ("metric", "label", "rater")},
            "cluster": case.cluster,
        }
