"""The two runs of a comparison, and whether the two may be compared.

Runs are comparable when they were judged alike, by the same measures, over the same cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import polars as pl
from pydantic import BaseModel, ConfigDict

from assizes.judge.config.diff import FINGERPRINTS, PRIVACY, TRUTH, FieldChange
from assizes.judge.summary.run_summary import RunSummary

MIN_OVERLAP: Final = 0.95
"""Share (0..1) of the larger run's cases that both runs must hold for a comparison case by case."""

DISJOINT: Final = 0.05
"""Overlap (0..1) below which the runs are compared as two samples of the same traffic."""

_TABLES: Final = ("judge", FINGERPRINTS, PRIVACY, TRUTH, "thresholds")
_READING: Final = ("transcripts.writes", "transcripts.redact", "transcripts.format")
_PLACES: Final = ("judge.rubrics", "judge.api_base")
# Where rubrics and endpoints are; the texts of the rubrics and the models that answered are compared
# by themselves.


@dataclass(frozen=True, slots=True, eq=False)
class RunData:
    """A stored run: its row and its tables.

    Attributes:
        config: the snapshot of the configuration, taken when the run began.
        answered_by: the names of the models whose replies the run holds.
        sliceable: whether reading some rows from the middle of a table costs no more than those
            rows.
        prompts: the texts of the run's judges; empty when none were stored.
    """

    run_id: str
    name: str
    agent_version: str | None
    config: Mapping[str, Any]
    summary: RunSummary | None
    cases: pl.LazyFrame
    scores: pl.LazyFrame
    status: str
    answered_by: tuple[str, ...] = ()
    sliceable: bool = True
    prompts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class RunPair:
    """The two runs of one comparison."""

    baseline: RunData
    candidate: RunData

    @property
    def scores(self) -> tuple[pl.LazyFrame, pl.LazyFrame]:
        """The rows of table `scores`: those of the baseline, then those of the candidate."""
        return self.baseline.scores, self.candidate.scores

    @property
    def is_sliceable(self) -> bool:
        """Whether the tables of both runs can be read block by block."""
        return self.baseline.sliceable and self.candidate.sliceable


class Mismatch(BaseModel):
    """One difference of two runs that could change the numbers although the agent did not change."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    field: str
    baseline: Any
    candidate: Any
    of_judge: bool

    @property
    def line(self) -> str:
        """The name of the field with the values of both runs, as one line of text."""
        return f"{self.field}: {_value_text(self.baseline)} -> {_value_text(self.candidate)}"


def mismatches(
    changes: Sequence[FieldChange],
    answered_by: tuple[Sequence[str], Sequence[str]],
    overlap: float,
) -> tuple[Mismatch, ...]:
    """Find every difference that keeps two runs from being compared; none for runs judged alike.

    Different ground truth counts as a difference only where the runs share cases: two samples of
    the traffic each have a ground truth of their own.

    Args:
        changes: the settings that differ.
        answered_by: the models that answered, of the baseline and of the candidate; these are not
            compared where a side knows none.
        overlap: shared cases / cases of the larger run, 0..1.
    """
    relevant_changes = [
        change for change in changes if change.field != TRUTH or overlap >= DISJOINT
    ]
    return (*_settings(relevant_changes), *_models(*answered_by), *_cases(overlap))


def _settings(changes: Sequence[FieldChange]) -> Iterator[Mismatch]:
    for change in changes:
        table = change.field.partition(".")[0]
        if change.field in _PLACES or (table not in _TABLES and change.field not in _READING):
            continue
        yield Mismatch(
            field=change.field,
            baseline=change.baseline,
            candidate=change.candidate,
            of_judge=table != "thresholds",
        )


def _models(before: Sequence[str], after: Sequence[str]) -> Iterator[Mismatch]:
    sides = [", ".join(sorted(side)) for side in (before, after)]
    if all(sides) and sides[0] != sides[1]:
        yield Mismatch(field="answered_by", baseline=sides[0], candidate=sides[1], of_judge=True)


def _cases(overlap: float) -> Iterator[Mismatch]:
    if DISJOINT <= overlap < MIN_OVERLAP:
        yield Mismatch(
            field="cases",
            baseline=f"at least {MIN_OVERLAP:.0%} in both runs, or under {DISJOINT:.0%}",
            candidate=f"{overlap:.1%} in both",
            of_judge=False,
        )


def _value_text(value: Any) -> str:
    return "not set" if value is None else str(value)
