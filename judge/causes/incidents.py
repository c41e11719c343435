"""Incidents of causes: a cause that came or grew, until it is gone or has stayed away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import polars as pl

QUIET_RUNS: Final = 3
"""Runs in a row without a case that shows a cause after which its incident is over."""

SURE: Final = 0.005
"""The largest p-value of a change that opens an incident.

People are woken by an incident, and a report is read anyway. So at most one night in two hundred of
an agent that did not change opens one; the states of a report go by a larger value.
"""

_OPENING: Final = ("new", "worse")
_ENDING: Final = ("gone", "better")

IncidentState = Literal["new", "persisting", "resolved"]


class CauseIncident(NamedTuple):
    """A cause that surely came or grew in some run, and has not surely gone since."""

    cause_id: str
    name: str
    state: IncidentState  # at the last run
    opened_run: str
    runs: int  # from the opening to the last run, both counted
    share: float  # of the judged cases of the last run that show it, 0..1

    def line(self) -> str:
        """The incident as one line: its cause, since when it is open, and how many cases show it."""
        since = f"since run {self.opened_run}, {self.runs} runs"
        shown = f"{100 * self.share:.1f} % of the cases"
        return f"{self.state.upper()} cause [{self.cause_id}]: {self.name}; {since}; {shown}"


def cause_incidents(causes: pl.DataFrame, run_ids: Sequence[str]) -> list[CauseIncident]:
    """The incidents of causes that are open at the last run, or resolved by it, by cause id.

    An incident opens with a run that calls its cause `new` or `worse` with a p-value of at most
    `SURE`, which is adjusted for all causes of the run. It ends with one that calls
    it `gone` or `better`, and after `QUIET_RUNS` runs that do not show it. An incident of a cause
    that turned out to be an older one ends without a word.

    Args:
        causes: rows of table causes, of these runs.
        run_ids: the runs of one name, the oldest first.
    """
    by_cause = causes.sort("cause_id").partition_by("cause_id", maintain_order=True)
    return [incident for rows in by_cause for incident in _incident(rows, run_ids)]


def _incident(rows: pl.DataFrame, run_ids: Sequence[str]) -> Iterator[CauseIncident]:
    by_run = {row["run_id"]: row for row in rows.iter_rows(named=True)}
    opened: int | None = None
    state: IncidentState | None = None
    quiet = 0
    for place, run_id in enumerate(run_ids):
        row = by_run.get(run_id)
        quiet = 0 if row is not None and row["cases"] else quiet + 1
        if state == "resolved":
            opened = state = None
        if row is not None and row["merged_into"] is not None:
            opened = state = None
        elif opened is None and row is not None and _opens(row):
            opened, state = place, "new"
        elif opened is not None:
            is_over = (row is not None and row["state"] in _ENDING) or quiet >= QUIET_RUNS
            state = "resolved" if is_over else "persisting"
    if opened is None or state is None:
        return
    last = by_run.get(run_ids[-1])
    yield CauseIncident(
        cause_id=rows["cause_id"][0],
        name=rows["name"][-1],
        state=state,
        opened_run=run_ids[opened],
        runs=len(run_ids) - opened,
        share=0.0 if last is None else last["share"] or 0.0,
    )


def _opens(row: Mapping[str, Any]) -> bool:
    is_sure = row["p_value"] is not None and row["p_value"] <= SURE
    return is_sure and row["state"] in _OPENING
