"""What is sent and answered about causes over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from assizes.deployments.web.people_schemas import CaseName, PersonName, PersonText, RowId
from assizes.judge.causes.edits import CauseEdit, EditKind


class CauseRow(BaseModel):
    """A row of table causes, with what people decided."""

    model_config = ConfigDict(extra="ignore")

    cause_id: str
    name: str
    state: str = Field(
        description="new, first_seen, persisting, worse, better, gone, not_seen, merged"
    )
    merged_into: str | None
    cases: int
    share: float | None = Field(description="of the judged cases, 0..1")
    share_low: float | None
    share_high: float | None
    points: float | None = Field(description="taken from the average score, 0..100")
    first_run: str | None
    baseline_share: float | None
    change_low: float | None
    change_high: float | None
    sentence: str | None = Field(
        description="what a judge said about the first example, or what somebody wrote"
    )
    described_by: str | None = Field(
        description="who wrote the sentence; null: a judge said it about the first example"
    )
    examples: list[str] | None
    owner: str | None
    muted: bool


class RunCausesAnswer(BaseModel):
    """The causes of a run, those first that take most points."""

    run_id: str
    baseline: str | None = Field(description="the run before, of which the states speak")
    causes: list[CauseRow]
    failed_cases_without_cause: int


class EditBody(BaseModel):
    """What a person decides about a cause."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: EditKind
    value: str = Field(
        default="",
        max_length=300,
        description="the name, the sentence, the owner, the cause to merge into, or the edit that is withdrawn",
    )
    case_ids: list[CaseName] = Field(default=[], description="that a split takes out of the cause")
    author: PersonName
    note: PersonText = ""
    edit_id: RowId | None = Field(default=None, description="the same id again writes nothing")

    def edit(self, cause: str) -> CauseEdit:
        """The same as an edit of a cause."""
        return CauseEdit(
            cause,
            self.kind,
            self.value,
            tuple(self.case_ids),
            self.author,
            self.note.strip(),
            self.edit_id or "",
        )


class EditAnswer(BaseModel):
    """An edit of a cause; the rows of a split are one edit."""

    edit_id: str
    run_id: str
    cause_id: str
    kind: str
    value: str
    case_ids: list[str]
    author: str
    at: datetime  # UTC
    note: str
    supersedes: str | None
    undone: bool = Field(description="it no longer counts")


class EditsAnswer(BaseModel):
    """The edits of one cause in order of time."""

    data: list[EditAnswer]
    count: int

    @classmethod
    def of(cls, entries: list[dict[str, Any]]) -> EditsAnswer:
        """From the entries of `cause_history`."""
        return cls(data=[EditAnswer.model_validate(entry) for entry in entries], count=len(entries))
