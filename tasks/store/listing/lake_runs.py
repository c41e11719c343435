"""The documents of a lake that say how its runs began and ended, read for many runs at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

import polars as pl

from assizes.judge.rows import COMPLETE, frame
from assizes.tasks.store.listing.kept_folders import folder_mark
from assizes.tasks.store.listing.run_index import UNKNOWN_STATE
from assizes.tasks.store.manifest import SUCCESS, Documents
from assizes.tasks.store.objects import Objects
from assizes.tasks.store.record import newest_first

ENDS: Final = (SUCCESS, "STOPPED.json")
"""The documents that end a run; the first that exists counts."""

BEGUN: Final = "run.json"
"""The document of a run that begins."""

_KINDS: Final = (*ENDS, BEGUN)
_FOLDER: Final = "runs"


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

    def newest_generations(self, run_ids: Iterable[str]) -> dict[str, str]:
        """The name of the newest generation of each of some runs; empty where there is none."""
        folders = {run_id: f"runs/{run_id}/generations" for run_id in run_ids}
        return {
            run_id: max(self._objects.names(folder), default="")
            for run_id, folder in folders.items()
        }

    def runs_mark(self) -> str | None:
        """The state of the folder of runs; a run that was complete is final, whatever it is."""
        return folder_mark(self._objects, _FOLDER)

    def run_states(
        self, known: Mapping[str, str], among: Sequence[str] | None = None
    ) -> dict[str, str]:
        """The file that says last how a run is; in a bucket complete runs keep the state they had."""
        run_ids = self._objects.names(_FOLDER) if among is None else among
        if self._objects.states([]) is None:
            # A complete run is final, and one that begins anew leaves the index.
            return {run_id: known.get(run_id, UNKNOWN_STATE) for run_id in run_ids}
        # A run that was planned has its folder, and begins in it later.
        return dict.fromkeys(run_ids, UNKNOWN_STATE) | self._file_states(run_ids)

    def _file_states(self, run_ids: Sequence[str]) -> dict[str, str]:
        states: dict[str, str] = {}
        for kind in _KINDS:
            names = {f"runs/{run_id}/{kind}": run_id for run_id in run_ids if run_id not in states}
            file_states = self._objects.states(list(names)) or {}
            states |= {names[name]: f"{kind} {state}" for name, state in file_states.items()}
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
