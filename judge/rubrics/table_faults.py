"""What is wrong with a TOML table that people wrote: one line in plain words, not in pydantic's."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, get_args

from pydantic import BaseModel, ValidationError

_PLAINER: Final[Mapping[str, str]] = {
    r"^Value error, ": "",
    r"^Input should be (?:a valid )?(.*?)(, unable .*)?$": r"must be \1",
    r"^must be (list|number|string|integer|boolean|dictionary)$": r"must be a \1",
    r"^(?:\w+) should have (.*?)(?: after validation.*)?$": r"must have \1",
}
"""Words of pydantic, as regular expressions, and plain words for them."""


def table_fault(model: type[BaseModel], error: ValidationError) -> str:
    """The first fault of a table: its place, what is wrong there, and what is accepted.

    A key that is not known comes before one that is missing: one is often the other, misspelt.
    """
    details = error.errors(include_url=False)
    first = min(details, key=lambda detail: detail["type"] != "extra_forbidden")
    place = ".".join(str(part) for part in first["loc"])
    where = f"{place}: " if place else ""
    if first["type"] == "extra_forbidden":
        return f"{where}no such key; accepted: {', '.join(_keys_at(model, first['loc']))}"
    if first["type"] == "missing":
        return f"{where}required"
    message = str(first["msg"])
    for written, plain in _PLAINER.items():
        message = re.sub(written, plain, message)
    # A table as input would be the whole file in one message.
    given = "" if isinstance(first["input"], dict) else f" (given: {first['input']!r})"
    return f"{where}{message}{given}"


def _keys_at(model: type[BaseModel], place: tuple[int | str, ...]) -> list[str]:
    """The keys of the table in which a key stands; `place` is the path to the key."""
    for step in place[:-1]:
        if step in model.model_fields:
            model = _model_of(model.model_fields[str(step)].annotation) or model
    return list(model.model_fields)


def _model_of(annotation: Any) -> type[BaseModel] | None:
    """The model in an annotation such as `list[Code]` or `dict[str, Level]`, if there is one."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next(filter(None, map(_model_of, get_args(annotation))), None)
