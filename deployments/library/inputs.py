"""What `assizes.evaluate` accepts as cases, and how cases in memory become transcripts to read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeAlias

import polars as pl

from assizes.deployments.library.frames import conversation_records
from assizes.judge.case import Case
from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.formats import native_line
from assizes.judge.formats.shared.json_shapes import CONVERSATION_IDS
from assizes.tasks.intake.plan import Plan
from assizes.tasks.intake.shards import read_shard
from assizes.tasks.sources.spool import Spool

CasesInput: TypeAlias = (
    str | Path | Case | Mapping[str, Any] | pl.DataFrame | pl.LazyFrame | Iterable[Any]
)
"""A path or URI; a `Case`, a record of any format, a list of messages, or an iterable of these; a
Polars or pandas frame."""

ACCEPTED: Final = (
    "a path or URI, a list of Cases, of dicts in any format or of lists of messages, or a Polars or "
    "pandas frame"
)

SHOWN_REJECTS: Final = 3
"""Most reasons that an error names where no record can be judged."""

_TAU2_KEY, _TAU_BENCH_KEY = "simulations", "traj"
"""Keys by which a whole result file of tau2, and a trajectory of tau-bench, are recognised."""


def place_of(cases: CasesInput, columns: Mapping[str, str] | None) -> str | None:
    """The path or URI that names the transcripts; `None`: the cases are in memory, or in a table.

    A CSV file is a table, and so is a Parquet file with a mapping of its columns.
    """
    if not isinstance(cases, str | Path):
        return None
    place = str(cases)
    is_table = place.lower().endswith(".csv") or (columns and place.lower().endswith(".parquet"))
    if is_table:
        return None
    if columns:
        raise ConfigurationError(
            f"columns: {place!r} is no table; leave columns out, or give a CSV or Parquet file"
        )
    return place


def transcript_files(
    cases: CasesInput, columns: Mapping[str, str] | None, format_name: str
) -> dict[str, bytes]:
    """The cases in memory as files of transcripts, by name.

    A conversation that names itself nowhere gets its place in the list as its id, from 0, so that
    two evaluations of one list can be compared case by case.

    Raises:
        ConfigurationError: there are no cases, or something in the list is none.
    """
    records = _records(cases, columns)
    if not records:
        raise ConfigurationError(f"cases: there are none; give {ACCEPTED}")
    files: dict[str, bytes] = {}
    lines: dict[str, list[bytes]] = {"cases.jsonl": [], "records.jsonl": []}
    trajectories = []
    for place, record in enumerate(records):
        if isinstance(record, Case):
            lines["cases.jsonl"].append(native_line(record))
        elif _TAU_BENCH_KEY in record and format_name in ("auto", "tau_bench"):
            trajectories.append(record)
        elif _TAU2_KEY in record and format_name in ("auto", "tau2"):
            files[f"document-{place:06}.json"] = _json(record)
        else:
            lines["records.jsonl"].append(_json(_named_record(record, place)) + b"\n")
    if trajectories:
        files["trajectories.json"] = _json(trajectories)
    return files | {name: b"".join(parts) for name, parts in lines.items() if parts}


def write_files(files: Mapping[str, bytes], folder: Path) -> Path:
    """Write files into a subfolder that is named for their content, and return the subfolder.

    Raises:
        ConfigurationError: the folder cannot be written.
    """
    target = folder / content_digest(files)
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, body in files.items():
            (target / name).write_bytes(body)
    except OSError as error:
        raise ConfigurationError(
            f"{str(folder)!r} cannot be written ({error.strerror}); an evaluation with a store keeps "
            "its conversations there, so start Python in a folder that can be written to"
        ) from None
    return target


def reject_lines(transcripts: TranscriptsConfig, plan: Plan) -> list[str]:
    """Why the first records of a plan were rejected, each with its place in its file."""
    lines = []
    with Spool.of(transcripts) as spool:
        for shard in plan.shards:
            for record in read_shard(shard, transcripts, spool):
                if record.reject is not None and len(lines) < SHOWN_REJECTS:
                    file = PurePosixPath(shard.uri).stem
                    lines.append(f"{file}[{record.position}]: {record.reject}")
    return lines


def content_digest(files: Mapping[str, bytes]) -> str:
    """The first 16 hex digits of a hash over names and content of files."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(name.encode() + hashlib.sha256(files[name]).digest())
    return digest.hexdigest()[:16]


def _records(cases: CasesInput, columns: Mapping[str, str] | None) -> Sequence[Any]:
    """The cases and records of an input, with lists of messages as records."""
    rows = _table_rows(cases)
    if rows is not None:
        return conversation_records(rows, columns) if rows else []
    if isinstance(cases, Case | Mapping):
        cases = [cases]
    if not isinstance(cases, Iterable):
        raise ConfigurationError(f"cases: {type(cases).__name__} given; give {ACCEPTED}")
    records = list(cases)
    if columns and records:
        if not all(isinstance(record, Mapping) for record in records):
            raise ConfigurationError("columns: the cases are no rows; leave columns out")
        return conversation_records(records, columns)
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
    """The rows of a frame, or of a file that is a table; `None` where there is no table."""
    if isinstance(cases, str | Path):
        cases = _read_table(str(cases))
    if isinstance(cases, pl.LazyFrame):
        cases = cases.collect()
    if isinstance(cases, pl.DataFrame):
        return cases.fill_nan(None).to_dicts()
    kind = type(cases)
    if kind.__module__.partition(".")[0] == "pandas" and kind.__name__ == "DataFrame":
        frame: Any = cases  # pandas is not among our dependencies
        plain = frame.astype(object).where(frame.notna(), None)
        return [{str(key): value for key, value in row.items()} for row in plain.to_dict("records")]
    return None


def _read_table(place: str) -> pl.DataFrame:
    try:
        if place.lower().endswith(".parquet"):
            return pl.read_parquet(place)
        return pl.read_csv(place, infer_schema=False)  # ids such as 007 stay as they are
    except (OSError, pl.exceptions.PolarsError) as error:
        why = " ".join(str(error).split()) or type(error).__name__
        raise ConfigurationError(f"cases: {place!r} cannot be read as a table: {why}") from None


def _is_message(value: Any) -> bool:
    return "role" in value if isinstance(value, Mapping) else hasattr(value, "role")


def _is_foreign(value: Any) -> bool:
    """Whether a value is a pydantic model of another package, such as a completion of OpenAI's."""
    return hasattr(value, "model_dump") and not isinstance(value, Case)


def _named_record(record: Mapping[str, Any], place: int) -> Mapping[str, Any]:
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
