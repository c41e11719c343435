"""The fields of a form that a page sends, and the name of the person who sends it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import parse_qsl

from fastapi import Depends, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException

from assizes.deployments.web.sessions import cookie_name

MAX_FIELDS: Final = 40
"""Fields of a form, at most; those of the pages have fewer."""

F = TypeVar("F", bound=BaseModel)


async def form_fields(request: Request) -> dict[str, str]:
    """The fields of a form in a body; the last of several that have the same name."""
    return dict(await form_pairs(request, MAX_FIELDS))


async def form_pairs(request: Request, most: int) -> list[tuple[str, str]]:
    """The fields of a form in a body, in their order; at most so many."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/x-www-form-urlencoded":
        raise HTTPException(400, "a form is sent as application/x-www-form-urlencoded")
    try:
        body = (await request.body()).decode("ascii")  # other characters come as %XX
        pairs = parse_qsl(body, keep_blank_values=True, max_num_fields=most)
    except ValueError as error:
        raise HTTPException(400, f"the form cannot be read: {error}") from None
    # A browser sends the ends of lines as CR LF.
    return [(name, text.replace("\r\n", "\n")) for name, text in pairs]


def parse_form(model: type[F], fields: Mapping[str, Any]) -> F:
    """Parse the fields of a form; one that cannot be used is a `RequestValidationError`."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None


def person(request: Request) -> str:
    """The name that a person gave before, from a cookie; empty where there is none."""
    return cookie_name(request.headers.get("cookie", ""))


Fields = Annotated[dict[str, str], Depends(form_fields)]
KnownName = Annotated[str, Depends(person)]
