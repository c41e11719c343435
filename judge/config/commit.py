"""The commit of the code that a run judged, as the snapshot of its configuration keeps it."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field

GIT: Final = "git"
"""Key in the snapshot of a run's configuration: the `CommitFacts` of a run of `assizes ci`."""


class CommitFacts(BaseModel):
    """Which commit a run is about. Runs of two commits are two runs, over the same input as well."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    commit: str = Field(pattern="^[0-9a-f]{40,64}$")
    branch: str | None = None  # `None`: not known, as on a detached head
    dirty: bool = False  # files differ from the commit, so the run is no baseline for others
    change: str | None = None  # number of the pull request or merge request; `None`: a push

    @property
    def identity(self) -> str:
        """What the id of the run depends on."""
        return f"{self.commit}-dirty" if self.dirty else self.commit
