"""Finds the Prefect server for a flow that a program calls: `await evaluate(config)`.

Commands and workers have found theirs before; a flow that is called within a flow uses the same one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from functools import cache, partial
from typing import Any, Final, TypeVar

from prefect import Flow
from prefect.context import FlowRunContext
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS,
    temporary_settings,
)

from assizes.tasks.runtime.prefect_server import STARTUP_TIMEOUT_S, find_api
from assizes.tasks.runtime.process import prepare_process
from assizes.tasks.runtime.temporary_server import tie_server_to_process

log = logging.getLogger(__name__)

_Made = TypeVar("_Made", bound="Flow[..., Any]")

TEMPORARY_SERVER: Final = (
    "no Prefect server is configured or running: a temporary one starts (12 to 20 s); `assizes up` "
    "keeps one running, which is then found, and PREFECT_API_URL names another"
)


def finds_server(flow: _Made) -> _Made:
    """A flow that, called by a program, runs on the server configured or that of `assizes up`."""
    made: Any = flow
    made.__class__ = _ServedFlow  # Prefect's decorator makes no subclass
    return flow


class _ServedFlow(Flow[..., Any]):
    """A flow whose calls look for a server first."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        flow: Any = super()
        call = partial(flow.__call__, *args, **kwargs)
        return call() if FlowRunContext.get() is not None else _on_server(call)


async def _on_server(call: Callable[[], Awaitable[Any]]) -> Any:
    prepare_process()  # before a server starts: it reports to nobody
    changes = await asyncio.to_thread(_server_settings)
    # Prefect reads all of its settings anew for a change: a tenth of a second.
    with temporary_settings(changes) if changes else nullcontext():
        return await call()


def _server_settings() -> Mapping[Any, Any]:
    """The settings to change, so that Prefect finds its server; raises as `find_api`."""
    configured = PREFECT_API_URL.value()
    api_url = find_api(configured)
    if api_url is not None:
        return {} if api_url == configured else {PREFECT_API_URL: api_url}
    tie_server_to_process()
    # A longer limit than Prefect's 20 s: whoever set it knows that a temporary server starts.
    if PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS.value() < STARTUP_TIMEOUT_S:
        _announce_temporary_server()
    return {PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS: int(STARTUP_TIMEOUT_S)}


@cache  # a process starts one such server, whatever it calls later
def _announce_temporary_server() -> None:
    log.warning("%s", TEMPORARY_SERVER)
