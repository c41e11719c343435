"""A probe: what a judge may look at of the state that a run left, as the case declares it."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field, model_validator

MOST_PROBES: Final = 20
"""The most probes that a case may declare."""


class StateProbe(BaseModel):
    """A database or a folder of files that a judge may read; nothing is ever written to either.

    With `sql` or `file` it is one statement or one file. Without, the judge chooses: it writes
    SELECT statements of its own, or names files of the folder.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, max_length=60)
    description: str = Field(default="", max_length=600, description="what it shows, for the judge")
    database: str | None = Field(
        default=None, max_length=1000, description="SQLite or DuckDB file, read as a copy"
    )
    sql: str | None = Field(
        default=None, max_length=10_000, description="the one statement; null: the judge writes it"
    )
    folder: str | None = Field(
        default=None, max_length=1000, description="snapshot of the files that the run left"
    )
    file: str | None = Field(
        default=None, max_length=1000, description="the one file of the folder; null: any of it"
    )

    @model_validator(mode="after")
    def _one_source(self) -> StateProbe:
        if (self.database is None) == (self.folder is None):
            raise ValueError(f"probe {self.name!r}: give database or folder, and not both")
        if self.sql is not None and self.database is None:
            raise ValueError(f"probe {self.name!r}: sql needs a database")
        if self.file is not None and self.folder is None:
            raise ValueError(f"probe {self.name!r}: file needs a folder")
        return self
