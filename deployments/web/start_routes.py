"""The API operations that begin a flow run on a Prefect server or emit an event to it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Header, Request

from assizes.deployments.server import find_api_url
from assizes.deployments.settings import prepare_environment
from assizes.deployments.web.problems import problem_responses
from assizes.deployments.web.requests import (
    Begun,
    Emitted,
    ModelDeployed,
    StartRequest,
    request_parameters,
)
from assizes.judge.errors import AssizesError, ServerGone

router = APIRouter()

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
    api_url = _server()
    from assizes.deployments.registration.begin import begin_flow_run

    deployment = f"{body.flow}/assizes-{request.app.state.name}"
    run, page = begin_flow_run(api_url, deployment, request_parameters(body.parameters), key)
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

    payload = request_parameters(body)
    event_id, resource = emit_deployed(api_url, payload.pop("model"), payload, key)
    return Emitted(event_id=event_id, event=DEPLOYED_EVENT, resource=resource)


def _server() -> str:
    """The address of a Prefect server's API; looked up for each request, for servers come and go.

    Raises:
        ServerGone: there is no server, or it does not answer.
    """
    try:
        api_url = find_api_url()
    except AssizesError as error:
        raise ServerGone(str(error)) from error
    if api_url is None:
        raise ServerGone(
            "there is no Prefect server to begin runs on; start one with `assizes up`, or set "
            "PREFECT_API_URL for `assizes serve`; then `assizes deploy`"
        )
    prepare_environment()
    return api_url
