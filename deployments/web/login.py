"""The page that takes the token from a browser and begins a session."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.exceptions import HTTPException

from assizes.deployments.web.forms import Fields
from assizes.deployments.web.guard import LOGIN, Access
from assizes.deployments.web.label_routes import READ_ONLY
from assizes.deployments.web.pages import html_response, site
from assizes.deployments.web.sessions import end_session, set_session
from assizes.tasks.reports.render.html import page

router = APIRouter(include_in_schema=False)

LOGOUT = "/view/logout"
MAX_PATH_CHARS = 2000  # of the page that is shown after the token was given


def login_page(path: str, fault: str | None = None) -> HTMLResponse:
    """The form that takes the token; the browser then goes to a path of this server."""
    data = {"next_path": own_path(path), "fault": fault}
    return html_response(page("login", data, site("")), 401)


def own_path(path: str) -> str:
    """A path of this server; `/` for anything that may lead elsewhere."""
    # An attack: `//evil.test` and `/\\evil.test` are addresses of another server.
    is_own = path.startswith("/") and not path.startswith(("//", "/\\"))
    is_plain = path.isascii() and path.isprintable() and "\\" not in path
    return path if is_own and is_plain and len(path) <= MAX_PATH_CHARS else "/"


def labelling_access(request: Request) -> Access:
    """What requests must carry, on a server with the desk."""
    access: Access = request.app.state.access
    if not access.labelling:
        raise HTTPException(403, READ_ONLY)
    return access


LabellingAccess = Annotated[Access, Depends(labelling_access)]


@router.get(LOGIN)
def ask_token(access: LabellingAccess, next: str = "/") -> HTMLResponse:  # in the URL
    """The form that takes the token."""
    return login_page(next)


@router.post(LOGOUT)
def log_out(access: LabellingAccess) -> Response:
    """End the session of this browser."""
    answer = RedirectResponse(LOGIN, 303)
    end_session(answer)
    return answer


@router.post(LOGIN)
def take_token(request: Request, access: LabellingAccess, fields: Fields) -> Response:
    """Begin a session where the token is that of this server."""
    path = own_path(fields.get("next", "/"))
    if access.token is None or not access.is_token(fields.get("token", "")):
        return login_page(path, "This is not the token of this server.")
    answer = RedirectResponse(path, 303)
    set_session(answer, access.token, secure=request.url.scheme == "https")
    return answer
