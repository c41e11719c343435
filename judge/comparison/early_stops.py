"""How runs that stopped before their last case are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assizes.judge.comparison.cases import PairedCases
from assizes.judge.comparison.runs import MIN_OVERLAP, RunData
from assizes.judge.config.gates import ComparisonConfig
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
