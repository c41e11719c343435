"""Why the quality of a case failed: the first judge that said no, in the causal order of seed 004.

Assessments are correlated: where the retriever brought too little, the answer will be wrong as
well. So the first failing judge of an ordered list is named, not the most severe one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

WITH_GROUND_TRUTH: Final = ("context_sufficiency", "groundedness", "correctness", "safety")
WITHOUT_GROUND_TRUTH: Final = ("chunk_relevance", "groundedness", "relevance_to_query", "safety")

LEFT_OVER: Final = ("chunk_relevance", "relevance_to_query", "context_sufficiency", "correctness")
"""Those that fail a case but stand in one list only: looked at last, so that every failed case has
a root cause."""

_BUILT_IN: Final = frozenset({*WITH_GROUND_TRUTH, *WITHOUT_GROUND_TRUTH})

RATIONALE_KEYS: Final = ("justification", "rationale", "reasoning", "explanation", "reason")
"""Where in the details of a score its judge explains itself."""


def root_cause(
    failed: Collection[str], declared: Sequence[str], *, has_ground_truth: bool
) -> str | None:
    """The quality metric to which a failure is traced; null when none failed.

    Args:
        failed: metrics that said no; one that could not be had is never among them.
        declared: all quality metrics of the court in its order, which is that of custom judges.
        has_ground_truth: whether the case says what the answer should have been.
    """
    listed = WITH_GROUND_TRUTH if has_ground_truth else WITHOUT_GROUND_TRUTH
    custom = [name for name in declared if name not in _BUILT_IN]
    return next((name for name in (*listed, *custom, *LEFT_OVER) if name in failed), None)


def rationale(details: Mapping[str, Any]) -> str:
    """What a judge wrote about its finding; empty where it wrote nothing."""
    texts = (details.get(key) for key in RATIONALE_KEYS)
    return next((text for text in texts if isinstance(text, str) and text), "")
