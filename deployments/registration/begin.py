"""Begin a flow run of a registered deployment, and emit an event to the Prefect server."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final
from uuid import UUID, uuid4, uuid5

import httpx
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import DeploymentSort
from prefect.events import Event, Resource
from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError
from prefect.settings import PREFECT_API_URL, PREFECT_UI_URL, temporary_settings

from assizes.deployments.registration.automations import DEPLOYED_EVENT
from assizes.judge.errors import ConfigurationError, ServerGone, TakenKey
from assizes.tasks.publish_report import TAG

REQUEST_LABEL: Final = "assizes.asked"
"""Label of a flow run with the digest of its request: an idempotency key stands for one request."""

_EVENT_NAMESPACE: Final = UUID("6d5a3f0e-5a53-4c57-9f6e-1b0f1f3f7a10")
"""Namespace (RFC 9562, version 5) of event ids made from an idempotency key and a payload."""


def begin_flow_run(
    api_url: str, deployment: str, parameters: Mapping[str, Any], key: str | None
) -> tuple[FlowRun, str]:
    """Begin a flow run of a deployment (flow/name); returns it and the address of its page.

    A second request with the same `key` and content returns the flow run that the first one began.

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
            idempotency_key=None if key is None else f"assizes-http-{key}",  # None: a new one
            labels={REQUEST_LABEL: request_digest},
        )
        page = f"{PREFECT_UI_URL.value() or api_url.removesuffix('/api')}/runs/flow-run/{run.id}"
    # For a key that it knows, the server returns the first flow run, whatever is asked now.
    if run.labels.get(REQUEST_LABEL) != request_digest:
        raise TakenKey(
            f"Idempotency-Key {key!r} began flow run {run.id} with other parameters; give a new key"
        )
    return run, page


def emit_deployed(
    api_url: str, model: str, payload: Mapping[str, Any], key: str | None
) -> tuple[str, str]:
    """Emit the event that a model was deployed; returns its id and the name of its resource.

    Raises:
        ServerGone: the server does not answer.
    """
    resource = f"model.{model}"
    digest = _digest({"key": key, "model": model, "payload": payload})
    event = Event(
        event=DEPLOYED_EVENT,
        resource=Resource({"prefect.resource.id": resource}),
        payload=dict(payload),  # version, agent, transcripts to wait for
        # The same request, the same id: Prefect ignores an id it has seen in the last 30 minutes.
        id=uuid4() if key is None else uuid5(_EVENT_NAMESPACE, digest),
    )
    with _client(api_url) as client:
        client.request("POST", "/events", json=[event.model_dump(mode="json")])
    return str(event.id), resource


def outdated_deployments(api_url: str) -> list[str]:
    """Names (flow/name) of deployments whose entrypoint is older than the package `assizes`.

    Raises:
        ConfigurationError: the server refuses to list them.
        ServerGone: the server does not answer.
    """
    ours = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))  # of any configuration
    names: list[str] = []
    order, seen = DeploymentSort.CREATED_DESC, 0
    with _client(api_url) as client:
        while page := client.read_deployments(deployment_filter=ours, sort=order, offset=seen):
            seen += len(page)
            for deployment in page:
                if (deployment.entrypoint or "").startswith(("flows.", "flows/")):  # module, file
                    flow = client.read_flow(deployment.flow_id)
                    names.append(f"{flow.name}/{deployment.name}")
    return sorted(names)


@contextmanager
def _client(api_url: str) -> Iterator[SyncPrefectClient]:
    """A Prefect client of this server; in the block its errors become errors of this package."""
    try:
        with temporary_settings({PREFECT_API_URL: api_url}), get_client(sync_client=True) as client:
            yield client
    except PrefectHTTPStatusError as error:
        reason = " ".join(error.response.text.split())[:300]  # it can hold a whole schema
        raise ConfigurationError(f"the Prefect server refuses: {reason}") from error
    except httpx.HTTPError as error:
        raise ServerGone(f"the Prefect server does not answer: {error}") from error


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
