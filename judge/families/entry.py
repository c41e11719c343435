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

    model: str | None = Field(default=None, description="another model for this judge alone")
    temperature: float | None = Field(default=None, ge=0, le=2)


@dataclass(frozen=True, slots=True)
class JudgeEntry:
    """One judge of the catalogue, with a `description` of one sentence for listings.

    `needs` are the parts of a case that it needs, by the names of the native format;
    `needs_ground_truth` says that an expected value is among them. `create_judge` takes the
    validated `options` and the chosen conversation rubrics. `asks` says whether the judge may ask a
    model, `offline` whether `offline/lexical` can answer; it is true for a judge that asks nothing.
    """

    description: str
    needs: tuple[str, ...]
    needs_ground_truth: bool
    create_judge: Callable[[Any, Sequence[Rubric]], Judge]
    options: type[JudgeOptions] = JudgeOptions
    offline: bool = True
    asks: bool = True
