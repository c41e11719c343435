"""What `assizes.evaluate` accepts as cases, and how cases in memory become transcripts to read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeAlias

import polars as pl
from pydantic_core import PydanticSerializationError

from assizes.deployments.settings import validate_config
from assizes.judge.case import Case
from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.formats import detect_format, native_line
from assizes.judge.formats.shared.json_shapes import CONVERSATION_IDS
from assizes.tasks.intake.first_rejects import FirstRejects
from assizes.tasks.intake.sample import look_at

CasesInput: TypeAlias = (
    str | Path | Case | Mapping[str, Any] | pl.DataFrame | pl.LazyFrame | Iterable[Any]
)
"""A path or URI; a `Case`, a record of any format, a list of messages, or an iterable of these; a
Polars or pandas frame."""

ACCEPTED: Final = (
    "a path or URI, a list of Cases, of dicts in any format or of lists of messages, or a Polars or "
    "pandas frame"
)

CASES: Final = "cases.jsonl"
RECORDS: Final = "records.jsonl"
"""Names of the files of Cases, and of records of other formats."""

PLACE: Final = "row"
"""The column that is added to rows without an id: their place in the table, from 0."""

_TAU2_KEY, _TAU_BENCH_KEY = "simulations", "traj"
"""Keys by which a whole result file of tau2, and a trajectory of tau-bench, are recognised."""


@dataclass(frozen=True)
class MemoryCases:
    """Cases in memory as files of transcripts, by name."""

    files: Mapping[str, bytes]
    rows: Sequence[Mapping[str, Any]] | None  # of a table; `None`: the cases are no table

    def with_places(self) -> MemoryCases:
        """The same rows with their place in the table, from 0, in the column `PLACE`."""
        rows = [{**row, PLACE: place} for place, row in enumerate(self.rows or ())]
        return MemoryCases({RECORDS: _lines(rows)}, rows)

    @property
    def digest(self) -> str:
        """The first 16 hex digits of a hash over names and content of the files."""
        digest = hashlib.sha256()
        for name in sorted(self.files):
            digest.update(name.encode() + hashlib.sha256(self.files[name]).digest())
        return digest.hexdigest()[:16]


def memory_cases(
    cases: CasesInput, columns: Mapping[str, Any] | None, format_name: str
) -> MemoryCases:
    """The cases in memory as files.

    A conversation that names itself nowhere gets its place in the list as its id, from 0, so that
    two evaluations of one list can be compared case by case.

    Raises:
        ConfigurationError: there are no cases, or something in the list is none.
    """
    rows = _table_rows(cases)
    if rows is None and columns and isinstance(cases, list | tuple):  # rows with a column `role`
        rows = list(cases)
    records = _listed_records(cases) if rows is None else rows
    if not records:
        raise ConfigurationError(f"cases: there are none; give {ACCEPTED}")
    if columns:
        if not all(isinstance(record, Mapping) for record in records):
            raise ConfigurationError("columns: the cases are no rows of a table; leave columns out")
        return MemoryCases({RECORDS: _lines(records)}, records)
    return MemoryCases(_record_files(records, format_name), rows)


def _lines(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return b"".join(_json(row) + b"\n" for row in rows)


def _record_files(records: Sequence[Any], format_name: str) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    lines: dict[str, list[bytes]] = {CASES: [], RECORDS: []}
    trajectories = []
    for place, record in enumerate(records):
        if isinstance(record, Case):
            lines[CASES].append(_case_line(record))
        elif _TAU_BENCH_KEY in record and format_name in ("auto", "tau_bench"):
            trajectories.append(record)
        elif _TAU2_KEY in record and format_name in ("auto", "tau2"):
            files[f"document-{place:06}.json"] = _json(record)
        else:
            lines[RECORDS].append(_json(_named_record(record, place)) + b"\n")
    if trajectories:
        files["trajectories.json"] = _json(trajectories)
    return files | {name: b"".join(parts) for name, parts in lines.items() if parts}


def conversation_case(value: Any, case_id: str) -> Case:
    """One conversation as a case: a `Case`, a dict in any format, or a list of messages.

    A conversation that names itself nowhere gets `case_id`.

    Raises:
        ConfigurationError: it is no conversation.
    """
    (record, *more) = _listed_records(value) or (None,)
    if record is None or more:
        raise ConfigurationError(f"judge: give one conversation: {ACCEPTED}")
    is_case = isinstance(record, Case)
    line = _case_line(record) if is_case else _json(_named_record(record, case_id))
    try:
        case: Case = detect_format(line).case(line)
    except DataError as error:
        raise ConfigurationError(f"judge: no conversation: {error}") from None
    return record if is_case else case


def _case_line(case: Case) -> bytes:
    """A case as a line of a file; its reader rejects half of a surrogate pair, as in a dict."""
    try:
        return native_line(case)
    except PydanticSerializationError as error:
        try:
            return _json(case.model_dump(mode="json", exclude_defaults=True)) + b"\n"
        except PydanticSerializationError:
            why = f"the case {case.case_id!r} cannot be written as JSON: {error}"
            raise ConfigurationError(f"cases: {' '.join(why.split())}") from None


def table_columns(
    transcripts: Mapping[str, Any], columns: Mapping[str, Any] | None
) -> dict[str, Any] | None:
    """The settings [transcripts.columns] of a table; `None` where its rows are records of a format.

    `columns` are those that are known; the others are guessed from names and cells.

    Raises:
        ConfigurationError: a column is not there, or the table shows no conversation.
    """
    fields = {name: value for name, value in transcripts.items() if name != "columns"}
    config = validate_config({"transcripts": fields}, "evaluate").transcripts
    try:
        sample = look_at(config, None, columns)
    except ConfigurationError as error:
        raise ConfigurationError(str(error).replace("--column", "columns", 1)) from None
    if sample.columns is None and sample.table:
        raise ConfigurationError(
            f"cases: the columns {', '.join(sample.table)} are not recognised as conversations; name "
            "them, e.g. columns={'id': ..., 'role': ..., 'text': ...} for one row a message, "
            "columns={'id': ..., 'conversation': ...} for one row a conversation"
        )
    return None if sample.columns is None else sample.columns.model_dump(exclude_defaults=True)


def write_files(cases: MemoryCases, folder: Path) -> Path:
    """Write the files into a subfolder that is named for their content, and return the subfolder.

    Raises:
        ConfigurationError: the folder cannot be written.
    """
    target = folder / cases.digest
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, body in cases.files.items():
            (target / name).write_bytes(body)
    except OSError as error:
        raise ConfigurationError(
            f"{str(folder)!r} cannot be written ({error.strerror}); an evaluation with a store keeps "
            "its conversations there, so start Python in a folder that can be written to"
        ) from None
    return target


def reject_lines(rejects: FirstRejects) -> list[str]:
    """Why the first records were rejected, each with its place in its file, from 0 as in a list."""
    return [
        f"{PurePosixPath(uri).stem}{'' if position is None else f'[{position}]'}: {reason}"
        for reason, (uri, position) in rejects.places.items()
    ]


def _listed_records(cases: CasesInput) -> Sequence[Any]:
    """The cases and records of a list, with lists of messages as records."""
    if isinstance(cases, Case | Mapping):
        cases = [cases]
    if not isinstance(cases, Iterable):
        raise ConfigurationError(f"cases: {type(cases).__name__} given; give {ACCEPTED}")
    records = list(cases)
    if records and all(_is_message(record) for record in records):  # one conversation
        records = [records]
    return [_record(record, place) for place, record in enumerate(records)]


def _record(value: Any, place: int) -> Any:
    value = value.model_dump(mode="json", exclude_none=True) if _is_foreign(value) else value
    if isinstance(value, Case | Mapping):
        return value
    if isinstance(value, list | tuple) and all(_is_message(item) for item in value):
        return {"messages": list(value)}
    raise ConfigurationError(
        f"cases[{place}]: {type(value).__name__} given; wanted a Case, a dict, or a list of messages "
        "such as {'role': 'user', 'content': 'Hi'}"
    )


def _table_rows(cases: CasesInput) -> list[dict[str, Any]] | None:
    """The rows of a frame, without empty cells; `None` where there is no frame."""
    if isinstance(cases, pl.LazyFrame):
        cases = cases.collect()
    kind = type(cases)
    if isinstance(cases, pl.DataFrame):
        rows = cases.fill_nan(None).to_dicts()
    elif kind.__module__.partition(".")[0] == "pandas" and kind.__name__ == "DataFrame":
        frame: Any = cases  # pandas is not among our dependencies
        rows = frame.astype(object).where(frame.notna(), None).to_dict("records")
    else:
        return None
    return [_without_none(row) for row in rows]


def _without_none(value: Any) -> Any:
    """A value without the fields that are `None`: a frame has every field in every row."""
    if isinstance(value, Mapping):
        return {str(key): _without_none(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_without_none(item) for item in value]
    return value


def _is_message(value: Any) -> bool:
    return "role" in value if isinstance(value, Mapping) else hasattr(value, "role")


def _is_foreign(value: Any) -> bool:
    """Whether a value is a pydantic model of another package, such as a completion of OpenAI's."""
    return hasattr(value, "model_dump") and not isinstance(value, Case)


def _named_record(record: Mapping[str, Any], place: int | str) -> Mapping[str, Any]:
    """A record that says which conversation it is."""
    if "messages" in record:
        metadata = record.get("metadata")
        names = {*record, *(metadata if isinstance(metadata, Mapping) else ())}
        is_named = not names.isdisjoint(CONVERSATION_IDS)
        return record if is_named else {**record, "conversation_id": str(place)}
    if isinstance(record.get("request"), str) and "request_id" not in record:
        return {**record, "request_id": str(place)}
    return record


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, default=_plain).encode("utf-8", "surrogatepass")


def _plain(value: Any) -> Any:
    """A value of another library as JSON: a message of OpenAI's client, a time, a numpy number."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, date):  # and datetime
        return value.isoformat()
    return value.tolist() if hasattr(value, "tolist") else str(value)
