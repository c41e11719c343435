"""Numbers of a run corrected by the labels of people, and which labels count for them.

A label is of a case, not of a judge: after the judge has changed, the labels of the same run still
correct the new judge's values. A label of another run is of another transcript, so it is left out,
and so is one without a chance of being drawn: cases chosen by hand are no sample of the run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl

from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.labelled_cases import LabelledCases
from assizes.judge.statistics.prediction_powered import (
    MIN_LABELS,
    CorrectedEstimate,
    corrected_difference,
    corrected_mean,
)

OTHER_RUN: Final = "of another run: its transcripts are others"
BY_HAND: Final = "chosen by hand: no chance of being drawn is known"
DISPUTED: Final = "disputed: the raters differ and nobody has decided"
NO_CASE: Final = "of a case that this run did not judge"
BAD_CHANCE: Final = "with a chance outside 0..1"


class JudgedCase(NamedTuple):
    """One execution of a case, and the judge's value for the metric."""

    case_id: str
    repetition: int
    cluster: str | None  # None: the case is its own cluster
    value: float | None  # in the unit of the labels; None: the judge has none
    slices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CorrectedNumber:
    """A number of a run as judged and as corrected."""

    metric: str
    raw: float | None  # mean of the judge's values
    estimate: CorrectedEstimate | None  # None: labels in too few clusters
    labels: int  # that count
    left_out: Mapping[str, int]  # reason -> labels
    slices: Mapping[str, CorrectedEstimate] = field(default_factory=dict)

    @property
    def why_not(self) -> str | None:
        """Why there is no corrected number; `None` where there is one."""
        if self.estimate is not None:
            return None
        return f"{self.labels} labels count; labels in {MIN_LABELS} clusters are needed"


@dataclass(frozen=True, slots=True, eq=False)
class LabelledRun:
    """The judged cases of one run with the labels that count, for one metric."""

    metric: str
    judged: tuple[JudgedCase, ...]
    labels: Mapping[tuple[str, int], tuple[float, float]]  # (value, chance)
    left_out: Mapping[str, int]

    @classmethod
    def of(
        cls, run_id: str, metric: str, judged: Iterable[JudgedCase], settled: pl.DataFrame
    ) -> LabelledRun:
        """Sort out the settled labels of a metric: those that count, and why others do not.

        `settled` has the columns run_id, case_id, repetition, metric, value and probability.
        """
        cases = tuple(judged)
        held = {(case.case_id, case.repetition) for case in cases}
        labels, left = dict[tuple[str, int], tuple[float, float]](), Counter[str]()
        for row in settled.filter(pl.col("metric") == metric).iter_rows(named=True):
            reason = _left_out(row, run_id, held)
            if reason is None:
                key = (row["case_id"], row["repetition"])
                labels[key] = (row["value"], row["probability"])
            else:
                left[reason] += 1
        return cls(metric, cases, labels, dict(sorted(left.items())))

    def cases(self, clusters: dict[str, int]) -> LabelledCases:
        """The cases as arrays; `clusters` numbers their clusters, and new ones are added to it."""
        keys = [(case.case_id, case.repetition) for case in self.judged]
        none = (np.nan, 1.0)
        known = np.array([self.labels.get(key, none) for key in keys]).reshape(-1, 2)
        # The prefixes keep the id of a case apart from a cluster of the same name.
        names = [
            f"i:{case.case_id}" if case.cluster is None else f"c:{case.cluster}"
            for case in self.judged
        ]
        codes = [clusters.setdefault(name, len(clusters)) for name in names]
        values = [np.nan if case.value is None else case.value for case in self.judged]
        return LabelledCases.of(values, known[:, 0], known[:, 1], codes)


def _left_out(row: Mapping[str, Any], run_id: str, held: set[tuple[str, int]]) -> str | None:
    if row["run_id"] != run_id:
        return OTHER_RUN
    if (row["case_id"], row["repetition"]) not in held:
        return NO_CASE
    if row["value"] is None:
        return DISPUTED
    if row["probability"] is None:
        return BY_HAND
    return None if 0 < row["probability"] <= 1 else BAD_CHANCE


def corrected_number(run: LabelledRun, *, share: bool) -> CorrectedNumber:
    """The corrected mean of a metric, and of each slice that has labels in enough clusters.

    `share`: the labels are 1 for pass and 0 for fail.
    """
    cases = run.cases({})
    members: dict[str, list[int]] = {}
    for place, case in enumerate(run.judged):
        for name in case.slices:
            members.setdefault(name, []).append(place)
    estimates = {
        name: corrected_mean(cases.part(np.array(members[name])), share=share)
        for name in sorted(members)
    }
    known = [case.value for case in run.judged if case.value is not None]
    return CorrectedNumber(
        metric=run.metric,
        raw=rounded_value(sum(known) / len(known)) if known else None,
        estimate=corrected_mean(cases, share=share),
        labels=len(run.labels),
        left_out=run.left_out,
        slices={name: found for name, found in estimates.items() if found is not None},
    )


def corrected_change(
    before: LabelledRun, after: LabelledRun, *, share: bool
) -> CorrectedEstimate | None:
    """The corrected difference of two runs, after minus before; each run has labels of its own.

    The result is `None` where one of them has labels in fewer than `MIN_LABELS` clusters.
    """
    clusters: dict[str, int] = {}
    sides = (before.cases(clusters), after.cases(clusters))
    return corrected_difference(*sides, share=share)
