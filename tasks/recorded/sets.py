"""All recorded sets, in the order of the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from assizes.tasks.recorded import (
    devai,
    expertqa,
    llmbar,
    llmjudge,
    pandalm,
    tau2_judges,
    tau3_truth,
    xstest,
)
from assizes.tasks.recorded.values import RecordedSet

SETS: Final[Mapping[str, Callable[[Path], RecordedSet]]] = {
    "LLMJudge": llmjudge.read,
    "PandaLM": pandalm.read,
    "tau2 airline": tau2_judges.read,
    "tau3 truth": tau3_truth.read,
    "DevAI": devai.read,
    "XSTest": xstest.read,
    "ExpertQA": expertqa.read,
    "LLMBar": llmbar.read,
}
"""The reader of each set."""


def read_sets(folder: Path) -> list[RecordedSet]:
    """Read every set below a folder.

    Raises:
        ConfigurationError: a set is missing, or one of its files cannot be read.
    """
    return [read(folder) for read in SETS.values()]
