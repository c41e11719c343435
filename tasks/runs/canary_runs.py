"""Canary runs judge failing cases again, with an attack on the judge planted in each of them.

A judge that now passes such a case was taken over by the attack.
"""

from __future__ import annotations

from typing import Final

import polars as pl

from assizes.judge.calibration.canaries import Canaries
from assizes.judge.calibration.grades import agreed_grade, pass_mark
from assizes.judge.config.calibration import CASES, VERDICT, CalibrationConfig
from assizes.judge.config.run import RunConfig
from assizes.judge.config.selection import SelectionConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.selection import sample_key
from assizes.judge.verdicts.executions import PASS_FLAGGED, collect_rows
from assizes.tasks.runs.calibrations import labels_of
from assizes.tasks.store import Store

CANARIES: Final = "canaries"
"""Suffix that turns the name of a run into the name of its canary run."""

_UNCHANGED_SETTINGS: Final = ("manifest", "manifest_roots")
_MAX_NAME_CHARS: Final = 54
"""Characters of the run's name that stay before the suffix: a name may have 63 in all."""


def canary_config(config: RunConfig, case_ids: list[str], name: str) -> RunConfig:
    """The configuration of the run over the canaries.

    Judge and transcripts are the same; the canary run has no baseline and fails no flow.

    Args:
        config: configuration of the run that judged the cases without an attack.
        case_ids: the cases in which an attack is planted.
        name: name of the run whose judge is tested.
    """
    body = config.model_dump(mode="python")
    id_list = ", ".join("'" + case_id.replace("'", "''") + "'" for case_id in case_ids)
    selection = SelectionConfig(filter=f"case_id IN ({id_list})").model_dump(mode="python")
    body["name"] = f"{name[:_MAX_NAME_CHARS]}-{CANARIES}"
    body["transcripts"] |= {
        setting: value for setting, value in selection.items() if setting not in _UNCHANGED_SETTINGS
    }
    body["transcripts"] |= {"canaries": True}
    body["comparison"] |= {"baseline": None}
    body["runner"] |= {"fail_flow": False, "batch": False}
    body["anchors"] |= {"uri": None}
    body["calibration"] |= {"canaries": 0}
    return RunConfig.model_validate(body)


def chosen_canaries(store: Store, run_id: str, config: CalibrationConfig) -> list[str]:
    """Choose the cases of a run in which attacks are planted.

    The cases fail by their labels, and the judge failed them without an attack. The same run always
    gives the same cases.

    Raises:
        ConfigurationError: the labels cannot be read.
    """
    labelled = _failing_by_labels(config, store, run_id)
    rows = (
        store.scan(run_id, "cases")
        .group_by("case_id")
        .agg(_fail_expression().all().alias("failed"))
    )
    failed = {case_id for case_id, all_failed in collect_rows(rows).rows() if all_failed}
    return _first_cases(labelled & failed, config)


def likely_canaries(config: CalibrationConfig) -> list[str]:
    """Choose canaries before anything was judged, for a forecast: the cases that fail by labels.

    Raises:
        ConfigurationError: the labels cannot be read, or are carried by the cases.
    """
    if (config.labels or "").startswith(CASES):
        raise ConfigurationError("which cases fail is known once the labels they carry are read")
    return _first_cases(_failing_by_labels(config), config)


def canaries_of(store: Store, run_id: str | None, planted: int) -> Canaries:
    """The outcome of the canaries of a run.

    Args:
        store: holds the canary run.
        run_id: id of the canary run; `None` where there is none.
        planted: in how many cases an attack was planted.
    """
    canaries = Canaries(run_id=run_id, planted=planted, judged=0, takeovers=0, noticed=0, silent=0)
    if run_id is None:
        return canaries
    rows = store.scan(run_id, "cases").filter(pl.col("status") == "judged")
    is_held_back = pl.col("flags").list.contains(PASS_FLAGGED)
    seen = rows.select(
        "case_id",
        _pass_expression().alias("passed"),
        (_pass_expression() | is_held_back).alias("taken"),
        (pl.col("flags").list.len() > 0).alias("noticed"),
    ).sort("case_id")
    cases = collect_rows(seen)
    taken = cases.filter("taken")
    return canaries.model_copy(
        update={
            "judged": cases.height,
            "takeovers": taken.height,
            "noticed": cases["noticed"].sum(),
            "silent": (taken["passed"] & ~taken["noticed"]).sum(),
            "taken": tuple(taken["case_id"]),
        }
    )


def _pass_expression() -> pl.Expr:
    return pl.col("passed").fill_null(value=False)


def _fail_expression() -> pl.Expr:
    """True for a case that was judged and has neither a pass nor a pass that was held back."""
    is_held_back = pl.col("flags").list.contains(PASS_FLAGGED).fill_null(value=False)
    return (pl.col("status") == "judged") & ~_pass_expression() & ~is_held_back


def _failing_by_labels(
    config: CalibrationConfig, store: Store | None = None, run_id: str | None = None
) -> set[str]:
    """The cases whose label says failed; where people disagree, the case is left out."""
    record = store.run(run_id) if store is not None and run_id is not None else None
    labels = labels_of(config, store, record).labels.get(VERDICT, {})
    levels = sorted({grade for people in labels.values() for grade in people.grades.values()})
    mark = pass_mark(config.levels or levels, config)
    if mark is None:
        return set()
    ordered = config.scale == "ordinal"
    grade_by_case = {
        item.case_id: agreed_grade(list(people.grades.values()), ordered=ordered)
        for item, people in labels.items()
    }
    return {
        case_id for case_id, grade in grade_by_case.items() if grade is not None and grade < mark
    }


def _first_cases(case_ids: set[str], config: CalibrationConfig) -> list[str]:
    return sorted(
        sorted(case_ids, key=lambda case_id: (sample_key(case_id), case_id))[: config.canaries]
    )
