"""`assizes serve`: the FastAPI application with the HTTP API and the pages over one store."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from fastapi import Depends, FastAPI

from assizes.deployments.server import check_port
from assizes.deployments.settings import API_TOKEN, api_token, read_optional_config
from assizes.deployments.terminal import tell_user
from assizes.deployments.web import (
    calibration_page,
    finding_routes,
    guard,
    label_routes,
    login,
    pages,
    read_routes,
    saved_views,
    side_by_side,
    start_routes,
)
from assizes.deployments.web.causes import pages as cause_pages
from assizes.deployments.web.causes import routes as cause_routes
from assizes.deployments.web.labelling import annotate, desk, labels_page
from assizes.deployments.web.load.places import Places
from assizes.deployments.web.query_names import refuse_unknown_parameters
from assizes.deployments.web.read_routes import StoreReader
from assizes.judge.config.run import RunConfig, StoreConfig
from assizes.judge.errors import ConfigurationError, NoStore, StoreBusy
from assizes.tasks.runtime.process import install_log_redaction
from assizes.tasks.store import open_store

DESCRIPTION = """\
Evaluation runs of agent conversations: what was judged, what got worse, and why.

Numbers have the names and units of the rows (docs/rows.md). Errors are problem documents (RFC 9457).
"""


def create_app(config: RunConfig, access: guard.Access) -> FastAPI:
    """Build the application over the store of a configuration, for requests that have access."""
    # The command has done so; an app that is served by other means hides secrets too.
    install_log_redaction()
    app = FastAPI(
        title="Assizes",
        version=version("assizes"),
        description=DESCRIPTION,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        responses=guard.problem_responses(401, 422),
        dependencies=[Depends(refuse_unknown_parameters)],
    )
    app.state.library = StoreReader(config.store, labelling=access.labelling)
    app.state.access = access
    app.state.comparison = config.comparison
    app.state.calibration = config.calibration
    app.state.name = config.name
    app.state.rubrics = config.judge.rubrics
    app.state.series = config.series
    people = (label_routes, desk, labels_page, annotate, login, side_by_side, calibration_page)
    # Before `read_routes`: there the rest of a path is the id of a case.
    finders = (finding_routes, saved_views, cause_routes, cause_pages)
    for module in (*finders, read_routes, start_routes, *people, pages):
        app.include_router(module.router)
    guard.install_handlers(app, pages.problem_page)
    _describe_problems(app)
    app.add_middleware(Places, busy=guard.busy_response, open_path=guard.OPEN)
    # Outside of all that answers: defects have headers too, and nobody shares an answer who may not
    # ask.
    app.add_middleware(guard.Guard, access=access, login_page=login.login_page)
    app.add_middleware(guard.HeadAsGet)
    return app


def _describe_problems(app: FastAPI) -> None:
    """Add the schema `Problem`, which operations refer to, and drop FastAPI's own error schemas."""
    build_schema = app.openapi

    def openapi() -> dict[str, object]:
        document = build_schema()
        schemas = document["components"]["schemas"]
        if "Problem" not in schemas:  # FastAPI keeps the document between requests
            body = guard.Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas |= {**body.pop("$defs", {}), "Problem": body}  # and `Fault`
            schemas.pop("HTTPValidationError", None)
            schemas.pop("ValidationError", None)
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # the way FastAPI documents


SHORTEST_TOKEN = 16
"""Least characters of an API token."""


def serve(
    file: Path | None,
    store: str | None,
    host: str,
    port: int,
    allowed: Sequence[str],
    *,
    labelling: bool = False,
) -> None:
    """Serve a store until interrupted; `allowed` are further names that a `Host` header may give.

    With `labelling`, people may label cases and comment on them; else nothing is written.

    Raises:
        ConfigurationError: other machines reach the address, or people may label, and no token is
            set; the token is too short; or the port is taken.
        StoreError: the store cannot be read.
    """
    import uvicorn

    from assizes.deployments.web.connections import BoundedProtocol

    token = _checked_token(host, is_public=host not in guard.LOOPBACK, labelling=labelling)
    config = read_optional_config(file)
    if store is not None:
        config = config.model_copy(update={"store": config.store.at(store)})
    check_port(host, port, "give another --port or --host")
    _check_store(config.store)
    access = guard.Access(guard.allowed_hosts(host, allowed), token, labelling=labelling)
    app = create_app(config, access)
    # A full garbage collection that visits all loaded modules delays a response by 0.1 s.
    gc.collect()
    gc.freeze()
    tell_user(f"serving {config.store.uri} on http://{host}:{port}")
    settings = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="warning",  # no line for each request
        server_header=False,  # no version for a scanner
        http=BoundedProtocol,
        timeout_keep_alive=10,  # seconds without a request
        h11_max_incomplete_event_size=32 * 1024,  # bytes of request line and headers
    )
    uvicorn.Server(settings).run()


def _check_store(config: StoreConfig) -> None:
    """Check that a store can be read; one that is not there yet, or is being written, is served."""
    try:
        open_store(config).close()
    except NoStore as error:
        tell_user(str(error))
    except StoreBusy:
        pass


def _checked_token(host: str, *, is_public: bool, labelling: bool) -> str | None:
    token = api_token()
    remedy = f"set {API_TOKEN} to a token of at least {SHORTEST_TOKEN} characters"
    if token is None and labelling:
        raise ConfigurationError(f"--labelling: people write to the store; {remedy}")
    if token is None and is_public:
        raise ConfigurationError(
            f"--host {host}: others can reach it; {remedy}, or leave the host out"
        )
    if token is not None and len(token) < SHORTEST_TOKEN:
        fault = f"has {len(token)} characters, at least {SHORTEST_TOKEN} are needed"
        raise ConfigurationError(f"{API_TOKEN}: {fault}")
    return token  # None: loopback alone, open to the users of this machine
