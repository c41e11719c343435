"""`assizes export`: rows of a run as a file for other programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import polars as pl

from assizes.deployments.commands.output import check_separate, print_json, print_line
from assizes.deployments.commands.sql import csv_text
from assizes.deployments.commands.stores import opened_store
from assizes.judge.errors import ConfigurationError
from assizes.judge.summary.wide_table import wide_frame
from assizes.tasks.store import Store

WIDE: Final = "wide"
"""The name of the table with a row for each case; other names are those of tables of a run."""


def export_tables(
    run_id: str,
    targets: Mapping[str, Path | None],  # name of a table -> file; `None`: not wanted
    file: Path | None,
    uri: str | None,
    *,
    as_json: bool,
) -> None:
    """Write tables of a run to files, each in the format that the ending of its name says.

    Raises:
        UnknownRun: the store has no such run.
        ConfigurationError: no file is named, or one cannot be written.
    """
    wanted = {name: target for name, target in targets.items() if target is not None}
    if not wanted:
        raise ConfigurationError(
            "export: no file is named; write for example --wide out.parquet (or .csv, .jsonl)"
        )
    check_separate({f"--{name}": target for name, target in wanted.items()}, "export")
    for target in wanted.values():
        _writer(target)  # an unknown ending is said before anything is read
    written = []
    with opened_store(file, uri) as store:
        full_id = store.run(run_id).run_id
        for name, target in wanted.items():
            table = _table(store, full_id, name)
            export_table(table, target)
            written.append(
                {"table": name, "file": str(target), "rows": table.height, "columns": table.width}
            )
    if as_json:
        print_json(written)
        return
    for row in written:
        print_line(f"{row['table']}: {row['rows']} rows, {row['columns']} columns: {row['file']}")


def _table(store: Store, run_id: str, name: str) -> pl.DataFrame:
    if name == WIDE:
        return wide_frame(store.table(run_id, "cases"), store.table(run_id, "scores"))
    return store.table(run_id, name)


def _writer(target: Path) -> Callable[[pl.DataFrame, Path], object]:
    """What writes a table in the format of a file."""
    writers: dict[str, Callable[[pl.DataFrame, Path], object]] = {
        ".parquet": lambda table, path: table.write_parquet(path),
        ".csv": lambda table, path: path.write_text(
            csv_text(table.columns, (_plain_row(row) for row in table.rows())), encoding="utf-8"
        ),
        ".jsonl": lambda table, path: table.write_ndjson(path),
    }
    if target.suffix.lower() not in writers:
        raise ConfigurationError.unknown("file type", target.suffix, writers, f"export {target}")
    return writers[target.suffix.lower()]


def _plain_row(row: tuple[object, ...]) -> list[object]:
    return [value.to_list() if isinstance(value, pl.Series) else value for value in row]


def export_table(table: pl.DataFrame, target: Path) -> None:
    """Write a table to a file in the format of its ending: .csv, .jsonl or .parquet.

    Raises:
        ConfigurationError: the ending names no format, or the file cannot be written.
    """
    write = _writer(target)
    # Under another name first: a reader never sees half of it.
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write(table, partial)
        partial.replace(target)
    except OSError as error:
        raise ConfigurationError(
            f"export: {str(target)!r} cannot be written ({error.strerror}); name another file"
        ) from None
    finally:
        with suppress(OSError):  # there is none once it has its name
            partial.unlink()
