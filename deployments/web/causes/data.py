"""What the pages and operations about causes read of a store, and how they write to it."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import polars as pl

from assizes.deployments.web.causes.schemas import EditBody
from assizes.judge.causes.edits import WITHDRAWN
from assizes.judge.causes.failures import failures
from assizes.judge.errors import ConfigurationError, UnknownCase
from assizes.tasks.reports.formatting import LINE_CHARS, clean_line, name_of, writer_of
from assizes.tasks.runs.edits.cause_edits import add_cause_edit, undo_cause_edit
from assizes.tasks.runs.stored_causes import (
    cause_named,
    earlier_runs,
    stored_causes,
    stored_causes_of,
)
from assizes.tasks.store import Store
from assizes.tasks.store.cause_tables import RunCauses

RUNS_SHOWN: Final = 14  # the runs over which the share of a cause is drawn, at most
CASES_SHOWN: Final = 200  # cases of a cause that a page lists, at most


class CausePoint(NamedTuple):
    """The share of the judged cases of one run that show a cause, 0..1."""

    run_id: str
    at: Any  # the day that the run is about, or the time at which it began
    cases: int
    share: float
    low: float | None
    high: float | None
    state: str


def known_causes(store: Store, run_id: str) -> RunCauses:
    """The stored causes of a run (full id).

    Raises:
        UnknownCase: they are not found yet.
    """
    found = stored_causes(store, run_id)
    if found is None:
        raise UnknownCase(
            f"the causes of run {run_id} are not found yet; `assizes causes {run_id}` finds them"
        )
    return found


def cause_id_of(found: RunCauses, text: str) -> str:
    """The id of a cause as `cause_named` finds it; `UnknownCase` where none or several are meant."""
    try:
        return cause_named(found, text)
    except ConfigurationError as error:
        raise UnknownCase(str(error)) from None


def write_edit(store: Store, run_id: str, cause: str, body: EditBody) -> dict[str, Any]:
    """Store an edit of a cause, or undo one. Returns it.

    Raises:
        UnknownRun: the store has no such run.
        UnknownCase: the causes of the run are not found yet, or none is named so.
        ConfigurationError: the edit does not fit the causes.
    """
    if body.kind == WITHDRAWN:
        return undo_cause_edit(store, body.value, body.author)
    full_id = store.full_id(run_id)
    found = known_causes(store, full_id)
    return add_cause_edit(store, full_id, found, body.edit(cause_id_of(found, cause)))


def cause_points(store: Store, run_id: str) -> dict[str, list[CausePoint]]:
    """The share of each cause of a run (full id) in it and in runs before, the oldest first."""
    run_ids = [*earlier_runs(store, run_id, RUNS_SHOWN - 1), run_id]
    day = pl.col("day").cast(pl.Datetime("us", "UTC"))
    runs = store.run_index().select("run_id", pl.coalesce(day, "started_at"))
    times = dict(runs.iter_rows())
    stored = stored_causes_of(store, run_ids)
    rows = {name: _by_cause(causes.causes) for name, causes in stored.items()}
    return {
        cause_id: [_point(name, times[name], found.get(cause_id)) for name, found in rows.items()]
        for cause_id in rows.get(run_id, {})
    }


def cases_of_cause(store: Store, run_id: str, found: RunCauses, cause_id: str) -> pl.DataFrame:
    """The first cases of a run that show a cause: `case_id`, `repetition`, `metric` and `reason`."""
    key = ("case_id", "repetition", "metric")
    own = found.case_causes.filter(pl.col("cause_id") == cause_id).sort(*key)
    ids = own["case_id"].unique(maintain_order=True).head(CASES_SHOWN).to_list()
    said = failures(store.rows_of_cases(run_id, "scores", ids).lazy()).select(*key, "reason")
    shown = own.filter(pl.col("case_id").is_in(ids))
    joined = shown.join(said.unique(key, keep="first"), on=key, how="left", maintain_order="left")
    return joined.select(
        *key,
        pl.col("reason")
        .fill_null("")
        .map_elements(lambda text: clean_line(text, LINE_CHARS), return_dtype=pl.String),
    )


def shown_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row of table causes for a page, whose texts come from judges and people."""
    state = row["state"].replace("_", " ")
    return row | {
        "name": name_of(row["name"]),
        "owner": name_of(row["owner"] or ""),
        "sentence": clean_line(row["sentence"] or "", LINE_CHARS),
        "described_by": writer_of(row["described_by"]),
        "word": f"{state}, muted" if row["muted"] else state,
    }


def _by_cause(causes: pl.DataFrame) -> dict[str, dict[str, Any]]:
    return {row["cause_id"]: row for row in causes.iter_rows(named=True)}


def _point(run_id: str, at: Any, row: dict[str, Any] | None) -> CausePoint:
    if row is None or row["share"] is None:
        return CausePoint(run_id, at, 0, 0.0, None, None, "")
    state = row["state"].replace("_", " ")
    return CausePoint(
        run_id, at, row["cases"], row["share"], row["share_low"], row["share_high"], state
    )
