"""The causes of a run as rows of tables `causes` and `case_causes`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import polars as pl

from assizes.judge.causes.identity import FoundCauses
from assizes.judge.causes.naming import cause_name, name_of_code, typical_failures
from assizes.judge.causes.presence import CauseChange, JudgedCases, cause_changes
from assizes.judge.causes.reason_space import plain_reason
from assizes.judge.rows import CAUSE_TABLES

EXAMPLES: Final = 5
"""The most cases that a cause names as those which show it best."""

MERGED: Final = "merged"
"""The state of a cause that turned out to be an older one."""


class RunWithCauses(NamedTuple):
    """A run, its judged cases, and its failures with their causes."""

    run_id: str
    cases: JudgedCases
    failures: pl.DataFrame  # with the columns `FAILURES` and `cause_id`


class KnownCause(NamedTuple):
    """What earlier runs say about a cause."""

    name: str
    first_run: str  # the id of the first run that had it


def cause_rows(
    run: RunWithCauses,
    found: FoundCauses,
    baseline: RunWithCauses | None,
    known: Mapping[str, KnownCause],
    alpha: float,
) -> pl.DataFrame:
    """Rows of table causes, those first that take most points.

    A row stands for each cause of the run, for each cause that only the baseline has, and for each
    known cause that turned out to be another one. `alpha` is that of `cause_changes`.
    """
    changes = _changes(run, found, baseline, alpha)
    texts = found.failures.select("cause_id", "code", plain_reason().alias("text"))
    taken = {cause.name for cause in known.values()}
    rows = []
    for cause_id, change in changes.items():
        members = found.failures.filter(pl.col("cause_id") == cause_id)
        name = known[cause_id].name if cause_id in known else None
        if name is None:
            is_own = texts["cause_id"].eq_missing(cause_id)
            own, others = (texts.filter(side) for side in (is_own, ~is_own))
            name = name_of_code(own["code"], others["code"], taken) or cause_name(
                own["text"].to_list(), others["text"].to_list(), taken
            )
            taken.add(name)
        first_run = known[cause_id].first_run if cause_id in known else run.run_id
        identity = {"cause_id": cause_id, "name": name, "first_run": first_run}
        rows.append(_row(run, members, change) | identity)
    rows += [
        {"cause_id": younger, "merged_into": older, "state": MERGED, "cases": 0}
        | known[younger]._asdict()
        for younger, older in sorted(found.merged.items())
    ]
    named = pl.DataFrame(
        [{"run_id": run.run_id, "baseline": baseline and baseline.run_id} | row for row in rows],
        schema=CAUSE_TABLES["causes"],
        orient="row",
    )
    return named.sort("points", "share", "cause_id", descending=True, nulls_last=True)


def _changes(
    run: RunWithCauses, found: FoundCauses, baseline: RunWithCauses | None, alpha: float
) -> dict[str, CauseChange]:
    """What became of each cause; a run in which nothing was judged says nothing of any."""
    if run.cases.ids.is_empty():
        return {}
    if baseline is not None and baseline.cases.ids.is_empty():
        baseline = None
    before = pl.DataFrame(schema=found.failures.schema)
    if baseline is not None:
        before = baseline.failures.with_columns(pl.col("cause_id").replace(dict(found.merged)))
    ids = pl.concat([found.failures["cause_id"], before["cause_id"]]).drop_nulls().unique().sort()
    return cause_changes(
        _presence(run.cases, found.failures, ids.to_list()),
        _presence(baseline.cases, before, ids.to_list()) if baseline else {},
        (run.cases.ids.to_list(), baseline.cases.ids.to_list()) if baseline else None,
        alpha,
    )


def _presence(cases: JudgedCases, failures: pl.DataFrame, ids: Sequence[str]) -> dict[str, Any]:
    by_cause = failures.partition_by("cause_id", as_dict=True)
    nobody = failures.clear()
    return {cause_id: cases.presence(by_cause.get((cause_id,), nobody)) for cause_id in ids}


def _row(run: RunWithCauses, members: pl.DataFrame, change: CauseChange) -> dict[str, Any]:
    typical = typical_failures(members)
    examples = typical["case_id"].unique(maintain_order=True).head(EXAMPLES).to_list()
    low, high = change.span or (None, None)
    change_low, change_high = change.change or (None, None)
    return {
        "state": change.state,
        "cases": members["case_id"].n_unique(),
        "share": change.share,
        "share_low": low,
        "share_high": high,
        "points": float(members["points"].sum()) / run.cases.executions,
        "baseline_share": change.baseline_share,
        "change_low": change_low,
        "change_high": change_high,
        "p_value": change.p_value,
        "sentence": typical["reason"].first() or "",
        "examples": examples,
    }
