"""Prepares every case between reading and hearing: joins ground truth and hides secrets.

Ground truth comes from a separate file, which is read once, checked as a whole and joined case by
case.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

import polars as pl

from assizes.judge.case import Case, Expected
from assizes.judge.config.run import RunConfig
from assizes.judge.config.transcripts import FIELDS, GroundTruthConfig, PrivacyConfig
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.formats.shared.parsing import strict_json
from assizes.judge.ground_truth import add_ground_truth, native_truth, truth_of
from assizes.judge.injection.families import plant_attack
from assizes.judge.privacy.secret_masking import (
    hold_process_secrets,
    mask_credentials,
    mask_process_secrets,
    process_secret_rules,
)
from assizes.judge.redaction import redaction
from assizes.judge.rows import QUOTES_TRANSCRIPT
from assizes.judge.summary.summary import reconcile
from assizes.tasks.sources.spool import parquet_rows, read_whole_file

_WHERE: Final = "[ground_truth]"
_MAX_EXAMPLES: Final = 3  # ids in an error message

_Rows = list[tuple[str, Mapping[str, Any]]]
"""The rows of a file: a label for messages, such as `row 7`, and the cells by column."""


class CasePreprocessor:
    """Turns the case of a record into the case that judges hear, equally in planning and judging.

    With `canaries` each case gets a planted injection attack that the judges must resist. `truth`
    and `truth_digest`, the SHA-256 of its file, are `None` where no ground truth is configured.

    Raises:
        ConfigurationError: Presidio is configured and not installed.
    """

    def __init__(
        self, privacy: PrivacyConfig, truth: GroundTruth | None = None, *, canaries: bool = False
    ) -> None:
        self.truth, self._canaries = truth, canaries
        self.truth_digest = truth.digest if truth is not None else None
        self._redactor = redaction.redactor(privacy)
        self._sends_raw = privacy.send == "raw"
        # "raw" still hides secrets, unless `redact` leaves them out (docs/decisions.md, 64).
        self._sent_redactor = redaction.secrets_only(privacy) if self._sends_raw else self._redactor
        # Rejects are shown to people, and nobody has checked what stands in them: all rules apply.
        self._excerpt_redactor = redaction.Redactor(
            (*process_secret_rules(), *redaction.FULL_REDACTOR.rules, *self._redactor.rules),
            self._redactor.finder,
        )

    @classmethod
    def from_config(cls, config: RunConfig) -> CasePreprocessor:
        """The preprocessor of a run.

        Raises:
            ConfigurationError: the ground truth cannot be read, or Presidio is not installed.
        """
        truth = ground_truth(config.ground_truth)
        return cls(config.privacy, truth, canaries=config.transcripts.canaries)

    def prepared_case(self, case: Case) -> Case:
        """The case as the judges and their models see it."""
        # Redacted last, so that nothing that is added to a case stays readable.
        case = self.truth.case(case) if self.truth else case
        return self._sent_redactor.redact_case(plant_attack(case) if self._canaries else case)

    def displayed_case(self, case: Case) -> Case:
        """A prepared case as people see it: redacted also where models got the raw case."""
        return self._redactor.redact_case(case) if self._sends_raw else case

    def displayed_text(self, text: str) -> str:
        """A text made from a prepared case, as people see it."""
        return self._redactor.redact_text(text) if self._sends_raw else text

    def redacted_excerpt(self, text: str) -> str:
        """The beginning of a rejected record, redacted by all known rules, configured or not."""
        return self._excerpt_redactor.redact_text(text)

    def redacted_fault(self, error: DataError) -> DataError:
        """A fault with a redacted detail, because the detail may quote the record."""
        detail = self._excerpt_redactor.redact_text(error.detail)
        return error if detail == error.detail else DataError(error.code, detail)

    def redacted_rows(
        self, case: Case, tables: Mapping[str, list[dict[str, Any]]]
    ) -> Mapping[str, list[dict[str, Any]]]:
        """The rows of a case as they are stored: redacted where the models got the raw case.

        Secrets of this process, such as an API key, are always hidden: the error message of a
        provider or a judge may hold one, although no case does.
        """
        if not self._sends_raw and not hold_process_secrets(_quoting_texts(tables)):
            return tables  # as nearly always
        # A copy: the caller goes on with the rows that it gave.
        stored = {table: [dict(row) for row in rows] for table, rows in tables.items()}
        placeholders = redaction.Placeholders()
        if self._sends_raw:
            # Redacting the case first gives the rows the placeholder numbers of a redacted case.
            self._redactor.redact_case(case, placeholders)
        for table, rows in stored.items():
            columns = rows[0] if rows else {}  # the rows of a table have the same
            quoting = [name for name in columns if name in QUOTES_TRANSCRIPT.get(table, ())]
            for row in rows:
                for name in quoting:
                    row[name] = self._stored_value(row[name], placeholders)
                # A pseudonym still tells which cases were sampled together, a placeholder not.
                cluster = row.get("cluster") if self._sends_raw else None
                if cluster is not None and self._redactor.redact_text(cluster) != cluster:
                    row["cluster"] = redaction.pseudonym(cluster)
        return stored

    def _stored_value(self, value: Any, placeholders: redaction.Placeholders) -> Any:
        """A text, or each text of a list, as it is stored; any other value as it is."""
        if isinstance(value, list):
            return [self._stored_value(part, placeholders) for part in value]
        if not isinstance(value, str):
            return value
        masked = mask_process_secrets(value)
        return self._redactor.redact_text(masked, placeholders) if self._sends_raw else masked


def _quoting_texts(tables: Mapping[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Yield the texts of rows that may quote a transcript."""
    for table, rows in tables.items():
        pending = [row.get(name) for name in QUOTES_TRANSCRIPT.get(table, ()) for row in rows]
        while pending:
            value = pending.pop()
            if isinstance(value, str):
                yield value
            elif isinstance(value, list):
                pending += value


