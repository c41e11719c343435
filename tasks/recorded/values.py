"""What a recorded set consists of: items that a judge graded, and figures computed from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from assizes.judge.calibration.labelled import RatedItem
from assizes.judge.calibration.order_flips import PairVerdicts
from assizes.judge.config.gates import CalibrationConfig

Figures = Mapping[str, float | str]
"""Figures by name; a text is compared as it stands, a number at the published decimals."""

ALL = "all"
"""The part of a set that is the whole set."""


@dataclass(frozen=True, slots=True)
class JudgedItems:
    """The items of a set, or of one part of it, that one judge graded, beside the people's grades."""

    dataset: str
    task: str  # what was asked, in words
    judge: str
    items: Sequence[RatedItem]
    config: CalibrationConfig  # scale, levels and pass mark of the grades
    part: str = ALL
    pairs: Sequence[PairVerdicts] = ()  # of judges of pairs: the winners in both orders
    kind: Literal["recorded", "floor", "model"] = "recorded"


@dataclass(frozen=True, slots=True)
class RecordedSet:
    """A set as it was read: its judges, and the figures to hold against the published ones."""

    name: str
    judged: Sequence[JudgedItems]
    figures: Figures
    notes: Sequence[str] = field(default=())
