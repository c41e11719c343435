"""Frames cross between polars and DuckDB through Arrow's C stream, without pyarrow.

The view lives apart from the DuckDB code because polars remembers the class of what it reads: a
class that can reach the duckdb module (DuckDB's own, or one defined beside its import) would keep
that module alive past interpreter exit, and its bindings then print a leak report to stderr.
"""

from __future__ import annotations

from typing import Protocol


class ArrowSource(Protocol):
    """Anything that can be read as an Arrow stream: a polars frame, a DuckDB relation."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


class ArrowView:
    """A frame or relation of which only its Arrow stream can be seen.

    DuckDB would convert a bare polars frame with pyarrow; it reads the stream of this view directly.
    """

    __slots__ = ("_source",)

    def __init__(self, source: ArrowSource) -> None:
        self._source = source

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._source.__arrow_c_stream__(requested_schema)
