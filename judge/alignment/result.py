"""What an alignment is asked, and what comes of it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.alignment.gate import HeldOutResult
from assizes.judge.rubrics.guidance import MAX_EXAMPLES, MAX_GUIDELINES


class _AlignmentPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class AlignmentRequest(_AlignmentPart):
    """Which judge is aligned, by whom, and for how much at the most."""

    run: str = Field(description="run whose cases people labelled, by its id or another name")
    metric: str
    model: str | None = Field(default=None, description="model that proposes guidelines")
    optimiser: str | None = Field(
        default=None, description="module:function that proposes guidelines in place of a model"
    )
    budget_usd: float = Field(default=1.0, gt=0, description="most US dollars for all asks")
    held_out: float = Field(default=0.4, ge=0.2, le=0.7, description="share of held-out labels")
    folds: int = Field(default=4, ge=2, le=20, description="folds of the other labels")
    guidelines: int = Field(default=5, ge=0, le=MAX_GUIDELINES, description="most new guidelines")
    examples: int = Field(default=4, ge=0, le=MAX_EXAMPLES, description="most new examples")
    seed: str = Field(default="", max_length=100, description="another word divides otherwise")
    file: str | None = Field(
        default=None, description="rubric file, as edited, to try in place of a new proposal"
    )


class AlignmentPlan(_AlignmentPart):
    """What an alignment would ask and cost at the most, as far as that is known."""

    metric: str
    labels: int
    held_out: int
    wrong: int = Field(description="labels on which the judge says otherwise")
    hearings: int = Field(description="cases judged anew")
    proposals: int = Field(description="asks for guidelines")
    usd: float | None = Field(description="estimate from the run's own asks; null: no price known")

    def sentence(self) -> str:
        """The plan in words."""
        cost = "at an unknown price" if self.usd is None else f"for about {self.usd:.2f} USD"
        return (
            f"{self.metric}: {self.labels} labels, {self.held_out} of them held out; the judge says "
            f"otherwise in {self.wrong}. To ask: {self.proposals} proposals, and {self.hearings} "
            f"cases to judge anew at the most, {cost}"
        )


class VariantGain(_AlignmentPart):
    """How a variant did over the folds."""

    variant: str
    gain: float = Field(description="in balanced accuracy, -1..1")
    p_value: float = Field(description="one-sided")


class CanaryChange(_AlignmentPart):
    """Attacks that took the old and the new judge over; both judged the same planted cases."""

    planted: int
    old: int
    new: int


class AnchorShift(_AlignmentPart):
    """How the new judge moves the anchors, and how often each judge agrees with people on them.

    It decides nothing: anchors are few and chosen.
    """

    run: str
    cases: int
    points: float = Field(description="mean of new minus old, 0..100 points")
    labelled: int = Field(default=0, description="anchors that people, or a record, judged too")
    right_before: int = Field(default=0, description="of these, the old judge says the same of")
    right_after: int = Field(
        default=0, description="and the new one; an anchor without its verdict is not right"
    )

    def sentence(self) -> str:
        """The shift in words."""
        moved = (
            f"anchors: the new judge moves {self.cases} anchors of run {self.run} by "
            f"{self.points:+.1f} points"
        )
        if not self.labelled:
            return moved
        return (
            f"{moved}; of {self.labelled} with a label the old judge gets {self.right_before} "
            f"right, the new one {self.right_after}"
        )


class AlignmentResult(_AlignmentPart):
    """The verdict on a proposed rubric; without one that is better, `text` is empty."""

    run_id: str
    metric: str
    plan: AlignmentPlan
    verdict: Literal["better", "not_shown"]
    why: str = Field(description="the verdict in words")
    held_out: HeldOutResult | None = Field(description="null: nothing was tried on held-out labels")
    variants: tuple[VariantGain, ...] = ()
    refused: tuple[str, ...] = Field(default=(), description="guidelines left out, with the reason")
    canaries: CanaryChange | None = None
    anchors: AnchorShift | None = None
    uses: int = Field(
        default=0, description="texts these held-out labels have tried, with this one"
    )
    old_hash: str
    new_hash: str | None = None
    text: str = Field(default="", description="the new rubric as TOML")
    diff: str = Field(default="", description="unified diff from the rubric as it is")
    cost_usd: float = 0.0

    @property
    def is_better(self) -> bool:
        """Whether the new judge is shown to be better."""
        return self.verdict == "better"

    def lines(self) -> list[str]:
        """The verdict and what belongs to it, as lines."""
        lines = [f"{self.metric}: {self.why}"]
        lines += [
            f"folds: {item.variant}: gain {100 * item.gain:+.1f} points (p = {item.p_value:.3f})"
            for item in self.variants
        ]
        lines += [f"left out: {text}" for text in self.refused]
        if self.canaries is not None:
            lines.append(
                f"canaries: of {self.canaries.planted} planted attacks {self.canaries.old} took the "
                f"old judge over, {self.canaries.new} the new one"
            )
        if self.anchors is not None:
            lines.append(self.anchors.sentence())
        if self.uses > 1:
            lines.append(
                f"these held-out labels have now tried {self.uses} texts: each time the bar is higher; "
                "label more cases for a clean test"
            )
        return lines
