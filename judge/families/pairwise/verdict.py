"""What two readings of a pair, one in each order, come to."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

Choice = Literal["first", "second", "tie"]
"""What a judge says in one order: the side that was shown first, the one shown second, neither."""

Winner = Literal["baseline", "candidate", "tie"]
"""The better side of a pair; in the order as given the baseline is shown first."""

AS_GIVEN: Final[dict[Choice, Winner]] = {"first": "baseline", "second": "candidate", "tie": "tie"}
SWAPPED: Final[dict[Choice, Winner]] = {"first": "candidate", "second": "baseline", "tie": "tie"}
"""The side that a choice names, by the order in which the sides were shown."""

_PLACES: Final[dict[Choice, float]] = {"first": 0.5, "second": -0.5, "tie": 0.0}
_POINTS: Final[dict[Winner, float]] = {"baseline": 0.0, "candidate": 1.0, "tie": 0.5}


class PairVerdict(BaseModel):
    """The verdict on one pair: a side wins only where both orders name it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    case_id: str
    repetition: int = 0
    cluster: str = ""  # empty: the case is a cluster of its own
    as_given: Choice | None = None  # baseline first; `None`: no usable reply came
    swapped: Choice | None = None  # candidate first
    identical: bool = False  # both sides show the same text: a tie without asking
    baseline_chars: int = Field(default=0, ge=0)  # of what the agent wrote
    candidate_chars: int = Field(default=0, ge=0)
    reasons: tuple[str, ...] = ()  # of the judge, or why there is no verdict

    @property
    def winner(self) -> Winner | None:
        """The better side; `None` where an order has no reply."""
        if self.identical:
            return "tie"
        if self.as_given is None or self.swapped is None:
            return None
        sides = {AS_GIVEN[self.as_given], SWAPPED[self.swapped]}
        return sides.pop() if len(sides) == 1 else "tie"

    @property
    def points(self) -> float:
        """What the pair is worth to the candidate: 1, 0.5 or 0. It needs a verdict."""
        return _POINTS[self.winner or "tie"]

    @property
    def is_flip(self) -> bool:
        """Whether each order names another side: the place decided, and not the content."""
        if self.as_given is None or self.swapped is None or "tie" in (self.as_given, self.swapped):
            return False
        return self.as_given == self.swapped

    @property
    def is_half(self) -> bool:
        """Whether one order names a side and the other order says that neither is better."""
        if self.as_given is None or self.swapped is None:
            return False
        return (self.as_given == "tie") != (self.swapped == "tie")

    @property
    def place_lean(self) -> float:
        """How far the place decided: 1 both orders chose the first side shown, -1 the second."""
        return sum(_PLACES[choice] for choice in (self.as_given, self.swapped) if choice)

    def with_sides_exchanged(self) -> PairVerdict:
        """The same verdict with baseline and candidate exchanged."""
        return self.model_copy(
            update={
                "as_given": self.swapped,
                "swapped": self.as_given,
                "baseline_chars": self.candidate_chars,
                "candidate_chars": self.baseline_chars,
            }
        )
