"""Refuses a request with a parameter that its route does not know, which would be ignored."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel

from assizes.deployments.web.pages import filled_fields


def refuse_unknown_parameters(request: Request) -> None:
    """Raise `RequestValidationError` for a parameter in the URL that no part of the route declares.

    A page that takes the fields of a form is left to the model that parses them: it allows no other
    fields, either.
    """
    route = request.scope["route"]
    assert isinstance(route, APIRoute), "this is a dependency of routes of FastAPI"
    parts = list(_parts(route.dependant))
    if any(part.call is filled_fields for part in parts):
        return
    known = {name for part in parts for name in _names(part)}
    if unknown := [name for name in dict.fromkeys(request.query_params) if name not in known]:
        message = "Extra inputs are not permitted"  # as the models say it
        raise RequestValidationError(
            [
                {"type": "extra_forbidden", "loc": ("query", name), "msg": message}
                for name in unknown
            ]
        )


def _parts(dependant: Dependant) -> Iterator[Dependant]:
    yield dependant
    for each in dependant.dependencies:
        yield from _parts(each)


def _names(dependant: Dependant) -> Iterator[str]:
    """The parameters that one function declares, one by one or as the fields of a model."""
    for field in dependant.query_params:
        annotation = field.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            yield from annotation.model_fields
        else:
            yield field.alias
