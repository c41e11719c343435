"""In which cases a cause is present, and what has changed since another run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

import numpy as np
import polars as pl

from assizes.judge.statistics.effects import Effect, holm, paired_effect, unpaired_effect
from assizes.judge.statistics.intervals import Sample, ValueInterval, rate_interval

CauseState = Literal["new", "first_seen", "persisting", "worse", "better", "gone", "not_seen"]
"""What became of a cause since the baseline.

`new`: no case of the baseline shows it, and that is no chance. `first_seen`: no case of the baseline
shows it, which may be chance. `persisting`: both runs show it, and its share did not surely change.
`worse` and `better`: its share surely rose or fell. `gone`: no case shows it any more, and that is no
chance. `not_seen`: no case shows it, which may be chance.
"""

SHARED: Final = 0.5
"""The share of the cases of the smaller run from which two runs are compared case by case."""


class JudgedCases:
    """The judged cases of a run: their ids, clusters, and numbers of repetitions."""

    def __init__(self, cases: pl.DataFrame) -> None:
        """Keep the cases with the columns `case_id`, `repetition` and `cluster` of table cases."""
        counted = cases.group_by("case_id").agg(pl.len().alias("n"), pl.col("cluster").first())
        self._cases = counted.sort("case_id").with_row_index("place")
        # The prefixes keep the id of a case apart from a cluster of the same name.
        named, alone = "c:" + self._cases["cluster"], "i:" + self._cases["case_id"]
        self._codes = named.fill_null(alone).rank("dense").cast(pl.Int64).to_numpy() - 1
        self._repetitions = self._cases["n"].to_numpy()

    @property
    def ids(self) -> pl.Series:
        """The ids of the cases, sorted."""
        return self._cases["case_id"]

    @property
    def executions(self) -> int:
        """The number of cases with all their repetitions."""
        return int(self._repetitions.sum())

    def presence(self, failures: pl.DataFrame) -> Sample:
        """For each case the share of its repetitions, 0..1, that are among the failures."""
        shown = failures.select("case_id", "repetition").unique()
        counted = shown.group_by("case_id").len("shown")
        joined = self._cases.join(counted, on="case_id", how="left", maintain_order="left")
        return Sample(joined["shown"].fill_null(0).to_numpy() / self._repetitions, self._codes)


class CauseChange(NamedTuple):
    """The share of cases that show a cause, and what became of it since the baseline."""

    share: float  # 0..1
    span: ValueInterval | None  # of the share; None where all cases are in one cluster
    baseline_share: float | None  # 0..1; None without a baseline
    change: ValueInterval | None  # the interval of share minus baseline share
    p_value: float | None  # of the change, adjusted for all causes; None without a baseline
    state: CauseState


def cause_changes(
    now: Mapping[str, Sample],
    before: Mapping[str, Sample],
    ids: tuple[Sequence[str], Sequence[str]] | None,
    alpha: float,
) -> dict[str, CauseChange]:
    """What became of each cause that one of two runs shows.

    Args:
        now: `JudgedCases.presence` of each cause in the run.
        before: the same of the same causes in its baseline; empty without a baseline.
        ids: the ids of the cases of the run and of its baseline; None without a baseline.
        alpha: the share of false `new`, `worse`, `better` or `gone` over all causes together, 0..1
            (Holm's method).
    """
    if ids is None:
        return {
            cause: CauseChange(sample.mean, rate_interval(sample), None, None, None, "first_seen")
            for cause, sample in now.items()
        }
    effects = {cause: _effect(before[cause], now[cause], ids, alpha) for cause in now}
    adjusted = holm([effect.p_value for effect in effects.values()])
    return {
        cause: CauseChange(
            now[cause].mean,
            rate_interval(now[cause]),
            before[cause].mean,
            effect.span,
            p_value,
            _state(before[cause].mean, now[cause].mean, sure=p_value <= alpha),
        )
        for (cause, effect), p_value in zip(effects.items(), adjusted, strict=True)
    }


def _effect(
    before: Sample, now: Sample, ids: tuple[Sequence[str], Sequence[str]], alpha: float
) -> Effect:
    _, own, theirs = np.intersect1d(ids[0], ids[1], assume_unique=True, return_indices=True)
    if own.size < SHARED * min(now.size, before.size):
        return unpaired_effect(before, now, 1 - alpha, share=True)
    codes = np.unique(now.codes[own], return_inverse=True)[1]
    differences = Sample(now.values[own] - before.values[theirs], codes)
    return paired_effect(differences, 1 - alpha, share=True)


def _state(before: float, now: float, *, sure: bool) -> CauseState:
    if not before:
        return "new" if sure else "first_seen"
    if not now:
        return "gone" if sure else "not_seen"
    if not sure:
        return "persisting"
    return "worse" if now > before else "better"
