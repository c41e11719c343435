"""How scores that this program writes into a trace store are told from those of others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

RUN_KEY: Final = "assizes.run_id"
"""The key, in the metadata of each score that is written, whose value is the id of its run.

Whoever reads traces leaves such scores out: otherwise publishing a run would change its input."""


def is_own_score(metadata: Any) -> bool:
    """Whether the metadata of a score say that this program wrote the score."""
    return isinstance(metadata, Mapping) and RUN_KEY in metadata
