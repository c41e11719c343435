"""Stores what a person decides about a cause, once it has been checked against the causes of a run."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from uuid import uuid4

import polars as pl

from assizes.judge.causes.edits import (
    WITHDRAWN,
    CauseEdit,
    current_edits,
    edits_of,
    is_circle,
)
from assizes.judge.errors import ConfigurationError
from assizes.tasks.runs.stored_causes import cause_named
from assizes.tasks.store import Store
from assizes.tasks.store.cause_tables import RunCauses

TABLE: Final = "cause_edits"
NAME_CHARS: Final = 100
"""Characters of the name of a cause and of its owner, at most."""

SENTENCE_CHARS: Final = 300
"""Characters of the sentence about a cause, at most."""


def add_cause_edit(store: Store, run_id: str, causes: RunCauses, edit: CauseEdit) -> dict[str, Any]:
    """Store an edit of a cause of a run (full id); it counts from now on. Returns it.

    Raises:
        ConfigurationError: no cause is named so, or the edit does not fit the causes.
        StoreError: the edit cannot be stored.
    """
    cause_id = cause_named(causes, edit.cause)
    edit_id = edit.edit_id or uuid4().hex
    row = {
        **{"edit_id": edit_id, "run_id": run_id, "cause_id": cause_id, "case_id": ""},
        **{"kind": edit.kind, "value": "", "author": edit.author, "at": datetime.now(UTC)},
        **{"note": edit.note, "supersedes": None},
    }
    rows = [row]
    match edit.kind:
        case "rename":
            rows = [row | {"value": _free_name(causes, cause_id, edit.value)}]
        case "describe":
            rows = [row | {"value": _line("a sentence", edit.value, SENTENCE_CHARS)}]
        case "assign":
            rows = [row | {"value": _line("an owner", edit.value)}]
        case "merge":
            rows = [row | {"value": _target(store, causes, cause_id, edit.value)}]
        case "split":
            rows = _split_rows(causes, row, edit)
    store.people.add(TABLE, rows)
    return {"cause_id": cause_id, **_entry(store, edit_id)}


def undo_cause_edit(store: Store, edit_id: str, author: str) -> dict[str, Any]:
    """Undo an edit, named by its id or the beginning of it. Returns it.

    Raises:
        ConfigurationError: no edit or several begin so, or it is undone already.
    """
    rows = store.people.rows(TABLE)
    begun = rows.filter(pl.col("edit_id").str.starts_with(edit_id), pl.col("kind") != WITHDRAWN)
    ids = begun["edit_id"].unique().to_list() if edit_id else []
    if len(ids) != 1:
        raise ConfigurationError(f"{len(ids)} edits of causes have an id that begins {edit_id!r}")
    if ids[0] in rows["supersedes"].drop_nulls():
        raise ConfigurationError(f"edit {ids[0]} is undone already; make the edit again")
    undone = begun.row(0, named=True)
    withdrawal = undone | {
        **{"edit_id": uuid4().hex, "case_id": "", "kind": WITHDRAWN, "supersedes": ids[0]},
        **{"author": author, "at": datetime.now(UTC), "note": ""},
    }
    store.people.add(TABLE, [withdrawal])
    return _entry(store, ids[0])


def cause_history(store: Store, cause_ids: Sequence[str] | None) -> list[dict[str, Any]]:
    """The edits of some causes, or (None) of all, in order of time; withdrawals are not among them."""
    rows = store.people.rows(TABLE)
    ids = rows["cause_id"].unique().to_list() if cause_ids is None else cause_ids
    return [entry for entry in edits_of(rows, ids) if entry["kind"] != WITHDRAWN]


def _entry(store: Store, edit_id: str) -> dict[str, Any]:
    return next(entry for entry in cause_history(store, None) if entry["edit_id"] == edit_id)


def _line(what: str, text: str, most: int = NAME_CHARS) -> str:
    line = " ".join(text.split())
    if len(line) > most:
        raise ConfigurationError(f"{what} has at most {most} characters")
    return line


def _free_name(causes: RunCauses, cause_id: str, text: str) -> str:
    name = _line("a name", text)
    if not name:
        raise ConfigurationError("a cause has a name; give one")
    of_others = causes.causes.filter(pl.col("cause_id") != cause_id)
    if name in of_others["name"]:
        raise ConfigurationError(f"another cause of this run is named {name!r}; merge the two?")
    return name


def _target(store: Store, causes: RunCauses, cause_id: str, text: str) -> str:
    into = cause_named(causes, text)
    if is_circle(current_edits(store.people.rows(TABLE)), cause_id, into):
        raise ConfigurationError(
            f"cause {into} is {cause_id} already; a merge cannot lead back to the cause itself"
        )
    return into


def _split_rows(causes: RunCauses, row: dict[str, Any], edit: CauseEdit) -> list[dict[str, Any]]:
    """A row for each case, and one that names the new cause."""
    shown = causes.case_causes.filter(pl.col("cause_id") == row["cause_id"])["case_id"].unique()
    chosen = sorted(set(edit.case_ids))
    if strange := [case_id for case_id in chosen if case_id not in shown]:
        raise ConfigurationError(
            f"case {strange[0]!r} does not show cause {row['cause_id']} in run {row['run_id']}"
        )
    if not 0 < len(chosen) < shown.len():
        raise ConfigurationError(
            f"a split takes some of the {shown.len()} cases of the cause in this run, and leaves some"
        )
    part = _digest(row["edit_id"], 5)
    name = _free_name(causes, part, edit.value)
    naming: dict[str, Any] = {
        "edit_id": _digest(f"{row['edit_id']} name", 16),
        "cause_id": part,
        "value": name,
    }
    naming["at"] = row["at"] + timedelta(microseconds=1)  # listed behind the split
    cases = [row | {"case_id": case_id, "value": part} for case_id in chosen]
    return [*cases, row | naming | {"kind": "rename"}]


def _digest(text: str, size: int) -> str:
    return hashlib.blake2b(text.encode(), digest_size=size).hexdigest()
