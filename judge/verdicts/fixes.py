"""What to try when the quality of a case failed: one text for retrieval, one for generation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

RETRIEVAL_FIX: Final = (
    "Improve retrieval: check that the missing information is indexed at all, then tune chunk "
    "size, query rewriting, filters, the number of passages and their ranking."
)
GENERATION_FIX: Final = (
    "Improve generation: the passages were not what failed; tighten the instructions (answer from "
    "the passages only, answer the question, refuse what is unsafe), or try a stronger model."
)

_RETRIEVAL: Final = frozenset({"context_sufficiency", "chunk_relevance"})


def suggested_fix(root_cause: str, run_names: Sequence[str] = ()) -> str:
    """The text for a root cause (seed 004: retrieval or generation).

    Args:
        root_cause: the metric that a failure is traced to.
        run_names: its published names; those of custom retrieval judges begin with `retrieval/`.
    """
    retrieval = any(name.startswith("retrieval/") for name in run_names)
    return RETRIEVAL_FIX if retrieval or root_cause in _RETRIEVAL else GENERATION_FIX
