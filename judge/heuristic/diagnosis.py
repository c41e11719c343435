"""The offline rule for the judge `diagnosis`: the answer of the best sign that the rules saw."""

from __future__ import annotations

from typing import Any

from assizes.judge.families.diagnosis.looks import DiagnosisEvidence


def answer(evidence: DiagnosisEvidence) -> dict[str, Any]:
    """The reply of the offline judge: the first sign, or that nothing was seen."""
    if not evidence.signs:
        return {
            "reasoning": "no rule of the program saw what went wrong",
            "decisive_turn": None,
            "owner": None,
            "should_have": "",
            "quotes": [],
            "confidence": "low",
            "rule": "none",
        }
    best = evidence.signs[0]
    return {
        "reasoning": best.reason,
        "decisive_turn": best.turn,
        "owner": best.owner,
        "should_have": best.should_have,
        "quotes": [quote.text for quote in best.quotes],
        "confidence": best.confidence,
        "rule": best.rule,
    }
