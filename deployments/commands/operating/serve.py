"""`assizes serve`: serve the HTTP API and the pages over a store."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from assizes.deployments.json_log import tell_user
from assizes.deployments.settings import API_TOKEN, api_token, read_optional_config
from assizes.judge.errors import ConfigurationError

SHORTEST_TOKEN = 16
"""Least characters of an API token."""


@dataclass(frozen=True, slots=True)
class BindAddress:
    """Where the server listens, and further names that a `Host` header may give."""

    host: str = "127.0.0.1"
    port: int = 8320
    allowed: Sequence[str] = ()


def serve(file: Path | None, store: str | None, bind: BindAddress) -> int:
    """Serve a store until interrupted.

    Args:
        file: configuration file.
        store: value of `--store`.
        bind: the address to listen on.

    Returns:
        0.

    Raises:
        ConfigurationError: other machines reach the address and no token is set, the token is too
            short, or the port is taken.
    """
    import uvicorn

    from assizes.deployments.api import create_app
    from assizes.deployments.web.guard import LOOPBACK, Access, allowed_hosts

    token = _checked_token(bind.host, is_public=bind.host not in LOOPBACK)
    config = read_optional_config(file)
    if store is not None:
        config = config.model_copy(update={"store": config.store.model_copy(update={"uri": store})})
    app = create_app(config, Access(allowed_hosts(bind.host, bind.allowed), token))
    _freeze_loaded_objects()
    tell_user(f"serving {config.store.uri} on http://{bind.host}:{bind.port}")
    server = uvicorn.Server(
        uvicorn.Config(
            app,
            host=bind.host,
            port=bind.port,
            log_level="warning",
            server_header=False,
            limit_concurrency=64,
            timeout_keep_alive=10,
            h11_max_incomplete_event_size=32 * 1024,
        )
    )
    try:
        server.run()
    except SystemExit:  # how uvicorn says that it could not start
        raise ConfigurationError(
            f"--host {bind.host} --port {bind.port}: cannot listen there; is it taken?"
        ) from None
    return 0


def _checked_token(host: str, *, is_public: bool) -> str | None:
    """The token of the API, which a public address must have, or `None`."""
    token = api_token()
    if token is None and is_public:
        raise ConfigurationError(
            f"--host {host}: others can reach it; set {API_TOKEN} to a token of at least "
            f"{SHORTEST_TOKEN} characters, or leave the host out"
        )
    if token is not None and len(token) < SHORTEST_TOKEN:
        raise ConfigurationError(
            f"{API_TOKEN}: has {len(token)} characters, at least {SHORTEST_TOKEN} are needed"
        )
    return token


def _freeze_loaded_objects() -> None:
    """Exclude all loaded modules from garbage collection.

    A full collection that visits them delays a response by a tenth of a second.
    """
    gc.collect()
    gc.freeze()
