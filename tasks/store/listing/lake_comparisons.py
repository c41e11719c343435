"""The comparisons and calibrations of a lake: a document each, created once under a name of its content."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from datetime import date
from typing import Any, Final

import polars as pl

from assizes.judge.rows import KEYS, TABLES, frame
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store.listing.kept_folders import kept_of_folder
from assizes.tasks.store.manifest import Documents, document_body, encode_document, seal
from assizes.tasks.store.objects import Objects
from assizes.tasks.store.record import checked_id

_COMPARISONS: Final = "comparisons"
_CALIBRATIONS: Final = "calibrations"
_BETWEEN: Final = ".."  # stands between the ids of the two runs in the name of a comparison
_HASH: Final = len("-0123456789abcdef.json")  # what ends the name


class LakeComparisons:
    """Tables comparisons and calibrations of one lake."""

    def __init__(self, objects: Objects, documents: Documents) -> None:
        self._objects = objects
        self._documents = documents

    def add_comparison(self, row: Mapping[str, Any]) -> None:
        """Store a row of table comparisons under a name made from its content."""
        added = row_with_iso_times(frame(_COMPARISONS, [row]).row(0, named=True))
        data = document_body(comparison=added)
        sides = (checked_id(added[side], "run id") for side in ("baseline", "candidate"))
        digest = hashlib.sha256(data).hexdigest()[:16]
        failpoint("lake.comparison.before")
        self._objects.create(f"{_COMPARISONS}/{_BETWEEN.join(sides)}-{digest}.json", seal(data))
        failpoint("lake.comparison.after")

    def comparisons(self, candidates: Collection[str] | None = None) -> pl.DataFrame:
        """Table comparisons sorted by all columns, or its rows about some candidates (full ids)."""
        if candidates is None:
            names = self._objects.names(_COMPARISONS)
        else:
            # An id may hold two dots: the end behind the last ones is that of other ids, too.
            ends = dict.fromkeys(_end(candidate) for candidate in candidates)
            by_end = kept_of_folder(self._objects, _COMPARISONS, _by_end)
            names = [name for end in ends for name in by_end.get(end, ())]
        rows = self._rows(_COMPARISONS, names)
        if candidates is not None:
            rows = rows.filter(pl.col("candidate").is_in(list(candidates)))
        return rows.sort(rows.columns)

    def add_calibration(self, row: Mapping[str, Any]) -> None:
        """Store a row of table calibrations under a name made from its record, not its time."""
        added = row_with_iso_times(frame(_CALIBRATIONS, [row]).row(0, named=True))
        identity = document_body(run_id=added["run_id"], record=added["record"])
        digest = hashlib.sha256(identity).hexdigest()[:16]
        name = f"{checked_id(added['fingerprint'], 'fingerprint')}-{digest}"
        data = encode_document(calibration=added)
        self._objects.create(f"{_CALIBRATIONS}/{name}.json", data)

    def calibrations(self) -> pl.DataFrame:
        """Table calibrations in order of time."""
        rows = self._rows(_CALIBRATIONS, self._objects.names(_CALIBRATIONS))
        return rows.sort(KEYS[_CALIBRATIONS], maintain_order=True)

    def _rows(self, table: str, names: Iterable[str]) -> pl.DataFrame:
        """The rows of some documents, each under the singular of the table's name (`comparison`)."""
        documents = self._documents.read_lasting(f"{table}/{name}" for name in names)
        rows = [document.content[table[:-1]] for document in documents.values()]
        texts = pl.DataFrame(rows, schema={**TABLES[table], "at": pl.String}, orient="row")
        return texts.with_columns(pl.col("at").str.to_datetime(time_unit="us", time_zone="UTC"))


def row_with_iso_times(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row with its times and days as ISO 8601 text."""
    return {k: v.isoformat() if isinstance(v, date) else v for k, v in row.items()}


def _by_end(names: Iterable[str]) -> dict[str, list[str]]:
    """The names of comparisons by what stands behind the last two dots of their candidates."""
    by_end: dict[str, list[str]] = {}
    for name in names:
        by_end.setdefault(_end(name[:-_HASH]), []).append(name)
    return by_end


def _end(text: str) -> str:
    return text.rpartition(_BETWEEN)[2]
