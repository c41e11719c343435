"""A judge as the catalogue lists it, before it is created: needs, options, and the factory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.protocol import Judge
from assizes.judge.rubrics.rubric import Rubric


class JudgeOptions(BaseModel):
    """The table [judge.options.NAME]: options of every judge; families add fields of their own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = Field(
        default=None,
        description="Another model for this judge alone. Not set: the model of the run.",
    )
    temperature: float | None = Field(
        default=None,
        ge=0,
        le=2,
        description="Another temperature for this judge alone. Not set: the temperature of the run.",
    )


@dataclass(frozen=True, slots=True)
class JudgeEntry:
    """One judge of the catalogue."""

    description: str  # one sentence, for listings
    needs: tuple[str, ...]  # parts of a case, by their names in the native format
    needs_ground_truth: bool  # an expected value is among the needs
    create_judge: Callable[[Any, Sequence[Rubric]], Judge]  # (validated options, chosen rubrics)
    options: type[JudgeOptions] = JudgeOptions  # the model of [judge.options.NAME]
    offline: bool = True  # `offline/lexical` can answer, or nothing is asked
    asks: bool = True  # whether it may ask a model
