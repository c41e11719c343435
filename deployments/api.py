"""The FastAPI application that `assizes serve` runs: the HTTP API and the pages over one store."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import FastAPI

from assizes.deployments.web import pages, problems, read_routes, start_routes
from assizes.deployments.web.guard import Access, Guard
from assizes.deployments.web.library import StoreReader
from assizes.deployments.web.problems import Problem, problem_responses
from assizes.judge.config.run import RunConfig
from assizes.tasks.runtime.log_redaction import install_log_redaction

DESCRIPTION = """\
Evaluation runs of agent conversations: what was judged, what got worse, and why.

Numbers have the names and units of the rows (docs/rows.md). Errors are problem documents (RFC 9457).
"""


def create_app(config: RunConfig, access: Access) -> FastAPI:
    """Build the application over the store of a configuration.

    Args:
        config: names the store, the thresholds of comparisons, and folders with own rubrics.
        access: the host names and the token that a request must carry.
    """
    install_log_redaction()
    app = FastAPI(
        title="Assizes",
        version=version("assizes"),
        description=DESCRIPTION,
        docs_url=None,  # its page loads scripts from elsewhere
        redoc_url=None,
        responses=problem_responses(401, 422),
    )
    app.state.library = StoreReader(config.store)
    app.state.comparison = config.comparison
    app.state.name = config.name
    app.state.rubrics = config.judge.rubrics
    app.state.series = config.series
    app.include_router(read_routes.router)
    app.include_router(start_routes.router)
    app.include_router(pages.router)
    problems.install_handlers(app, pages.problem_page)
    _describe_problems(app)
    app.add_middleware(Guard, access=access)
    return app


def _describe_problems(app: FastAPI) -> None:
    """Add the schema `Problem`, which operations refer to, and drop FastAPI's own error schemas."""
    build_schema = app.openapi

    def openapi() -> dict[str, object]:
        document = build_schema()
        schemas = document["components"]["schemas"]
        if "Problem" not in schemas:
            body = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas |= {**body.pop("$defs", {}), "Problem": body}
            schemas.pop("HTTPValidationError", None)
            schemas.pop("ValidationError", None)
        return document

    app.openapi = openapi  # type: ignore[method-assign]  # the way FastAPI documents
