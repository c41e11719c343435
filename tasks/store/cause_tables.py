"""Tables `causes` and `case_causes` of a store, and the failures by which causes are known.

They are derived from the other rows. A run has a Parquet file for each table: below `causes/` in a
lake, in the folder `<file>.causes` beside a DuckDB file, which another process may have locked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import polars as pl

from assizes.judge.causes.failures import FAILURES
from assizes.judge.rows import CAUSE_TABLES
from assizes.tasks.store.listing.memory import MemoryFiles
from assizes.tasks.store.listing.sealed import is_as_written, sealed_parquet
from assizes.tasks.store.objects import Folder, damaged_object, other_bytes
from assizes.tasks.store.people import IN_MEMORY

REMEMBERED: Final = "remembered"
"""The table of failures by which later runs know the causes; no table for readers."""

_COLUMNS: Final[dict[str, dict[str, Any]]] = {
    **CAUSE_TABLES,
    REMEMBERED: {
        **FAILURES,
        "cause_id": pl.String,
        "run_id": pl.String,
        "name": pl.String,
        "first_run": pl.String,
    },
}
_FOLDER: Final = "causes"
_SUFFIX: Final = ".causes"


class RunCauses(NamedTuple):
    """The causes of one run."""

    causes: pl.DataFrame  # rows of table causes, those first that take most points
    case_causes: pl.DataFrame
    remembered: pl.DataFrame
    """The latest failures of each cause of this run and of earlier ones, the longest known first."""


class CauseFiles(Protocol):
    """Where the tables lie: the part of `Objects` that they need."""

    @property
    def where(self) -> str:
        """The place, as text for messages."""

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The bytes of the named files, by name; a file that is not there is left out."""

    def names(self, folder: str) -> list[str]:
        """Last parts of the names in a folder, sorted."""

    def replace(self, name: str, data: bytes) -> None:
        """Write a file, over the one that is there if there is one."""


class CauseTables:
    """The causes of the runs of a store; `StoreError` where it cannot be reached."""

    def __init__(self, files: CauseFiles) -> None:
        self._objects = files

    @classmethod
    def beside(cls, store_file: Path) -> CauseTables:
        """The tables in the folder beside a DuckDB file, or in memory for a store in memory."""
        if store_file == IN_MEMORY:
            return cls(MemoryFiles())
        return cls(Folder(store_file.with_name(f"{store_file.name}{_SUFFIX}")))

    def run_ids(self) -> set[str]:
        """The ids of the runs whose causes are stored."""
        # The table that is written last.
        return {name.removesuffix(".parquet") for name in self._objects.names(f"{_FOLDER}/causes")}

    def write(self, run_id: str, found: RunCauses) -> None:
        """Store the causes of a run in place of those that it may have."""
        # Last the table by which `read` knows that the others are there.
        for table in ("case_causes", REMEMBERED, "causes"):
            self._write(table, run_id, getattr(found, table))

    def read(self, run_id: str) -> RunCauses | None:
        """The causes of a run; None where nobody has asked for them yet."""
        names = {_name(table, run_id): table for table in _COLUMNS}
        data = self._objects.read(list(names))
        if len(data) < len(names):
            return None
        return RunCauses(**{t: self._rows(name, data[name], t) for name, t in names.items()})

    def rows(self, table: str, run_ids: Iterable[str]) -> pl.DataFrame:
        """The rows of a table of `CAUSE_TABLES`, of those of the runs whose causes were found."""
        data = self._objects.read([_name(table, run_id) for run_id in run_ids])
        empty = pl.DataFrame(schema=CAUSE_TABLES[table])
        return pl.concat([empty, *(self._rows(n, data[n], table) for n in sorted(data))])

    def forget(self, run_id: str, case_ids: Collection[str]) -> None:
        """Delete the rows of some cases of a run, and what is quoted from these cases."""
        of_case = pl.col("case_id").is_in(list(case_ids))
        for name in self._objects.names(f"{_FOLDER}/{REMEMBERED}"):  # later runs remember them, too
            other = name.removesuffix(".parquet")
            rows = self._table(REMEMBERED, other)
            kept = rows.filter(~(of_case & (pl.col("run_id") == run_id)))
            if kept.height < rows.height:
                self._write(REMEMBERED, other, kept)
        if self.read(run_id) is None:
            return
        self._write("case_causes", run_id, self._table("case_causes", run_id).filter(~of_case))
        is_quoted = pl.col("examples").list.first().is_in(list(case_ids))
        kept_examples = pl.col("examples").list.set_difference(pl.lit(sorted(case_ids)))
        causes = self._table("causes", run_id).with_columns(
            sentence=pl.when(is_quoted).then(pl.lit("")).otherwise("sentence"),
            examples=kept_examples,
        )
        self._write("causes", run_id, causes)

    def _table(self, table: str, run_id: str) -> pl.DataFrame:
        name = _name(table, run_id)
        return self._rows(name, self._objects.read([name])[name], table)

    def _rows(self, name: str, data: bytes, table: str) -> pl.DataFrame:
        """The rows in the bytes of a file; `StoreError` where these are damaged."""
        if not is_as_written(data):
            raise other_bytes(self._objects.where, name)
        try:
            return _rows(data, table)
        except pl.exceptions.PolarsError as error:  # in a file without a hash
            line = str(error).split("\n", 1)[0]
            raise damaged_object(self._objects.where, name, f"cannot be read ({line})") from error

    def _write(self, table: str, run_id: str, rows: pl.DataFrame) -> None:
        columns = pl.Schema(_COLUMNS[table])
        stored = rows.select(list(columns)).cast(columns)
        self._objects.replace(_name(table, run_id), sealed_parquet(stored))


def _name(table: str, run_id: str) -> str:
    return f"{_FOLDER}/{table}/{run_id}.parquet"


def _rows(data: bytes, table: str) -> pl.DataFrame:
    stored = pl.read_parquet(data)
    later = {
        "owner": pl.lit(None, pl.String),
        "muted": pl.lit(value=False),
        "p_value": pl.lit(None, pl.Float64),
        "related": pl.lit(None, pl.String),
        "described_by": pl.lit(None, pl.String),
    }  # older files lack them
    if table == "causes":
        stored = stored.with_columns(
            value.alias(name) for name, value in later.items() if name not in stored.columns
        )
    return stored.select(list(_COLUMNS[table]))
