"""`assizes causes`: what the failures of a run have in common, and what became of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assizes.deployments.commands import output
from assizes.deployments.commands.stores import opened_store
from assizes.tasks.runs.stored_causes import unexplained_cases

COLUMNS = ("cause", "name", "now", "#cases", "#share %", "95 %", "#before %", "#points")
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
        rows = found.causes.to_dicts()
        unexplained = unexplained_cases(store, run_id, found)
    if as_json:
        output.print_json({"causes": rows, "failed_cases_without_cause": unexplained})
        return
    if not rows:
        output.print_line("no cause: no three cases failed for the same reason")
    else:
        output.print_table("", COLUMNS, map(_cells, rows))
        output.print_lines(
            f"{row['name']}: {row['sentence']} ({_examples(row['examples'])})"
            for row in rows
            if row["sentence"]
        )
    if unexplained:
        output.print_line(f"{unexplained} failed cases are in no cause")


def _cells(row: dict[str, Any]) -> list[object]:
    interval = None
    if row["share_low"] is not None:
        interval = f"{100 * row['share_low']:.1f}..{100 * row['share_high']:.1f}"
    state = row["state"].replace("_", " ")
    if row["merged_into"] is not None:
        state = f"merged into {row['merged_into']}"
    shares = (row["share"], row["baseline_share"])
    now, before = (None if share is None else 100 * share for share in shares)
    return [row["cause_id"], row["name"], state, row["cases"], now, interval, before, row["points"]]


def _examples(case_ids: list[str]) -> str:
    return "cases " + ", ".join(case_ids[:SHOWN_EXAMPLES])
