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
"""What words mean without further word."""


@dataclass(frozen=True, slots=True)
class RatedItem:
    """One thing that people graded, and what the judge said of it.

    Args:
        case_id: which case.
        cluster: what was sampled together; its own id where nothing is known.
        people: grades by rater.
        judged: the judge's grade; null: an answer that is none, or no answer.
        missing: whether the judge was not asked at all; it then counts nowhere.
    """

    case_id: str
    cluster: str
    people: Mapping[str, float] = field(default_factory=dict)
    judged: float | None = None
    missing: bool = False


def parse_grade(value: object, config: CalibrationConfig) -> float | None:
    """A grade as a number; null for what is none of the words and levels."""
    number = _number(value, config)
    if number is None or config.levels is None:
        return number
    if config.clip:
        number = min(max(number, min(config.levels)), max(config.levels))
    return number if number in config.levels else None


def vocabulary(config: CalibrationConfig) -> dict[str, float]:
    """The words a grade may be written as."""
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
    """What people say together: the grade of more than half of them, else the median where that is
    one of theirs (an odd number of ordered grades); null when they are divided.
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
    """The lowest grade that passes; null where nothing says so.

    Without a configured one: 1 of the grades 0 and 1, 3 where grades go beyond 3 and up to 5.
    """
    if config.pass_from is not None or config.scale == "nominal" or not levels:
        return config.pass_from
    if set(levels) <= {0.0, 1.0}:
        return 1.0
    return float(ACCEPTABLE) if ACCEPTABLE < max(levels) <= 5 else None
