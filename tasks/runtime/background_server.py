"""The background Prefect server of `assizes up`: where it is written down, and flows that find it."""

from __future__ import annotations

import json
import logging
from collections.abc import Coroutine
from typing import Any, Final, ParamSpec, TypeVar

import httpx
from prefect import Flow
from prefect.context import FlowRunContext
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS,
    temporary_settings,
)

from assizes.tasks.runtime.server_place import state_file

P = ParamSpec("P")
R = TypeVar("R")
AnyFlow = TypeVar("AnyFlow", bound=Flow[..., Any])

HEALTH_TIMEOUT_S: Final = 1.0
"""Seconds to wait for the answer of a server on this machine."""

STARTUP_TIMEOUT_S: Final = 120
"""Seconds that a temporary server has to start; Prefect's own 20 are too few for a busy machine."""

log = logging.getLogger(__name__)


def background_api_url() -> str | None:
    """The address of the server of `assizes up`, if it answers; else `None`."""
    try:
        url = str(json.loads(state_file().read_text(encoding="utf-8"))["api_url"])
        answer = httpx.get(f"{url}/health", timeout=HEALTH_TIMEOUT_S, trust_env=False)
    except (OSError, ValueError, TypeError, KeyError, httpx.HTTPError, httpx.InvalidURL):
        return None
    return url if answer.is_success else None


class ServedFlow(Flow[P, R]):
    """A flow that runs on the server of `assizes up` where no other server is configured."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the flow; see `Flow.__call__`."""
        work: Any = super().__call__(*args, **kwargs)
        is_subflow = FlowRunContext.get() is not None
        # A command has looked for a server itself, and gives a temporary one the longer time.
        is_command = PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS.value() >= STARTUP_TIMEOUT_S
        is_settled = is_subflow or is_command or PREFECT_API_URL.value()
        return work if is_settled else _on_server(work)


def finds_server(flow: AnyFlow) -> AnyFlow:
    """The same flow as a `ServedFlow`; a flow of Prefect's own decorator, which deployments expect."""
    changed: Any = flow
    changed.__class__ = ServedFlow
    return flow


async def _on_server(work: Coroutine[Any, Any, Any]) -> Any:
    """The result of a flow on the server of `assizes up`, else on a temporary one."""
    url = background_api_url()
    if url is not None:
        with temporary_settings({PREFECT_API_URL: url}):
            return await work
    log.warning(
        "no Prefect server is configured and none of `assizes up` runs, so a temporary one starts "
        "(12 to 20 s); `assizes up` keeps one running, and assizes.evaluate(config) needs none"
    )
    timeout = {PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: STARTUP_TIMEOUT_S}
    with temporary_settings(timeout):
        return await work
