"""The offline rule for the judge `run_criteria`: the turn that holds most words of a criterion."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from assizes.judge.excerpts.run_search import search_hits, word_share
from assizes.judge.families.run_criteria.looks import RunCriteriaEvidence

_LEAST_SHARE: Final = 0.6
"""Share (0..1) of a criterion's words that one turn must hold for the criterion to hold."""
_MOST_SEARCHES: Final = 6
_MARK: Final = re.compile(r"^\[\d+\] [^:\n]*: ")
"""The beginning of a line of a rendered turn, which is no part of its text."""


def answer(evidence: RunCriteriaEvidence) -> dict[str, Any]:
    """The reply of the offline judge: searches while it may, then words that stand or do not."""
    if not evidence.is_last:
        texts = [text for _, text in evidence.criteria][:_MOST_SEARCHES]
        nothing: dict[str, Any] = {"read": [], "tools": [], "agents": [], "probes": []}
        return {"reasoning": "plain words", "findings": [], "search": texts, **nothing}
    findings = [_finding(number, text, evidence.blocks) for number, text in evidence.criteria]
    return {"reasoning": "plain words", "findings": findings}


def _finding(number: int, text: str, blocks: Sequence[str]) -> dict[str, Any]:
    hits = search_hits(blocks, text)
    share = word_share(blocks[hits[0].turn], text) if hits else 0.0
    holds = share >= _LEAST_SHARE
    quotes = [_quote(blocks[hits[0].turn], text)] if holds else []
    reason = f"the best turn holds {share:.0%} of the words of the criterion"
    verdict = "yes" if holds else "not_shown"
    return {"criterion": number, "reason": reason, "quotes": quotes, "holds": verdict}


def _quote(block: str, text: str) -> str:
    """The beginning of the line that holds most words of a text."""
    lines = [_MARK.sub("", line).strip() for line in block.splitlines()]
    return max(lines, key=lambda line: word_share(line, text))[:200]
