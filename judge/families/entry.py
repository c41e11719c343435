"""What the catalogue knows of a judge before it is made: needs, options, and how to make it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from assizes.judge.protocol import Judge
from assizes.judge.rubrics.rubric import Rubric


class JudgeOptions(BaseModel):
    """[judge.options.NAME]: what every judge can be told; families add their own fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str | None = Field(default=None, description="another model for this judge alone")
    temperature: float | None = Field(default=None, ge=0, le=2)


@dataclass(frozen=True, slots=True)
class JudgeEntry:
    """One judge of the table.

    Args:
        description: one sentence for listings.
        needs: the parts of a case it needs, by the names of the native format.
        needs_ground_truth: whether one of them is an expected value.
        made: makes the judge from its validated options and the chosen conversation rubrics.
        options: the model its options are validated by.
        offline: whether `offline/lexical` can answer what it asks, if it asks at all.
        asks: whether it may put a question to a model.
    """

    description: str
    needs: tuple[str, ...]
    needs_ground_truth: bool
    create_judge: Callable[[Any, Sequence[Rubric]], Judge]
    options: type[JudgeOptions] = JudgeOptions
    offline: bool = True
    asks: bool = True
