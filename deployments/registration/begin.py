"""Begin a flow run of a registered deployment, and tell the Prefect server of an event."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID, uuid4, uuid5

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.objects import FlowRun
from prefect.events import Event, Resource
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL, PREFECT_UI_URL, temporary_settings

from assizes.deployments.registration.automations import DEPLOYED_EVENT
from assizes.judge.errors import ConfigurationError, ServerGone, TakenKey

REQUEST_LABEL: Final = "assizes.asked"
"""The label that tells what a flow run was asked for, so that a key stands for one request."""

_EVENT_NAMESPACE: Final = UUID("6d5a3f0e-5a53-4c57-9f6e-1b0f1f3f7a10")
"""In which ids of events are made of an idempotency key and what was told with it."""


def begin_flow_run(
    api_url: str, deployment: str, parameters: Mapping[str, Any], key: str | None
) -> tuple[FlowRun, str]:
    """A flow run of a deployment; with a key that was used before, the one from then.

    Args:
        api_url: of the Prefect server.
        deployment: flow/name.
        parameters: those that differ from the deployment's.
        key: of the caller, so that the same request again begins nothing.

    Returns:
        The flow run, and the address of its page.

    Raises:
        ConfigurationError: there is no such deployment, or the server refuses its parameters.
        TakenKey: the key was used for another request.
        ServerGone: the server does not answer.
    """
    request_digest = _digest({"deployment": deployment, "parameters": parameters})
    with _client(api_url) as client:
        try:
            stored_deployment = client.read_deployment_by_name(deployment)
        except ObjectNotFound:
            raise ConfigurationError(
                f"the Prefect server has no deployment {deployment!r}; `assizes deploy` with the "
                "configuration of this server registers it"
            ) from None
        run = client.create_flow_run_from_deployment(
            stored_deployment.id,
            parameters=dict(parameters),
            idempotency_key=None if key is None else f"assizes-http-{key}",
            labels={REQUEST_LABEL: request_digest},
        )
        page = f"{PREFECT_UI_URL.value() or api_url.removesuffix('/api')}/runs/flow-run/{run.id}"
    if run.labels.get(REQUEST_LABEL) != request_digest:
        raise TakenKey(
            f"Idempotency-Key {key!r} began flow run {run.id} with other parameters; give a new key"
        )
    return run, page


def emit_deployed(
    api_url: str, model: str, payload: Mapping[str, Any], key: str | None
) -> tuple[str, str]:
    """Tell that a model was deployed; the same told with the same key is the same event.

    Prefect passes over an event whose id it has seen in the last 30 minutes.

    Returns:
        Id of the event, and the resource it is about.

    Raises:
        ServerGone: the server does not answer.
    """
    resource = f"model.{model}"
    digest = _digest({"key": key, "model": model, "payload": payload})
    event = Event(
        event=DEPLOYED_EVENT,
        resource=Resource({"prefect.resource.id": resource}),
        payload=dict(payload),
        id=uuid4() if key is None else uuid5(_EVENT_NAMESPACE, digest),
    )
    with _client(api_url) as client:
        client.request("POST", "/events", json=[event.model_dump(mode="json")])
    return str(event.id), resource


@contextmanager
def _client(api_url: str) -> Iterator[SyncPrefectClient]:
    """A client of this server, whose errors are ours."""
    try:
        with (
            temporary_settings({PREFECT_API_URL: api_url}),
            get_client(sync_client=True) as client,
        ):
            yield client
    except PrefectHTTPStatusError as error:
        reason = " ".join(error.response.text.split())[:300]
        raise ConfigurationError(f"the Prefect server refuses: {reason}") from error
    except httpx.HTTPError as error:
        raise ServerGone(f"the Prefect server does not answer: {error}") from error


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
