"""[sampling]: whether a run judges all of its cases, or stops once its verdict is decided."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from assizes.judge.config import ConfigTable
from assizes.judge.config.gates import ComparisonConfig


class SamplingConfig(ConfigTable):
    """[sampling]: how many of the selected cases a run judges."""

    until: Literal["all", "decided"] = Field(
        default="all",
        description="When a run ends. `all`: every case is judged. `decided`: cases are judged in a "
        "random order, and the run stops once those left could hardly change its verdict.",
    )
    min_cases: int = Field(
        default=100,
        ge=30,
        le=1_000_000,
        description="The number of cases that are judged before the first look at the numbers.",
    )
    looks: int = Field(
        default=10,
        ge=2,
        le=10,
        description="The number of equal parts in which the cases are judged, with a look after each.",
    )
    certainty: float = Field(
        default=0.95,
        ge=0.8,
        le=0.999,
        description="The least chance, at a look, that all cases would give the same verdict, for the "
        "run to stop there.",
    )

    @property
    def stops(self) -> bool:
        """Whether the run may stop before its last case."""
        return self.until == "decided"


def sampling_fault(
    sampling: SamplingConfig, comparison: ComparisonConfig, *, batch: bool, since_last: bool
) -> str | None:
    """Why a run with these settings cannot stop early, as one line; `None` where it can."""
    if not sampling.stops:
        return None
    setting = '[sampling] until = "decided"'
    if comparison.baseline is not None and comparison.mode != "statistics":
        return (
            f'{setting} needs [comparison] mode = "statistics": a rule such as max_pass_rate_drop '
            "is decided by the last case only"
        )
    if comparison.verdict == "corrected":
        return f'{setting} needs [comparison] verdict = "raw": labels come after the run'
    others = {
        f"{setting} works without [comparison] mix_by": comparison.mix_by is not None,
        f"{setting} works without [runner] batch, which asks for all cases at once": batch,
        f"{setting} works without [transcripts] since_last: cases that one run did not need would be "
        "new to the next run": since_last,
    }
    return next((fault for fault, has_fault in others.items() if has_fault), None)
