"""What may stand in a path: the id of a case is any text, slashes and line ends included."""

from __future__ import annotations

from typing import Final

from starlette.convertors import PathConvertor, register_url_convertor

CASE_ID: Final = "{case_id:text}"
"""The rest of a path, which is the id of a case."""


class _AnyText(PathConvertor):
    """Starlette's own `path` ends at a line end."""

    regex = "(?s:.*)"


register_url_convertor("text", _AnyText())
