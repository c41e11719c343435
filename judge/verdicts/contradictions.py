"""Scores whose own rationale says the opposite: marked, never rewritten, and counted in nothing.

A few plain phrases at the two ends of a scale are looked for; a phrase that is negated or qualified
right before does not count. What this finds is for people to read first.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from assizes.judge.score import Score
from assizes.judge.verdicts.root_cause import rationale

SUSPECT: Final = "suspect"
"""Key in the details of such a score; the value says what is at odds."""

LOW: Final = 0.2
HIGH: Final = 0.8
"""Values 0..1 from which on praise, and blame, are at odds with a score: levels 1 and 4 of 5."""

BLAME: Final = (
    "completely failed",
    "failed completely",
    "completely fails",
    "fails completely",
    "totally failed",
    "entirely failed",
    "complete failure",
    "total failure",
    "completely wrong",
    "entirely wrong",
    "completely incorrect",
    "entirely incorrect",
    "completely irrelevant",
    "completely ignored",
)
PRAISE: Final = (
    "perfect",
    "perfectly",
    "flawless",
    "flawlessly",
    "fully correct",
    "entirely correct",
    "completely correct",
    "no issues",
    "no problems",
    "no errors",
    "without any issues",
    "without errors",
)

_QUALIFIED: Final = "not|never|nor|hardly|far from|less than|almost|nearly|otherwise|if"


def _phrases(words: Sequence[str]) -> re.Pattern[str]:
    either = "|".join(re.escape(phrase) for phrase in words)
    return re.compile(
        rf"(?:\b({_QUALIFIED})(?:\s+(?:a|an|be|been|the|have|has|had))?\s+)?\b({either})\b"
    )


_BLAME: Final = _phrases(BLAME)
_PRAISE: Final = _phrases(PRAISE)


def contradiction(score: Score) -> str | None:
    """What is at odds between a score and its rationale; null where nothing is, or there is none."""
    if score.value is None or LOW < score.value < HIGH:
        return None
    words, pattern = (BLAME, _BLAME) if score.value >= HIGH else (PRAISE, _PRAISE)
    text = rationale(score.details).lower()
    # The pattern is slow, and most rationales hold none of the phrases.
    if not any(phrase in text for phrase in words):
        return None
    for match in pattern.finditer(text):
        if match[1] is None:
            return f"value {score.value:g}, but its rationale says {match[2]!r}"
    return None
