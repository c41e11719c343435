"""The documents of a lake that say how its runs began and ended, read for many runs at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

import polars as pl

from assizes.judge.rows import COMPLETE, frame
from assizes.tasks.store.listing.run_index import UNKNOWN_STATE
from assizes.tasks.store.manifest import SUCCESS, Documents
from assizes.tasks.store.objects import Objects
from assizes.tasks.store.record import newest_first

ENDS: Final = (SUCCESS, "STOPPED.json")
"""The documents that end a run; the first that exists counts."""

BEGUN: Final = "run.json"
"""The document of a run that begins."""

_KINDS: Final = (*ENDS, BEGUN)


class LakeRuns:
    """The runs of one lake; the source of its index."""

    def __init__(self, objects: Objects, documents: Documents) -> None:
        self._objects = objects
        self._documents = documents

    def rows(self) -> pl.DataFrame:
        """Table runs, those about the newest day first."""
        return newest_first(self.rows_of_runs(self._objects.names("runs")))

    def rows_of_runs(self, run_ids: Collection[str]) -> pl.DataFrame:
        """The rows of some runs: of a run, the last document that exists counts."""
        rows: dict[str, dict[str, Any]] = {}
        missing = list(run_ids)
        for kind in _KINDS:  # most runs are complete: one document of each is read
            names = [f"runs/{run_id}/{kind}" for run_id in missing]
            for name, document in self._documents.read_documents(names).items():
                rows[name.split("/")[1]] = row_of_document(document.content["run"])
            missing = [run_id for run_id in missing if run_id not in rows]
        return frame("runs", rows.values())

    def run_states(self, known: Mapping[str, str]) -> dict[str, str]:
        """The file that says last how a run is; in a bucket complete runs keep the state they had."""
        missing: Sequence[str] = self._objects.names("runs")
        states: dict[str, str] = {}
        for kind in _KINDS:
            names = {f"runs/{run_id}/{kind}": run_id for run_id in missing}
            if (found := self._objects.states(list(names))) is None:
                # A complete run is final, and one that begins anew leaves the index.
                return {run_id: known.get(run_id, UNKNOWN_STATE) for run_id in missing}
            states |= {names[name]: f"{kind} {state}" for name, state in found.items()}
            missing = [run_id for run_id in missing if run_id not in states]
        return states

    def settled_state(self, row: Mapping[str, Any], state: str) -> str:
        """The state that was asked for; in a bucket, whether the run is complete."""
        return COMPLETE if state == UNKNOWN_STATE and row["status"] == COMPLETE else state


def row_of_document(row: Mapping[str, Any]) -> dict[str, Any]:
    """The row of table runs in a document, whose times and days are ISO 8601 text."""
    times = {
        name: datetime.fromisoformat(row[name]).astimezone(UTC)
        for name in ("started_at", "finished_at")
        if row[name]
    }
    day = row.get("day")
    return {**row, **times, "day": None if day is None else date.fromisoformat(day)}
