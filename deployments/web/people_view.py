"""Annotations as pages show them: beside the finding, the turn or the run that they are about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import polars as pl

from assizes.deployments.web.people_schemas import TEXT_CHARS
from assizes.deployments.web.sessions import person_name
from assizes.tasks.reports.formatting import clean, clean_line

_KINDS: Final = {
    "override": "overrides",
    "finding_wrong": "wrong",
    "code": "codes",
    "comment": "comments",
}
_NAME_CHARS: Final = 64


def annotate_case(executions: Sequence[dict[str, Any]], rows: pl.DataFrame) -> None:
    """Put the current annotations of a case beside its executions, their findings and turns.

    Each execution gets `people`: lists `overrides`, `wrong`, `codes` and `comments`; each finding `wrong`,
    and each turn `comments`.
    """
    entries = [_entry(row) for row in rows.iter_rows(named=True)]
    for execution in executions:
        number = execution["case"]["repetition"]
        mine = [entry for entry in entries if entry["repetition"] == number]
        people = {
            name: [entry for entry in mine if entry["kind"] == kind]
            for kind, name in _KINDS.items()
        }
        execution["people"] = people
        for finding in execution["findings"]:
            finding["wrong"] = [
                entry for entry in people["wrong"] if entry["metric"] == finding["metric"]
            ]
        for turn in execution["turns"]:
            turn["comments"] = _at_turn(people["comments"], turn["number"])


def comments_of(rows: pl.DataFrame) -> list[dict[str, Any]]:
    """The comments among the current annotations of a case."""
    comments = rows.filter(pl.col("kind") == "comment")
    return [_entry(row) for row in comments.iter_rows(named=True)]


def said_label(row: Mapping[str, Any], word: str) -> dict[str, Any]:
    """A label of a person for display; `word` is its value in words."""
    return {
        "author": _shown_name(row["rater"]),
        "role": row["role"],
        "word": word,
        "text": clean(row["note"], TEXT_CHARS),
        "at": row["at"],
    }


def _at_turn(comments: Iterable[dict[str, Any]], number: int) -> list[dict[str, Any]]:
    return [entry for entry in comments if entry["turn"] == number]


def _entry(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        **{name: row[name] for name in ("annotation_id", "repetition", "kind", "turn", "at")},
        "metric": row["metric"],
        "word": {1.0: "pass", 0.0: "fail"}.get(row["value"], ""),
        "text": clean(row["text"], TEXT_CHARS),
        "author": _shown_name(row["author"]),
    }


def _shown_name(name: str) -> str:
    """A name for display; that of a file can be any text, and is cleaned."""
    return name if person_name(name) == name else clean_line(name, _NAME_CHARS)


def notes_of_runs(rows: pl.DataFrame) -> dict[str, dict[str, str]]:
    """The note and the tags of each run that has some, from the current annotations."""
    notes: dict[str, dict[str, str]] = {}
    about_runs = rows.filter(pl.col("kind").is_in(["note", "tags"])).sort("at", "annotation_id")
    for row in about_runs.iter_rows(named=True):
        notes.setdefault(row["run_id"], {"note": "", "tags": ""})[row["kind"]] = clean(
            row["text"], TEXT_CHARS
        )
    return notes