@dataclass(frozen=True)
class GroundTruth:
    """Expected values by case id."""

    uri: str  # of the file
    digest: str  # SHA-256 of the file, 64 hex digits; enters the run id: other truth, another run
    values: Mapping[str, Expected] = field(repr=False)  # by case id; without repr, it may be large
    refuse: bool = False  # whether a row that names no case is an error

    def case(self, case: Case) -> Case:
        """The case with the expected values of its row; all repetitions get the same values."""
        truth = self.values.get(case.case_id)
        return case if truth is None else add_ground_truth(case, truth)

    def counts(self, read: Iterable[str]) -> dict[str, int]:
        """How many rows match the ids of the cases that were read, and how many do not.

        Raises:
            ConfigurationError: a row names no case, and such rows are refused.
            Unreconciled: the counts do not add up.
        """
        cases = set(read)
        unmatched_ids = self.values.keys() - cases
        if unmatched_ids and self.refuse:
            examples = ", ".join(map(repr, sorted(unmatched_ids)[:_MAX_EXAMPLES]))
            raise ConfigurationError(
                f"{_WHERE} {mask_credentials(self.uri)!r}: {len(unmatched_ids)} rows name no case that "
                f"was read: {examples}; take them out, or set unmatched = 'count'"
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
    # Lines of the native format, as those of a suite, hold the expected values of their cases.
    is_native = not config.columns and any("transcript" in row for _, row in rows)
    columns = {} if is_native else _columns(config, {name for _, row in rows for name in row})
    values: dict[str, Expected] = {}
    places: dict[str, str] = {}  # case id -> its row or line, for messages
    for place, row in rows:
        cell = row.get(config.key)
        is_number = isinstance(cell, int) and not isinstance(cell, bool)  # True is an int in Python
        if not (is_number or isinstance(cell, str)) or cell == "":
            raise _fault(config, place, f"column {config.key!r} holds no case id")
        case_id = str(cell)
        if case_id in values:
            raise _fault(config, place, f"{case_id!r} stands in {places[case_id]} already")
        try:
            truth = native_truth(row) if is_native else truth_of(row, columns)
            values[case_id], places[case_id] = truth, place
        except DataError as error:
            raise _fault(config, place, error.detail) from None
    digest = hashlib.sha256(data).hexdigest()
    return GroundTruth(config.uri, digest, values, config.unmatched == "refuse")


def _rows(uri: str, data: bytes) -> _Rows:
    suffix, shown = PurePosixPath(uri).suffix.lower(), repr(mask_credentials(uri))
    if suffix in (".jsonl", ".ndjson"):
        return list(_json_rows(shown, data))
    if suffix not in (".csv", ".parquet"):
        raise ConfigurationError(
            f"{_WHERE} uri: {shown} is of no known kind; wanted .jsonl, .csv or .parquet"
        )
    try:
        if suffix == ".csv":
            # Every cell as text: a guessed type would make 007 the number 7.
            rows = pl.read_csv(io.BytesIO(data), infer_schema=False).to_dicts()
        else:
            rows = parquet_rows(data)  # in a child process: the file may be hostile
    except (pl.exceptions.PolarsError, OSError, DataError) as error:
        why = str(error).strip().partition("\n")[0]
        raise ConfigurationError(f"{_WHERE} {shown}: no {suffix[1:]} file: {why}") from None
    return [(f"row {number}", row) for number, row in enumerate(rows, 1)]


def _json_rows(shown_uri: str, data: bytes) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        where = f"{_WHERE} {shown_uri} line {number}"
        try:
            row = strict_json(line)
        except DataError as error:
            raise ConfigurationError(f"{where}: {error.detail}") from None
        if not isinstance(row, dict):
            raise ConfigurationError(f"{where}: wanted a JSON object")
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


def _fault(config: GroundTruthConfig, place: str, why: str) -> ConfigurationError:
    return ConfigurationError(f"{_WHERE} {mask_credentials(config.uri or '')!r} {place}: {why}")


DEFAULT_PREPROCESSOR: Final = CasePreprocessor(PrivacyConfig())
"""The preprocessor without any configuration: it hides secrets and joins no ground truth."""
