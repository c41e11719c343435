"""Scores that contradict their own rationale, or the evidence in their case.

Such a score is marked as `suspect`; it is never changed, and no number of a run uses the mark. The
marked scores are the ones that people should read first.

A rationale is searched for a few plain phrases of blame and of praise; a phrase right after a
negation or a qualification does not count.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from assizes.judge.case import Case, Transcript
from assizes.judge.evidence.tool_calls import tool_evidence
from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.score import Score
from assizes.judge.verdicts.root_cause import rationale

SUSPECT: Final = "suspect"
"""Key in the details of a suspect score; the value says what the contradiction is."""

LOW: Final = 0.2
"""The highest value 0..1 that praise contradicts: level 1 of 5."""

HIGH: Final = 0.8
"""The lowest value 0..1 that blame, or contrary evidence, contradicts: level 4 of 5."""

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
    """A pattern for these phrases; group 1 is a negation or qualification before the phrase."""
    either = "|".join(re.escape(phrase) for phrase in words)
    return re.compile(
        rf"(?:\b({_QUALIFIED})(?:\s+(?:a|an|be|been|the|have|has|had))?\s+)?\b({either})\b"
    )


_BLAME: Final = _phrases(BLAME)
_PRAISE: Final = _phrases(PRAISE)

OF_THE_TASK: Final = frozenset(
    {
        "task_completion",
        "response_delivery",
        OUTCOMES,
        "correctness",
        "relevance_to_query",
        "answer_criteria",
        "answer_completeness",
        "response_quality",
    }
)
"""Metrics that cannot be high where the agent's answer says nothing."""

_RESTS_ON_CONTEXT: Final = ("context_sufficiency", "groundedness")

# Openers that some judges take for an answer (arXiv 2507.08794). The first quantifier is
# possessive: without it a long run of signs could be split in many ways, in quadratic time.
_OPENERS: Final = re.compile(
    r"\W*+(?:thought process|let(?:'|\u2019)?s (?:solve|think)[^.:\n]{0,40}|solution|answer"
    r"|final answer|reasoning|explanation|response)?\W*",
    re.IGNORECASE,
)


def contradiction(score: Score) -> str | None:
    """How a score contradicts its rationale; `None` without a contradiction or a rationale."""
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


def has_empty_answer(transcript: Transcript) -> bool:
    """Whether all texts of the agent are empty phrases; false for an agent without any text."""
    texts = [text for _, text in transcript.agent_texts()]
    return bool(texts) and all(_OPENERS.fullmatch(text) for text in texts)


def contradicted_metrics(case: Case, scores: Sequence[Score]) -> dict[str, str]:
    """Metrics whose headline score is high against the evidence, each with the contradiction."""
    values = {score.metric: score.value for score in scores if not score.part}
    high = {name for name, value in values.items() if value is not None and value >= HIGH}
    if not high:
        return {}
    contradictions = _against_tools(case, high) if case.expected.tool_calls else {}
    if values.get("document_recall") == 0:
        why = "none of the expected documents was retrieved"
        contradictions |= {name: why for name in _RESTS_ON_CONTEXT if name in high}
    if has_empty_answer(case.transcript):
        contradictions |= dict.fromkeys(
            sorted(high & OF_THE_TASK), "the agent's answer says nothing"
        )
    return {name: f"value {values[name]:g}, but {why}" for name, why in contradictions.items()}


def _against_tools(case: Case, high: set[str]) -> dict[str, str]:
    tools = tool_evidence(case)
    contradictions: dict[str, str] = {}
    if tools.recall == 0 and "tool_routing" in high:
        contradictions["tool_routing"] = (
            f"none of the {len(tools.expected or ())} expected calls was made"
        )
    if tools.writes_known and tools.write_match is False and "task_completion" in high:
        contradictions["task_completion"] = "the state-changing calls are not the expected ones"
    return contradictions
