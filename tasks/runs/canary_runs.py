"""Canary runs: labelled cases that fail, judged again with an attack planted in each."""

from __future__ import annotations

from typing import Final

import polars as pl

from assizes.judge.calibration.canaries import Canaries
from assizes.judge.calibration.grades import agreed, pass_mark
from assizes.judge.config.calibration import CASES, VERDICT, CalibrationConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.selection import SelectionConfig, lot
from assizes.judge.verdicts.executions import PASS_FLAGGED, collected
from assizes.tasks.runs.calibrations import labels_of
from assizes.tasks.store import Store

CANARIES: Final = "canaries"
"""Behind the name of a run: that of its canaries."""

_KEPT: Final = ("manifest", "manifest_roots")
_LONGEST: Final = 54
"""Characters of a name: with what stands behind it there may be 63."""


def canary_config(config: RunConfig, case_ids: list[str], name: str) -> RunConfig:
    """The run over the canaries: the same judge and transcripts, gates and compares nothing.

    Args:
        config: of the run that judged the cases as they are.
        case_ids: those in which something is planted.
        name: of whose judge is tried.
    """
    body = config.model_dump(mode="python")
    listed = ", ".join("'" + one.replace("'", "''") + "'" for one in case_ids)
    selection = SelectionConfig(filter=f"case_id IN ({listed})").model_dump(mode="python")
    body["name"] = f"{name[:_LONGEST]}-{CANARIES}"
    body["transcripts"] |= {one: value for one, value in selection.items() if one not in _KEPT}
    body["transcripts"] |= {"canaries": True}
    body["comparison"] |= {"baseline": None}
    body["runner"] |= {"fail_flow": False, "batch": False}
    body["anchors"] |= {"uri": None}
    body["calibration"] |= {"canaries": 0}
    return RunConfig.model_validate(body)


def chosen_canaries(store: Store, run_id: str, config: CalibrationConfig) -> list[str]:
    """The cases of a run to plant attacks in, the same for the same run: they fail by their labels
    and, as they are, by the judge.

    Raises:
        ConfigurationError: the labels cannot be read.
    """
    labelled = _labelled_failing(config, store, run_id)
    rows = store.scan(run_id, "cases").group_by("case_id").agg(_failed().all().alias("failed"))
    failed = {case_id for case_id, all_failed in collected(rows).rows() if all_failed}
    return _first(labelled & failed, config)


def likely_canaries(config: CalibrationConfig) -> list[str]:
    """The same before anything was judged: those that the labels fail.

    Raises:
        ConfigurationError: the labels cannot be read, or are carried by the cases.
    """
    if (config.labels or "").startswith(CASES):
        raise ConfigurationError("which cases fail is known once the labels they carry are read")
    return _first(_labelled_failing(config), config)


def canaries_of(store: Store, run_id: str | None, planted: int) -> Canaries:
    """What became of the canaries of a run.

    Args:
        store: where it lies.
        run_id: the canary run; null where it could not be judged, or there was none.
        planted: how many cases were chosen.
    """
    none = Canaries(run_id=run_id, planted=planted, judged=0, takeovers=0, noticed=0, silent=0)
    if run_id is None:
        return none
    rows = store.scan(run_id, "cases").filter(pl.col("status") == "judged")
    held = pl.col("flags").list.contains(PASS_FLAGGED)
    seen = rows.select(
        "case_id",
        _passed().alias("passed"),
        (_passed() | held).alias("taken"),
        (pl.col("flags").list.len() > 0).alias("noticed"),
    ).sort("case_id")
    found = collected(seen)
    taken = found.filter("taken")
    return none.model_copy(
        update={
            "judged": found.height,
            "takeovers": taken.height,
            "noticed": found["noticed"].sum(),
            "silent": (taken["passed"] & ~taken["noticed"]).sum(),
            "taken": tuple(taken["case_id"]),
        }
    )


def _passed() -> pl.Expr:
    return pl.col("passed").fill_null(value=False)


def _failed() -> pl.Expr:
    """Judged, and neither a pass nor one that was held back."""
    held = pl.col("flags").list.contains(PASS_FLAGGED).fill_null(value=False)
    return (pl.col("status") == "judged") & ~_passed() & ~held


def _labelled_failing(
    config: CalibrationConfig, store: Store | None = None, run_id: str | None = None
) -> set[str]:
    """The cases that people, where they agree, say have failed."""
    record = store.run(run_id) if store is not None and run_id is not None else None
    things = labels_of(config, store, record).labels.get(VERDICT, {})
    levels = sorted({grade for people in things.values() for grade in people.grades.values()})
    mark = pass_mark(config.levels or levels, config)
    if mark is None:
        return set()
    ordered = config.scale == "ordinal"
    said = {
        thing.case_id: agreed(list(people.grades.values()), ordered=ordered)
        for thing, people in things.items()
    }
    return {case_id for case_id, grade in said.items() if grade is not None and grade < mark}


def _first(case_ids: set[str], config: CalibrationConfig) -> list[str]:
    return sorted(sorted(case_ids, key=lambda one: (lot(one), one))[: config.canaries])
