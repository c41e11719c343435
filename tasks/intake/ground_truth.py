"""Ground truth from a separate file: read once, checked as a whole, joined case by case."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

import polars as pl

from assizes.judge.case import Case, Expected
from assizes.judge.config.ground_truth import FIELDS, GroundTruthConfig
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.formats.shared.parsing import strict_json
from assizes.judge.ground_truth import add_ground_truth, truth_of
from assizes.judge.privacy.credentials import mask_credentials
from assizes.judge.summary.reconcile import reconcile
from assizes.tasks.sources.whole_files import parquet_rows, read_whole_file

_WHERE: Final = "[ground_truth]"
_MAX_EXAMPLES: Final = 3

Rows = list[tuple[str, Mapping[str, Any]]]
"""The rows of a file: a label for messages, such as `row 7`, and the cells by column."""


@dataclass(frozen=True)
class GroundTruth:
    """Expected values by case id.

    Attributes:
        uri: the file.
        digest: SHA-256 of the file, 64 hex digits. It enters the run id: other ground truth makes
            another run.
        values: the expected values by case id.
        refuse: whether a row that names no case is an error.
    """

    uri: str
    digest: str
    values: Mapping[str, Expected] = field(repr=False)
    refuse: bool = False

    def case(self, case: Case) -> Case:
        """The case with the expected values of its row; all repetitions get the same values."""
        truth = self.values.get(case.case_id)
        return case if truth is None else add_ground_truth(case, truth)

    def counts(self, read: Iterable[str]) -> dict[str, int]:
        """How many rows and cases match each other, and how many do not.

        Args:
            read: id of every case that was read.

        Raises:
            ConfigurationError: a row names no case, and such rows are refused.
            Unreconciled: the counts do not add up.
        """
        cases = set(read)
        unmatched_ids = self.values.keys() - cases
        if unmatched_ids and self.refuse:
            examples = ", ".join(map(repr, sorted(unmatched_ids)[:_MAX_EXAMPLES]))
            raise ConfigurationError(
                f"{_WHERE} {mask_credentials(self.uri)!r}: {len(unmatched_ids)} rows name no case that was read: {examples}; "
                "take them out, or set unmatched = 'count'"
            )
        matched = len(cases & self.values.keys())
        match_counts = {
            "rows": len(self.values),
            "joined": matched,
            "rows_without_case": len(unmatched_ids),
            "cases_without_row": len(cases) - matched,
        }
        parts = {name: match_counts[name] for name in ("joined", "rows_without_case")}
        reconcile("rows of ground truth", match_counts["rows"], parts)
        return match_counts


def ground_truth(config: GroundTruthConfig) -> GroundTruth | None:
    """The ground truth of the configured file; `None` where no file is configured.

    Raises:
        ConfigurationError: the file cannot be read, a column is missing, a row has no id or the id
            of an earlier row, or a value is not of its type; the message names file and row.
    """
    if config.uri is None:
        return None
    data = read_whole_file(config.uri, config.storage_options, f"{_WHERE} uri")
    rows = _rows(config.uri, data)
    columns = _columns(config, {name for _, row in rows for name in row})
    values: dict[str, Expected] = {}
    places: dict[str, str] = {}
    for place, row in rows:
        case_id = _case_id(config, place, row.get(config.key))
        if case_id in values:
            raise _fault(config, place, f"{case_id!r} stands in {places[case_id]} already")
        values[case_id], places[case_id] = _truth(config, place, row, columns), place
    digest = hashlib.sha256(data).hexdigest()
    return GroundTruth(config.uri, digest, values, config.unmatched == "refuse")


def _rows(uri: str, data: bytes) -> Rows:
    suffix = PurePosixPath(uri).suffix.lower()
    if suffix in (".jsonl", ".ndjson"):
        return list(_json_rows(uri, data))
    if suffix not in (".csv", ".parquet"):
        raise ConfigurationError(
            f"{_WHERE} uri: {mask_credentials(uri)!r} is of no known kind; wanted .jsonl, .csv or .parquet"
        )
    try:
        if suffix == ".csv":
            rows = pl.read_csv(io.BytesIO(data), infer_schema=False).to_dicts()
        else:
            rows = parquet_rows(data)
    except (pl.exceptions.PolarsError, OSError, DataError) as error:
        why = str(error).strip().partition("\n")[0]
        raise ConfigurationError(
            f"{_WHERE} {mask_credentials(uri)!r}: no {suffix[1:]} file: {why}"
        ) from None
    return [(f"row {number}", row) for number, row in enumerate(rows, 1)]


def _json_rows(uri: str, data: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            row = strict_json(line)
        except DataError as error:
            raise ConfigurationError(
                f"{_WHERE} {mask_credentials(uri)!r} line {number}: {error.detail}"
            ) from None
        if not isinstance(row, dict):
            raise ConfigurationError(
                f"{_WHERE} {mask_credentials(uri)!r} line {number}: wanted a JSON object"
            )
        yield f"line {number}", row


def _columns(config: GroundTruthConfig, names: set[str]) -> Mapping[str, str]:
    """The configured columns, else those that have the name of an expected value."""
    columns = config.columns or {name: name for name in FIELDS if name in names}
    for column in (config.key, *columns.values()):
        if column not in names:
            there = ", ".join(sorted(names)) or "none: the file holds no row"
            raise _fault(config, "as a whole", f"no column {column!r}; there are {there}")
    if not columns:
        raise _fault(
            config,
            "as a whole",
            "no column that is called as an expected value; name one, e.g. "
            "columns = { outcomes = 'my column' }",
        )
    return columns


def _case_id(config: GroundTruthConfig, place: str, cell: Any) -> str:
    if isinstance(cell, int) and not isinstance(cell, bool):
        return str(cell)
    if not isinstance(cell, str) or not cell:
        raise _fault(config, place, f"column {config.key!r} holds no case id")
    return cell


def _truth(
    config: GroundTruthConfig, place: str, row: Mapping[str, Any], columns: Mapping[str, str]
) -> Expected:
    try:
        return truth_of(row, columns)
    except DataError as error:
        raise _fault(config, place, error.detail) from None


def _fault(config: GroundTruthConfig, place: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{_WHERE} {mask_credentials(config.uri or '')!r} {place}: {why}")
