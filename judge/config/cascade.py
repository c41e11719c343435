"""[judge.cascade]: a cheap model decides what it is sure of, and a stronger model the rest.

The thresholds are figures that `assizes cascade` computed from labels of people. They are part of
the configuration, so that a run says by which rule its cases were decided.
"""

from __future__ import annotations

from pydantic import Field

from assizes.judge.config import ConfigTable


class CascadeThreshold(ConfigTable):
    """[judge.cascade.thresholds.JUDGE]: the threshold of one judge, and the labels behind it."""

    confidence: float = Field(
        gt=0,
        le=1,
        description="The confidence from 0 to 1 of the first model from which on its answer stands. "
        "Below it the stronger model judges the case.",
    )
    metrics: tuple[str, ...] = Field(
        min_length=1,
        description="The metrics with labels. The promise holds for each of them, and the least "
        "confidence among them counts.",
    )
    agreement: float = Field(gt=0, lt=1, description="The agreement that was asked for.")
    delta: float = Field(gt=0, lt=1, description="The accepted chance that the promise fails.")
    basis: str = Field(
        pattern="^[0-9a-f]{16}$",
        description="The hash of models, prompts and rubrics for which the threshold was set. A run "
        "with others is refused.",
    )
    labels: int = Field(ge=0, description="The fewest labels of one of the metrics.")
    escalated: float = Field(ge=0, le=1, description="The share of cases that was escalated.")
    attained: float = Field(
        ge=0, le=1, description="The agreement on the labels, of the metric with the least."
    )
    attained_low: float = Field(
        ge=0, le=1, description="The lower bound of that agreement, with the chance 1 - delta."
    )


class CascadeConfig(ConfigTable):
    """[judge.cascade]: which agreement with people is promised, and by which thresholds."""

    agreement: float = Field(
        gt=0,
        lt=1,
        description="The least share of pass and fail decisions that are to agree with people.",
    )
    delta: float = Field(
        default=0.1,
        gt=0,
        lt=0.5,
        description="The accepted chance that labels lead to a threshold that agrees less often.",
    )
    collect: bool = Field(
        default=False,
        description="Ask both models about every case, so that labels can set the thresholds. "
        "`assizes cascade` does this by itself.",
    )
    thresholds: dict[str, CascadeThreshold] = Field(
        default_factory=dict,
        description="The threshold of each judge, in tables `[judge.cascade.thresholds.JUDGE]`, as "
        "`assizes cascade` prints them.",
    )
