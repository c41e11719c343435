"""`assizes causes`: what the failures of a run have in common, and what became of it."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assizes.deployments.commands import output
from assizes.deployments.commands.stores import opened_store
from assizes.judge.causes.edits import CauseEdit
from assizes.judge.config.run import RunConfig
from assizes.tasks.runs.stored_causes import cause_named, unexplained_cases

COLUMNS = ("cause", "name", "now", "#cases", "#share %", "95 %", "#before %", "#points", "owner")
EDIT_COLUMNS = ("edit", "at", "by", "cause", "what", "value", "cases", "counts", "note")
SHOWN_EXAMPLES = 3


def show_causes(run_id: str, file: Path | None, uri: str | None, *, as_json: bool) -> None:
    """Print the causes of a run's failures; they are found first where they are not yet.

    Raises:
        UnknownRun: the store has no such run.
        ConfigurationError: the run is not complete.
    """
    # scikit-learn, which this imports, is slow to import.
    from assizes.tasks.runs.run_causes import causes_of_run

    with opened_store(file, uri) as store:
        found = causes_of_run(store, run_id)
        rows = [
            row | {"related": json.loads(row["related"] or "[]")} for row in found.causes.to_dicts()
        ]
        unexplained = unexplained_cases(store, run_id, found)
    if as_json:
        output.print_json({"causes": rows, "failed_cases_without_cause": unexplained})
        return
    if not rows:
        output.print_line("no cause: no three cases failed for the same reason")
    else:
        output.print_table("", COLUMNS, map(_cells, rows))
        output.print_lines(line for row in rows for line in _lines(row))
    if unexplained:
        output.print_line(f"{unexplained} failed cases are in no cause")


def edit_cause(
    run_id: str, edit: CauseEdit, file: Path | None, uri: str | None, *, as_json: bool
) -> None:
    """Store an edit of a cause, and print it.

    Raises:
        UnknownRun: the store has no such run.
        ConfigurationError: the run is not complete, or the edit does not fit its causes.
    """
    from assizes.tasks.runs.edits.cause_edits import add_cause_edit
    from assizes.tasks.runs.run_causes import causes_of_run

    with opened_store(file, uri) as store:
        causes = causes_of_run(store, run_id)
        entry = add_cause_edit(store, store.full_id(run_id), causes, edit)
    _print_edits([entry], as_json=as_json)


def name_and_print(config: RunConfig, run_id: str, *, as_json: bool) -> None:
    """Let the model of a configuration name the causes of a run, and print what it said.

    Raises:
        UnknownRun: the store has no such run.
        ConfigurationError: the run is not complete, or the model cannot be asked.
        OverBudget: the budget is spent.
    """
    from assizes.tasks.context.cause_names import name_causes
    from assizes.tasks.store import existing_store

    with existing_store(config.store) as store:
        named = asyncio.run(name_causes(config, store, run_id))
    if as_json:
        edits = [edit | {"at": edit["at"].isoformat()} for edit in named.edits]
        output.print_json(named._asdict() | {"edits": edits})
        return
    words = {"rename": "is named", "describe": "is described:", "merge": "is part of"}
    for edit in named.edits:
        output.print_line(f"{edit['cause_id']} {words[edit['kind']]} {edit['value']}")
        if edit["kind"] != "describe":  # a sentence rests on the reasons of the name
            output.print_lines(f"  because: {quote}" for quote in edit["quotes"])
    count = Counter(edit["kind"] for edit in named.edits)
    output.print_line(
        f"{count['rename']} of {named.asked} causes named, {count['merge']} merged; "
        f"{len(named.failed)} asks without a reply; spent: {named.cost_usd:.4f} USD"
    )


def undo_edit(edit_id: str, author: str, file: Path | None, uri: str | None) -> None:
    """Undo an edit of a cause, and print it."""
    from assizes.tasks.runs.edits.cause_edits import undo_cause_edit

    with opened_store(file, uri) as store:
        entry = undo_cause_edit(store, edit_id, author)
    _print_edits([entry], as_json=False)


def show_history(
    run_id: str, cause: str | None, file: Path | None, uri: str | None, *, as_json: bool
) -> None:
    """Print what people decided about one cause of a run, or about all causes that it knows."""
    from assizes.tasks.runs.edits.cause_edits import cause_history
    from assizes.tasks.runs.run_causes import causes_of_run

    with opened_store(file, uri) as store:
        found = causes_of_run(store, run_id)
        ids = [*found.causes["cause_id"], *found.remembered["cause_id"]]
        entries = cause_history(store, ids if cause is None else [cause_named(found, cause)])
    _print_edits(entries, as_json=as_json)


def _print_edits(entries: list[dict[str, Any]], *, as_json: bool) -> None:
    dated = [entry | {"at": entry["at"].isoformat()} for entry in entries]
    if as_json:
        output.print_json({"edits": dated})
        return
    rows = [
        (
            *(entry["edit_id"][:8], f"{entry['at']:%Y-%m-%d %H:%M}", entry["author"] or "-"),
            *(entry["cause_id"], entry["kind"], entry["value"], ", ".join(entry["case_ids"])),
            "undone" if entry["undone"] else "",
            entry["note"],
        )
        for entry in entries
    ]
    output.print_table("", EDIT_COLUMNS, rows)


def _cells(row: dict[str, Any]) -> list[object]:
    interval = None
    if row["share_low"] is not None:
        interval = f"{100 * row['share_low']:.1f}..{100 * row['share_high']:.1f}"
    state = row["state"].replace("_", " ")
    if row["merged_into"] is not None:
        state = f"merged into {row['merged_into']}"
    shares = (row["share"], row["baseline_share"])
    now, before = (None if share is None else 100 * share for share in shares)
    if row["muted"]:
        state = f"{state}, muted"
    numbers = (row["cases"], now, interval, before, row["points"])
    return [row["cause_id"], row["name"], state, *numbers, row["owner"]]


def _lines(row: dict[str, Any]) -> Iterator[str]:
    from assizes.judge.causes.origins import origin_line
    from assizes.tasks.reports.formatting import writer_of

    if row["sentence"]:
        more = _examples(row["examples"])
        if writer := writer_of(row["described_by"]):
            more = f"written by {writer}; {more}"
        yield f"{row['name']}: {row['sentence']} ({more})"
    for origin in row["related"]:
        yield f"{row['name']}: more often with {origin_line(origin)}"


def _examples(case_ids: list[str]) -> str:
    return "cases " + ", ".join(case_ids[:SHOWN_EXAMPLES])
