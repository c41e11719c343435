"""Rows that people write: durable when a call returns, also while a run writes to the store."""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import polars as pl

from assizes.judge.config.run import StoreConfig
from assizes.judge.rows import as_json
from assizes.tasks.store import store_file
from assizes.tasks.store.bucket import objects_at

_TIME: Final = pl.Datetime("us", "UTC")


def _columns(dtype: Any, *names: str) -> dict[str, Any]:
    return dict.fromkeys(names, dtype)


_CASE: Final = {"run_id": pl.String, "case_id": pl.String, "repetition": pl.Int32}

SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "labels": {
        "label_id": pl.String,
        **_CASE,
        **_columns(pl.String, "metric", "rater", "role", "kind"),
        "value": pl.Float64,
        "note": pl.String,
        "at": _TIME,
        "seconds": pl.Float64,
        "blind": pl.Boolean,
        "shown": pl.String,
        "probability": pl.Float64,
        **_columns(pl.String, "queue_id", "supersedes"),
    },
    "annotations": {
        "annotation_id": pl.String,
        **_CASE,
        "kind": pl.String,
        "turn": pl.Int64,
        "metric": pl.String,
        "value": pl.Float64,
        **_columns(pl.String, "text", "author"),
        "at": _TIME,
        "supersedes": pl.String,
    },
    "queues": {
        "queue_id": pl.String,
        "position": pl.Int64,
        "run_id": pl.String,
        "metric": pl.String,
        "case_id": pl.String,
        "repetition": pl.Int32,
        **_columns(pl.String, "part", "reason", "stratum"),
        "probability": pl.Float64,
        "at": _TIME,
        "drawn_by": pl.String,
    },
}
KEYS: Final = {
    "labels": ("label_id",),
    "annotations": ("annotation_id",),
    "queues": ("queue_id", "position"),
}


def add_people_rows(config: StoreConfig, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Store rows of one table of people; a row whose key is stored already changes nothing."""
    if not rows:
        return
    texts = [as_json({"table": table, "row": _plain(row)}) for row in rows]
    if (file := store_file(config.uri)) is not None:
        _append(_lines_of(file), texts)
        return
    body = "\n".join(texts).encode()
    key = str(rows[0][KEYS[table][0]])
    name = f"{table}/{key}-{hashlib.sha256(body).hexdigest()[:16]}.json"
    objects_at(config.uri, config.storage_options).create(name, body)


def read_people_rows(config: StoreConfig, table: str) -> pl.DataFrame:
    """Every row of one table of people, in order of time."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for text in _texts(config, table):
        with suppress(ValueError, KeyError):
            entry = json.loads(text)
            if entry["table"] == table:
                row = entry["row"] | {"at": datetime.fromisoformat(entry["row"]["at"])}
                rows.setdefault(tuple(row[name] for name in KEYS[table]), row)
    frame = pl.DataFrame(list(rows.values()), schema=SCHEMAS[table], orient="row")
    return frame.sort("at", *KEYS[table])


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in row.items()
    }


def _lines_of(file: Path) -> Path:
    return file.with_name(f"{file.name}.people")


def _append(path: Path, texts: Iterable[str]) -> None:
    block = "".join(f"{zlib.crc32(text.encode()):08x} {text}\n" for text in texts).encode()
    with path.open("ab+") as sink:
        if sink.tell():
            sink.seek(-1, os.SEEK_END)
            block = block if sink.read(1) == b"\n" else b"\n" + block  # after a torn line
        sink.write(block)
        sink.flush()
        os.fsync(sink.fileno())


def _texts(config: StoreConfig, table: str) -> Iterable[str]:
    if (file := store_file(config.uri)) is None:
        objects = objects_at(config.uri, config.storage_options)
        names = [f"{table}/{name}" for name in objects.names(table)]
        for body in objects.read(names).values():
            yield from body.decode().split("\n")
        return
    path = _lines_of(file)
    for line in path.read_bytes().split(b"\n") if path.exists() else ():
        digest, _, body = line.partition(b" ")
        if body and digest == f"{zlib.crc32(body):08x}".encode():
            yield body.decode()
