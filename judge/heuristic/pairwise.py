"""The offline rule for pairs: the side that covers more of what was asked and expected."""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.families.pairwise.judge import PairEvidence
from assizes.judge.heuristic.rag import content_stems

LEAST_DIFFERENCE: Final = 0.1  # chosen without data
"""The difference of two covered shares, 0..1, from which one side is better."""


def answer(evidence: PairEvidence) -> dict[str, Any]:
    """Return the offline judge's reply: the side with more content words of request and expected.

    The rule reads no meaning: it is a floor, and it prefers no place.
    """
    wanted = content_stems("\n".join((evidence.request, *evidence.expected)))
    shares = [
        len(wanted & content_stems(text)) / len(wanted) if wanted else 0.0
        for text in (evidence.first, evidence.second)
    ]
    apart = round(shares[0] - shares[1], 9)
    better = "tie" if abs(apart) < LEAST_DIFFERENCE else ("first" if apart > 0 else "second")
    why = (
        f"Plain text rule: {shares[0]:.0%} and {shares[1]:.0%} of the content words of the request "
        "and of what is expected occur"
    )
    return {"rationale": f"{why}.", "better": better}
