"""The verdict of a run as a CI job shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MAX_WHY: Final = 10
"""The most reasons that an annotation of the job names."""


@dataclass(frozen=True, slots=True)
class CiVerdict:
    """The end of a run, what it was compared with, and by which commits."""

    name: str  # of the runs
    run_id: str
    word: str  # such as PASSED or REGRESSION
    exit_code: int
    reasons: tuple[str, ...]
    commit: str | None  # `None`: no repository
    base: str  # which run it was compared with, or why there is none, as a sentence

    @property
    def title(self) -> str:
        """The verdict in a few words."""
        return f"assizes: {self.word}: {self.name}"

    @property
    def why(self) -> str:
        """The reasons and what the run was compared with, as one line."""
        return "; ".join((*self.reasons[:MAX_WHY], self.base))
