"""The API operations that begin a flow run on a Prefect server or emit an event to it."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Header, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from assizes.deployments.options import RUN_NAMES
from assizes.deployments.server import find_api_url
from assizes.deployments.settings import prepare_environment
from assizes.deployments.web.guard import problem_responses
from assizes.judge.errors import AssizesError, ServerGone

router = APIRouter()

# No slash and no leading dot: ids become parts of paths.
RunId = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
RunReference = Annotated[
    str,
    Field(
        min_length=1,
        max_length=160,
        pattern=r"^[A-Za-z0-9_][A-Za-z0-9._@~-]*$",
        description=f"{RUN_NAMES}; settled when the flow run starts",
    ),
]
Name = Annotated[
    str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][A-Za-z0-9._:+@-]*$")
]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class _RequestBody(BaseModel):
    """A body that refuses other fields; everything that it cannot set is as it was deployed."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    def set_fields(self) -> dict[str, Any]:
        """The fields that are set, as JSON values."""
        return self.model_dump(mode="json", exclude_none=True)


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
    agent: Name | None = Field(default=None, description="null: any agent that has this version")
    min_transcripts: Count | None = Field(default=None, description="null: as configured")


class CompareParameters(_RequestBody):
    """The two stored runs that are compared."""

    baseline: RunReference
    candidate: RunReference


class Evaluate(_RequestBody):
    """Begin one evaluation: judge the configured transcripts, store the rows, compare, report."""

    flow: Literal["evaluate"]
    parameters: EvaluateParameters = EvaluateParameters()


class Nightly(_RequestBody):
    """Begin a nightly run: yesterday's transcripts, and those of nights that were missed."""

    flow: Literal["nightly"]
    parameters: NightlyParameters = NightlyParameters()


class Backfill(_RequestBody):
    """Begin a backfill: a range of days, a run for each."""

    flow: Literal["backfill"]
    parameters: BackfillParameters


class AfterDeployment(_RequestBody):
    """Begin an evaluation of a new version of an agent, compared with the version before."""

    flow: Literal["after-deployment"]
    parameters: VersionParameters


class Compare(_RequestBody):
    """Begin a comparison of two stored runs."""

    flow: Literal["compare"]
    parameters: CompareParameters


StartRequest = Evaluate | Nightly | Backfill | AfterDeployment | Compare


class ModelDeployed(_RequestBody):
    """A model or an agent went live in a new version."""

    model: Name = Field(description="the event is about the resource model.<this>")
    version: Name = Field(description="agent_version of its transcripts")
    agent: Name | None = Field(default=None, description="null: any agent that has this version")
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


Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=128,
        pattern=r"^[A-Za-z0-9._:-]+$",
        description="the same key with the same body again begins nothing (an event: for 30 minutes)",
    ),
]


@router.post("/runs", status_code=202, tags=["runs"], responses=problem_responses(400, 409, 503))
def start(
    request: Request, body: Annotated[StartRequest, Body(discriminator="flow")], key: Key = None
) -> Begun:
    """Begin a run: a flow run of a deployment that `assizes deploy` registered, for a worker."""
    api_url = _server()  # sets what Prefect reads while it is imported
    from assizes.deployments.registration.begin import begin_flow_run

    # A request names a flow; models, places and budgets are those deployed (decision 87).
    deployment = f"{body.flow}/assizes-{request.app.state.name}"
    run, page = begin_flow_run(api_url, deployment, body.parameters.set_fields(), key)
    return Begun(
        flow_run_id=str(run.id),
        flow_run_name=run.name,
        deployment=deployment,
        state=run.state_name or "Scheduled",
        url=page,
    )


@router.post(
    "/events/model-deployed", status_code=202, tags=["runs"], responses=problem_responses(400, 503)
)
def model_deployed(body: ModelDeployed, key: Key = None) -> Emitted:
    """Say that a model was deployed: the event model.deployed, which begins after-deployment."""
    api_url = _server()
    from assizes.deployments.registration.automations import DEPLOYED_EVENT
    from assizes.deployments.registration.begin import emit_deployed

    payload = body.set_fields()
    event_id, resource = emit_deployed(api_url, payload.pop("model"), payload, key)
    return Emitted(event_id=event_id, event=DEPLOYED_EVENT, resource=resource)


def _server() -> str:
    """The API address of a Prefect server, looked up for each request: servers come and go."""
    try:
        api_url = find_api_url()
    except AssizesError as error:
        raise ServerGone(str(error)) from error  # 503: the request is not at fault
    if api_url is None:
        raise ServerGone(
            "there is no Prefect server to begin runs on; start one with `assizes up`, or set "
            "PREFECT_API_URL for `assizes serve`; then `assizes deploy`"
        )
    prepare_environment()
    return api_url
