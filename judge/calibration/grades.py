"""Grades of people and judges as numbers, and several people's grades as one."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from assizes.judge.config.calibration import CalibrationConfig
from assizes.judge.score import ACCEPTABLE

WORDS: Final[Mapping[str, float]] = {
    **dict.fromkeys(("pass", "passed", "yes", "true"), 1.0),
    **dict.fromkeys(("fail", "failed", "no", "false"), 0.0),
}
"""The grades of words that need no entry in [calibration.words]."""


@dataclass(frozen=True, slots=True)
class RatedItem:
    """One item that people graded, with the judge's grade.

    Args:
        case_id: the id of the case.
        cluster: the group of cases that was sampled together; the id of the case where nothing is
            known of it.
        people: the grades of people by rater.
        judged: the judge's grade; `None` where the answer was not a grade, or there was no answer.
        missing: whether the judge was not asked at all; the item then counts nowhere.
    """

    case_id: str
    cluster: str
    people: Mapping[str, float] = field(default_factory=dict)
    judged: float | None = None
    missing: bool = False


def parse_grade(value: object, config: CalibrationConfig) -> float | None:
    """Read a grade as a number; `None` for a value that is none of the words and levels."""
    number = _number(value, config)
    if number is None or config.levels is None:
        return number
    if config.clip:
        number = min(max(number, min(config.levels)), max(config.levels))
    return number if number in config.levels else None


def vocabulary(config: CalibrationConfig) -> dict[str, float]:
    """The grade of each word that a grade may be written as, in lower case."""
    return {**WORDS, **{word.casefold(): grade for word, grade in config.words.items()}}


def _number(value: object, config: CalibrationConfig) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool | int | float):
        return float(value) if math.isfinite(value) else None
    text = str(value).strip().casefold()
    if (word := vocabulary(config).get(text)) is not None:
        return word
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def agreed_grade(grades: Sequence[float], *, ordered: bool) -> float | None:
    """The one grade of several people; `None` when they are divided.

    The grade is the one that more than half of the people gave, else the median where that is one
    of their grades (an odd number of ordered grades).
    """
    if not grades:
        return None
    grade, times = Counter(grades).most_common(1)[0]
    if 2 * times > len(grades):
        return grade
    if ordered and len(grades) % 2:
        return sorted(grades)[len(grades) // 2]
    return None


def pass_mark(levels: Sequence[float], config: CalibrationConfig) -> float | None:
    """The lowest grade that passes; `None` where it is not known.

    Where none is configured: 1 for the grades 0 and 1, and 3 where the highest grade is above 3 and
    at most 5.
    """
    if config.pass_from is not None or config.scale == "nominal" or not levels:
        return config.pass_from
    if set(levels) <= {0.0, 1.0}:
        return 1.0
    return float(ACCEPTABLE) if ACCEPTABLE < max(levels) <= 5 else None
