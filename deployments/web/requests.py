"""Bodies of the operations that begin a flow run or emit an event, and their responses."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

RunId = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
Name = Annotated[
    str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:+@-]*$")
]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class _RequestBody(BaseModel):
    """A body that refuses other fields; everything that it cannot set is as it was deployed."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class EvaluateParameters(_RequestBody):
    """Parameters of one evaluation."""

    on: date | None = Field(default=None, description="for date placeholders in the URI")
    run_id: RunId | None = Field(default=None, description="name a run, or go on with it")


class NightlyParameters(_RequestBody):
    """Parameters of a nightly run."""

    on: date | None = Field(default=None, description="this day alone; null: what is due")


class BackfillParameters(_RequestBody):
    """Parameters of a backfill of a range of days."""

    since: date = Field(description="the first day")
    until: date | None = Field(default=None, description="the last day; null: yesterday")

    @model_validator(mode="after")
    def _forwards(self) -> BackfillParameters:
        if self.until is not None and self.until < self.since:
            raise ValueError(f"until {self.until} is before since {self.since}")
        return self


class VersionParameters(_RequestBody):
    """Parameters of a run after a deployment: the version that was deployed."""

    version: Name = Field(description="agent_version of the transcripts")
    agent: Name | None = Field(default=None, description="null: whatever agent says that version")
    min_transcripts: Count | None = Field(default=None, description="null: as configured")


class CompareParameters(_RequestBody):
    """Parameters of a comparison."""

    baseline: RunId
    candidate: RunId


class Evaluate(_RequestBody):
    """One evaluation."""

    flow: Literal["evaluate"]
    parameters: EvaluateParameters = EvaluateParameters()


class Nightly(_RequestBody):
    """Yesterday's transcripts, and those of nights that were missed."""

    flow: Literal["nightly"]
    parameters: NightlyParameters = NightlyParameters()


class Backfill(_RequestBody):
    """A range of days, a run for each."""

    flow: Literal["backfill"]
    parameters: BackfillParameters


class AfterDeployment(_RequestBody):
    """A new version beside the one before."""

    flow: Literal["after-deployment"]
    parameters: VersionParameters


class Compare(_RequestBody):
    """Two stored runs."""

    flow: Literal["compare"]
    parameters: CompareParameters


StartRequest = Evaluate | Nightly | Backfill | AfterDeployment | Compare


def request_parameters(request: BaseModel) -> dict[str, Any]:
    """The fields of a request that are set, as JSON values."""
    return request.model_dump(mode="json", exclude_none=True)


class ModelDeployed(_RequestBody):
    """A model or an agent went live in a new version."""

    model: Name = Field(description="the event is about the resource model.<this>")
    version: Name = Field(description="agent_version of its transcripts")
    agent: Name | None = Field(default=None, description="null: whatever agent says that version")
    min_transcripts: Count | None = Field(default=None, description="null: as configured")


class Begun(BaseModel):
    """A flow run that waits for a worker."""

    flow_run_id: str
    flow_run_name: str
    deployment: str = Field(description="flow/name, as Prefect names it")
    state: str = Field(description="of the flow run by now")
    url: str = Field(description="of its page on the Prefect server")


class Emitted(BaseModel):
    """An event that the Prefect server accepted."""

    event_id: str
    event: str
    resource: str
