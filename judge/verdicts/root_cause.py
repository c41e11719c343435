"""The root cause of a failed quality gate, and a suggested fix for it (seed 004).

The ratings of the quality judges are correlated: where the retriever found too little, the answer
will be wrong as well. So the root cause is the first judge that said no in a causal order, not the
most severe rating.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

WITH_GROUND_TRUTH: Final = ("context_sufficiency", "groundedness", "correctness", "safety")
"""The causal order for a case with an expected response or expected facts."""

WITHOUT_GROUND_TRUTH: Final = ("chunk_relevance", "groundedness", "relevance_to_query", "safety")
"""The causal order for a case without an expected response and without expected facts."""

LEFT_OVER: Final = ("chunk_relevance", "relevance_to_query", "context_sufficiency", "correctness")
"""Metrics that stand in one of the two lists only. They come last in the other case, so that every
failed case has a root cause."""

_BUILT_IN: Final = frozenset({*WITH_GROUND_TRUTH, *WITHOUT_GROUND_TRUTH})

RATIONALE_KEYS: Final = ("justification", "rationale", "reasoning", "explanation", "reason")
"""Keys in the details of a score that may hold the judge's explanation, the preferred key first."""

RETRIEVAL_FIX: Final = (
    "Improve retrieval: check that the missing information is indexed at all, then tune chunk "
    "size, query rewriting, filters, the number of passages and their ranking."
)
GENERATION_FIX: Final = (
    "Improve generation: the passages were not what failed; tighten the instructions (answer from "
    "the passages only, answer the question, refuse what is unsafe), or try a stronger model."
)

_RETRIEVAL: Final = frozenset({"context_sufficiency", "chunk_relevance"})


def root_cause(
    failed: Collection[str], declared: Sequence[str], *, has_ground_truth: bool
) -> str | None:
    """The quality metric to which a failure is traced; `None` when no metric failed.

    Args:
        failed: the metrics that said no; a metric without a rating is never among them.
        declared: all quality metrics of the run, in the order of the configured judges.
        has_ground_truth: whether the case holds an expected response or expected facts.
    """
    listed = WITH_GROUND_TRUTH if has_ground_truth else WITHOUT_GROUND_TRUTH
    custom = [name for name in declared if name not in _BUILT_IN]
    return next((name for name in (*listed, *custom, *LEFT_OVER) if name in failed), None)


def suggested_fix(metric: str, run_names: Sequence[str] = ()) -> str:
    """The suggestion for a failure of retrieval or of generation (seed 004).

    Args:
        metric: the root cause.
        run_names: the published names of the metric; those of a retrieval judge that a user wrote
            begin with `retrieval/`.
    """
    retrieval = any(name.startswith("retrieval/") for name in run_names)
    return RETRIEVAL_FIX if retrieval or metric in _RETRIEVAL else GENERATION_FIX


def rationale(details: Mapping[str, Any]) -> str:
    """The judge's explanation in the details of a score; empty where there is none."""
    texts = (details.get(key) for key in RATIONALE_KEYS)
    return next((text for text in texts if isinstance(text, str) and text), "")
