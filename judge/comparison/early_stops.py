"""How runs that stopped before their last case are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assizes.judge.comparison.cases import PairedCases
from assizes.judge.comparison.runs import (
    MIN_OVERLAP,
    Mismatch,
    RunData,
    are_of_one_suite,
    mismatches,
)
from assizes.judge.config.gates import ComparisonConfig
from assizes.judge.config.run import FieldChange
from assizes.judge.statistics.sequential import final_alpha


def limits_after_looks(limits: ComparisonConfig, candidate: Mapping[str, Any]) -> ComparisonConfig:
    """The limits for a candidate with this configuration: its looks have spent a part of alpha."""
    if candidate.get("sampling", {}).get("until") != "decided":
        return limits
    return limits.model_copy(update={"alpha": final_alpha(limits.alpha)})


def is_random_part(runs: tuple[RunData, RunData], cases: PairedCases) -> bool:
    """Whether one run holds a random part of the cases of the other, because it was decided early."""
    cut = [run.summary is not None and run.summary.early_stop is not None for run in runs]
    smaller = cases.matched + min(cases.alone)
    return all(cut) or (any(cut) and cases.matched >= MIN_OVERLAP * smaller)


def run_mismatches(
    runs: tuple[RunData, RunData], cases: PairedCases, changes: Sequence[FieldChange]
) -> tuple[Mismatch, ...]:
    """What keeps two runs from being compared; `changes` are the settings that differ."""
    return mismatches(
        changes,
        (runs[0].answered_by, runs[1].answered_by),
        cases.overlap,
        same_suite=are_of_one_suite(runs),
        is_part=is_random_part(runs, cases),
    )
