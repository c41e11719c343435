"""What the store says of runs and their causes, without finding any."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import polars as pl

from assizes.judge.causes.edits import current_edits
from assizes.judge.errors import ConfigurationError
from assizes.judge.rows import COMPLETE
from assizes.tasks.store import Store
from assizes.tasks.store.cause_tables import RunCauses

LOOK_BACK: Final = 30
"""The most earlier runs of a name whose causes count."""

_LISTED: Final = 20  # causes that a message lists, at most


def earlier_runs(store: Store, run_id: str, most: int | None = None) -> list[str]:
    """The latest complete runs of the same name before a run (full id), the oldest first.

    At most so many, or (None) all.
    """
    runs = store.run_index()  # the newest first
    own = runs.row(by_predicate=pl.col("run_id") == run_id, named=True)
    same = runs.filter(pl.col("name") == own["name"], pl.col("status") == COMPLETE)["run_id"]
    earlier = same[(same.index_of(run_id) or 0) + 1 :]
    return earlier[:most].reverse().to_list()


def stored_causes(store: Store, run_id: str) -> RunCauses | None:
    """The causes of a run (full id) with the edits of people; None where they are not found yet.

    Raises:
        StoreError: the store cannot be reached.
    """
    return next(iter(stored_causes_of(store, [run_id]).values()), None)


def stored_causes_of(store: Store, run_ids: Iterable[str]) -> dict[str, RunCauses]:
    """The causes of those of some runs (full ids) where they are stored, with the edits of people."""
    edits = current_edits(store.people.rows("cause_edits"))
    if edits.kept:
        # scikit-learn, which this imports, is slow to import.
        from assizes.tasks.runs.edited_causes import EditedCauses

        edited = EditedCauses(store)
        read = {run_id: edited.read(run_id) for run_id in run_ids}
        return {run_id: causes for run_id, causes in read.items() if causes is not None}
    stored = {run_id: store.causes.read(run_id) for run_id in run_ids}
    return {
        run_id: RunCauses(
            edits.labelled(causes.causes), causes.case_causes, edits.named(causes.remembered)
        )
        for run_id, causes in stored.items()
        if causes is not None
    }


def causes_of_case(store: Store, run_id: str, case_id: str) -> list[tuple[str, str]]:
    """The id and the name of each stored cause that a case of a run (full id) shows."""
    found = stored_causes(store, run_id)
    if found is None:
        return []
    own = found.case_causes.filter(pl.col("case_id") == case_id).select("cause_id").unique()
    return found.causes.join(own, on="cause_id", how="semi").select("cause_id", "name").rows()


def cause_named(found: RunCauses, text: str) -> str:
    """The id of a cause that a text names: its id, the beginning of one id, or its whole name.

    Causes that only earlier runs had are among them.

    Raises:
        ConfigurationError: no cause is named so, or several are.
    """
    own = found.causes.select("cause_id", "name")
    earlier = found.remembered.select("cause_id", "name") if found.remembered.height else own
    causes = pl.concat([own, earlier]).unique("cause_id", keep="first", maintain_order=True)
    key, name = pl.col("cause_id"), pl.col("name")
    wanted = text.strip()
    is_named = name.str.to_lowercase() == wanted.lower()
    for is_meant in (key == wanted, is_named, key.str.starts_with(wanted)):
        ids = causes.filter(is_meant)["cause_id"].to_list() if wanted else []
        if len(ids) == 1:
            return str(ids[0])
        if ids:
            raise ConfigurationError(f"cause {wanted!r} may be {', '.join(ids)}; give an id")
    known = [f"{cause_id} ({name})" for cause_id, name in own.head(_LISTED).iter_rows()]
    more = f" and {own.height - _LISTED} more" if own.height > _LISTED else ""
    raise ConfigurationError(
        f"no cause is named {wanted!r}; the run has {', '.join(known) or 'none'}{more}"
    )


def unexplained_cases(store: Store, run_id: str, causes: RunCauses) -> int:
    """The number of failed cases of a run that show no cause."""
    failed = store.scan(run_id, "cases").filter(pl.col("passed").eq(other=False))
    failed_ids = failed.select(pl.col("case_id").unique()).collect()["case_id"]
    return int((~failed_ids.is_in(causes.case_causes["case_id"].implode())).sum())
