"""The changes between two runs that labels of people correct, and the verdict by them: the data."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from assizes.judge.statistics.effects import Word
from assizes.judge.summary.headlines import FrozenModel

CorrectedEnding = Literal["fine", "regressed", "inconclusive"]
"""How a comparison ends by the corrected numbers."""


class CorrectedChange(FrozenModel):
    """The change of one measure, by the judge and corrected by labels, in points of 0..100.

    `value` and its interval are `None` where a run has too few labels; `why_not` then says what can
    be said.
    """

    measure: str = Field(description="pass_rate, or the metric that was labelled")
    raw: float | None = Field(description="by the judge, over the same cases as the labels'")
    value: float | None = Field(description="corrected, candidate minus baseline")
    low: float | None = Field(description="95 % interval of the corrected change")
    high: float | None
    baseline_labels: int = Field(description="labels that count for the baseline")
    candidate_labels: int
    paired_labels: int = Field(description="cases with a label in both runs")
    raw_word: Word | None = Field(description="of the statistics; null: not a gating measure")
    word: Word | None = Field(description="by the same margin and alpha; null: not corrected")
    why_not: str | None = Field(default=None, description="why there is no corrected change")
    line: str  # one sentence with all of this


class CorrectedVerdict(FrozenModel):
    """How a comparison ends where the corrected pass rate stands in place of the judge's."""

    ending: CorrectedEnding | None = Field(description="null: the labels do not suffice")
    raw_ending: str = Field(description="how it ends by the judge's numbers")
    decides: bool = Field(description="whether this ending is that of the comparison")
    fell_back: str | None = Field(
        description="why the judge's numbers decide although [comparison] verdict is corrected"
    )
    differs: bool = Field(description="whether the labels say something else than the judge")
    sentence: str | None = Field(description="what differs, with numbers; null: nothing does")
    changes: tuple[CorrectedChange, ...]
    labels: tuple[str, ...]  # where the labels of both runs come from, and which do not count
