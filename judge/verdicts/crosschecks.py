"""What a program can see held against what a judge said: scores that cannot both be right."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from assizes.judge.case import Case, Transcript
from assizes.judge.evidence.tool_calls import tool_evidence
from assizes.judge.rubrics.rubric import OUTCOMES
from assizes.judge.score import Score

HIGH: Final = 0.8
"""Value 0..1 from which on a score says that all is well: level 4 of 5."""

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
"""Metrics that an answer which says nothing cannot reach."""

_RESTS_ON_CONTEXT: Final = ("context_sufficiency", "groundedness")

# Openers that some judges take for an answer (arXiv 2507.08794). Possessive: two runs of signs
# that meet can share a long one in many ways.
_OPENERS: Final = re.compile(
    r"\W*+(?:thought process|let(?:'|\u2019)?s (?:solve|think)[^.:\n]{0,40}|solution|answer"
    r"|final answer|reasoning|explanation|response)?\W*",
    re.IGNORECASE,
)


def has_empty_answer(transcript: Transcript) -> bool:
    """Whether an agent that answers did so without a word that means anything."""
    texts = [text for _, text in transcript.agent_texts()]
    return bool(texts) and all(_OPENERS.fullmatch(text) for text in texts)


def contradicted_metrics(case: Case, scores: Sequence[Score]) -> dict[str, str]:
    """Metrics whose headline is high against the evidence, with what is at odds."""
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
