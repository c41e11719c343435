"""Reads a file of labels or of judgements, in any of several formats, into rows of plain values."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

import polars as pl

from assizes.judge.config.calibration import LabelColumns
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.formats.shared.parsing import strict_json
from assizes.judge.privacy.credentials import mask_credentials
from assizes.tasks.sources.transcript_source import BOM
from assizes.tasks.sources.whole_files import parquet_rows, read_whole_file

Rows = list[dict[str, Any]]

_ACCEPTED: Final = (
    ".csv, .tsv, .parquet, .jsonl, .ndjson, .json, .qrels or .txt (TREC), each also .gz"
)


@dataclass(frozen=True, slots=True)
class LabelFile:
    """The rows of a file, and 16 hex digits of the SHA-256 of its bytes."""

    uri: str
    digest: str
    rows: Rows


def read_labels(
    uri: str, storage_options: Mapping[str, Any], columns: LabelColumns, where: str
) -> LabelFile:
    """Read a file from any fsspec URI.

    Args:
        uri: the file; its ending names the format.
        storage_options: options of the file system.
        columns: the names that the columns of a TREC file get.
        where: the setting that named the file, for messages.

    Raises:
        ConfigurationError: the file does not exist, or cannot be read in the format of its ending.
    """
    data = read_whole_file(uri, storage_options, where)
    suffix = PurePosixPath(uri.removesuffix(".gz")).suffix.lower()
    reader = _READERS.get(suffix)
    if suffix in (".txt", ".qrels"):
        reader = _trec_reader(columns)
    if reader is None:
        raise ConfigurationError(
            f"{where} {mask_credentials(uri)!r}: unknown ending; accepted: {_ACCEPTED}"
        )
    try:
        rows = reader(data)
    except (ValueError, TypeError, DataError, pl.exceptions.PolarsError) as error:
        reason = str(error).strip().split("\n", 1)[0][:200]
        raise ConfigurationError(
            f"{where} {mask_credentials(uri)!r}: cannot be read as {suffix}: {reason}"
        ) from error
    return LabelFile(uri, hashlib.sha256(data).hexdigest()[:16], rows)


def _csv_reader(separator: str) -> Callable[[bytes], Rows]:
    def read(data: bytes) -> Rows:
        # Everything stays text: 007 is an id, and grades are parsed later, by their scale.
        table = pl.read_csv(data, separator=separator, infer_schema=False)
        return table.to_dicts()

    return read


def _json_lines(data: bytes) -> Rows:
    # `splitlines` would also split at U+2028 and others, which may stand inside a JSON string.
    lines = enumerate(data.removeprefix(BOM).split(b"\n"), 1)
    return _objects([_json_line(number, line) for number, line in lines if line.strip()])


def _json_line(number: int, line: bytes) -> Any:
    try:
        return strict_json(line)
    except DataError as error:
        raise ValueError(f"line {number}: {error.detail}") from error


def _json(data: bytes) -> Rows:
    return _objects(strict_json(data))


def _objects(value: Any) -> Rows:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError("wanted a list of objects")
    return value


def _trec_reader(columns: LabelColumns) -> Callable[[bytes], Rows]:
    """A reader of TREC relevance labels: topic, 0, document, grade; each topic is one cluster."""

    def read(data: bytes) -> Rows:
        rows = []
        for number, line in enumerate(data.decode("utf-8").splitlines(), 1):
            words = line.split()
            if len(words) != 4:
                raise ValueError(f"line {number}: wanted topic, 0, document, grade")
            topic, _, document, grade = words
            names = (columns.case, columns.cluster, columns.judge, *columns.label)
            values = (f"{topic}/{document}", topic, grade, *[grade] * len(columns.label))
            rows.append(dict(zip(names, values, strict=True)))
        return rows

    return read


_READERS: Final[Mapping[str, Callable[[bytes], Rows]]] = {
    ".csv": _csv_reader(","),
    ".tsv": _csv_reader("\t"),
    ".parquet": parquet_rows,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
}
