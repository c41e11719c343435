"""The causes of failures of a run, in report.json and in the API."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class CauseLine(_Part):
    """What several failed cases have in common, and what became of it since the run before."""

    cause_id: str = Field(description="the same from run to run")
    name: str
    state: str = Field(description="new, first_seen, persisting, worse, better, gone, not_seen")
    cases: int = Field(description="judged cases that show it")
    share: float = Field(description="of the judged cases, 0..1")
    low: float | None = Field(description="of the 95 % interval of the share")
    high: float | None
    baseline_share: float | None = Field(description="in the run before; null: there is none")
    points: float = Field(description="that the cause takes from the average score, 0..100")
    sentence: str = Field(
        description="what a judge said about the first example, or what somebody wrote; may be empty"
    )
    described_by: str | None = Field(
        default=None, description="who wrote the sentence; null: a judge said it about a case"
    )
    examples: list[str] = Field(description="ids of the cases that show it best")
    owner: str | None = Field(default=None, description="whom a person named; null: nobody")
    muted: bool = Field(default=False, description="a person wants nobody to be told about it")
    word: str = Field(description="the state in words")
    shown: str = Field(description="the numbers in words")

    @property
    def line(self) -> str:
        """The cause as one line: its name, its state, and its numbers."""
        return f"{self.name}: {self.word}, {self.shown}"


class Causes(_Part):
    """The causes of a run, those first that take most points."""

    baseline: str | None = Field(description="the run before, of which the states speak")
    first: list[CauseLine] = Field(description="those that the first screen names")
    shown: list[CauseLine]
    unexplained: int = Field(description="failed cases that have no cause in common with others")
