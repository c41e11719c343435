"""Errors over HTTP: every error is a problem document (RFC 9457), and none shows a traceback."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.middleware.exceptions import ExceptionMiddleware

from assizes.judge.errors import (
    AssizesError,
    ConfigurationError,
    DataError,
    NotComparable,
    ServerGone,
    StoreBusy,
    StoreError,
    TakenKey,
    UnknownCase,
    UnknownRun,
)

log = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/problem+json"
"""Media type of problem documents."""

RETRY_AFTER_S: Final = 5
"""Seconds that a response 503 asks a client to wait. A run locks its DuckDB file for at most a shard."""

_STATUS: Final[Mapping[type[AssizesError], int]] = {
    UnknownRun: 404,
    UnknownCase: 404,
    NotComparable: 400,
    ConfigurationError: 400,
    DataError: 409,
    StoreBusy: 503,
    StoreError: 503,
    ServerGone: 503,
    TakenKey: 409,
    AssizesError: 500,
}
"""HTTP status by class of an error; the nearest class in its method resolution order counts."""

_TITLES: Final[Mapping[int, str]] = {
    400: "Bad request",
    401: "Not authorised",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "Conflict",
    413: "Request too large",
    422: "Unusable parameters",
    500: "Internal error",
    503: "Not available now",
}


class Fault(BaseModel):
    """One parameter that cannot be used."""

    where: str = Field(description="path, query or body, and the name")
    message: str


class Problem(BaseModel):
    """What went wrong (RFC 9457)."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    errors: list[Fault] = Field(default_factory=list)


def problem_responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The problem responses of an operation, for its OpenAPI description."""
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        status: {"description": _TITLES[status], "content": {MEDIA_TYPE: {"schema": schema}}}
        for status in statuses
    }


def problem(
    status: int,
    detail: str,
    faults: list[Fault] | None = None,
    headers: Mapping[str, str] | None = None,
) -> JSONResponse:
    """A response with a problem document.

    Args:
        status: HTTP status.
        detail: one sentence about this error.
        faults: the parameters that cannot be used.
        headers: further headers.
    """
    body = Problem(
        title=_TITLES.get(status, "Error"), status=status, detail=detail, errors=faults or []
    )
    return JSONResponse(
        body.model_dump(), status, media_type=MEDIA_TYPE, headers=dict(headers or {})
    )


def status_of(error: AssizesError) -> int:
    """The HTTP status for an error of this package."""
    return next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)


ProblemRenderer = Callable[[Request, Problem], Response | None]
"""Renders an error as a page; returns `None` where the request is not for a page."""


def install_handlers(app: FastAPI, render_page: ProblemRenderer) -> None:
    """Make the app respond to every error with a problem document, or with a page.

    A middleware that is added to the app later also sees the responses to defects.

    Args:
        app: the application.
        render_page: renders the errors of requests for pages.
    """

    def choose_response(request: Request, json_response: JSONResponse) -> Response:
        return (
            render_page(request, Problem.model_validate_json(bytes(json_response.body)))
            or json_response
        )

    @app.exception_handler(AssizesError)
    async def _own_error(request: Request, error: AssizesError) -> Response:
        status = status_of(error)
        wait = {"Retry-After": str(RETRY_AFTER_S)} if status == 503 else {}
        return choose_response(request, problem(status, str(error), headers=wait))

    @app.exception_handler(RequestValidationError)
    async def _invalid_request(request: Request, error: RequestValidationError) -> Response:
        faults = [
            Fault(where=".".join(str(part) for part in detail["loc"]), message=detail["msg"])
            for detail in error.errors()
        ]
        why = "; ".join(f"{fault.where}: {fault.message}" for fault in faults)
        return choose_response(request, problem(422, why or "the request cannot be used", faults))

    @app.exception_handler(HTTPException)
    async def _http_error(request: Request, error: HTTPException) -> Response:
        response = problem(error.status_code, str(error.detail), headers=error.headers)
        return choose_response(request, response)

    async def defect(request: Request, error: Exception) -> Response:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
        return choose_response(request, problem(500, "a defect of assizes; its log says more"))

    # Not an exception handler of the app: Starlette runs a handler of `Exception` outside of every
    # middleware, so that its response would lack our headers, and raises the error again.
    app.add_middleware(ExceptionMiddleware, handlers={Exception: defect})
