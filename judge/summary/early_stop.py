"""What a run that stopped before its last case says of it: how far it went, why, what is open."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from assizes.judge.statistics.exact import rounded_value
from assizes.judge.statistics.sequential import StopWord
from assizes.judge.summary.headlines import FrozenModel

Gates = Literal["passed", "failed"]
"""What the gates of a run have come to at a look."""

_WHY: dict[StopWord, str] = {
    "regressed": "all of them would show a regression as well",
    "fine": "all of them would show no regression either",
    "inconclusive": "all of them could not tell either whether it regressed",
}


class NumberBounds(FrozenModel):
    """A number of a run if every case that was not needed had failed, or had been perfect."""

    worst: float
    best: float


class EarlyStop(FrozenModel):
    """Why a run with `[sampling] until = "decided"` stopped before its last case."""

    look: int = Field(description="the look at which it stopped, from 1")
    looks: int = Field(description="the looks that it could have had")
    cases: int = Field(description="cases that were judged")
    of: int = Field(description="cases that the run had selected")
    not_needed: int = Field(
        description="records left unjudged: neither scored nor skipped nor failed"
    )
    certainty: float = Field(description="least chance, 0..1, that all cases would say the same")
    comparison: StopWord | None = Field(description="as all cases would end it; null: no baseline")
    gates: Gates | None = Field(description="null where a regression settled the run before them")
    pass_rate_pct: NumberBounds = Field(description="the pass rate of all cases, 0..100")
    avg_overall_score: NumberBounds | None = Field(
        description="0..100; null where no case has a score"
    )

    @property
    def line(self) -> str:
        """How far the run went, why it stopped and what the rest could have changed."""
        why = [_WHY[self.comparison]] if self.comparison is not None else []
        if self.gates is not None:
            why.append(f"the gates would be {'reached' if self.gates == 'passed' else 'missed'}")
        why = why or ["its baseline at that time had decided it"]
        rate, score = self.pass_rate_pct, self.avg_overall_score
        points = (
            ""
            if score is None
            else f", and the average score {score.worst:.1f} to {score.best:.1f}"
        )
        return (
            f"decided early: {self.cases} of {self.of} cases were judged (look {self.look} of "
            f"{self.looks}) and {self.not_needed} were not needed, because {' and '.join(why)}, with a "
            f"chance of {100 * self.certainty:g} % or more; if all of the rest had failed or passed, "
            f"the pass rate would be {rate.worst:.1f} to {rate.best:.1f} %{points}; "
            "`--set sampling.until=all` judges the rest"
        )


def bounds(total: float, cases: float, left: float, most: float) -> NumberBounds:
    """The mean of a total over `cases` judged and `left` others, each of which has 0 to `most`."""
    whole = cases + left
    return NumberBounds(
        worst=rounded_value(total / whole), best=rounded_value((total + most * left) / whole)
    )
