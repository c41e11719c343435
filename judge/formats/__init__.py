"""Readers of transcripts: each format has one module in `readers/`, and one entry in `FORMATS`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol, get_args

import jiter

from assizes.judge.case import Case
from assizes.judge.config.format_names import FormatName
from assizes.judge.errors import DataError
from assizes.judge.formats.readers.agent_evaluation import AgentEvaluation
from assizes.judge.formats.readers.anthropic_messages import AnthropicMessages
from assizes.judge.formats.readers.atif import ATIF
from assizes.judge.formats.readers.inspect_ai import InspectAI
from assizes.judge.formats.readers.langfuse import Langfuse
from assizes.judge.formats.readers.mlflow_traces import MLflowTraces
from assizes.judge.formats.readers.native import Native, native_line
from assizes.judge.formats.readers.openai_chat import OpenAIChat
from assizes.judge.formats.readers.openai_logs import OpenAILogs
from assizes.judge.formats.readers.otel import OpenTelemetry
from assizes.judge.formats.readers.tau2 import Tau2
from assizes.judge.formats.readers.tau_bench import TauBench
from assizes.judge.formats.shared.containers import DocumentFormat, LineFormat

__all__ = ["FORMATS", "NAMES", "Format", "detect_format", "native_line", "resolve_format"]


class Format(Protocol):
    """A reader of one transcript format."""

    @property
    def name(self) -> str:
        """The name in `[transcripts] format`; `.document` is appended for one JSON document."""

    @property
    def by_line(self) -> bool:
        """True for one record a line, False for one document of many records."""

    def fits(self, value: Any) -> bool:
        """Whether a file that begins with this value has the format.

        The value may be cut short: it is parsed from the first bytes of the file.
        """

    def records(self, document: bytes) -> list[Any]:
        """Return the records of a whole file, in order, each complete in itself.

        Raises:
            DataError: the file as a whole cannot be read.
        """

    def case(self, record: Any) -> Case:
        """Return the case that a record holds.

        Raises:
            DataError: the record holds no case.
        """


_LAYOUTS: Final = (InspectAI(), ATIF(), AnthropicMessages(), OpenAIChat())
_PIECE_FORMATS: Final = (MLflowTraces(), Langfuse(), OpenTelemetry(), OpenAILogs())
# Detection tries the formats in this order: formats with rarer keys come first.
_ORDER: Final[tuple[Format, ...]] = (
    Native(),
    TauBench(),
    *_PIECE_FORMATS,
    *(container(layout) for layout in _LAYOUTS for container in (LineFormat, DocumentFormat)),
    Tau2(),
    AgentEvaluation(),
)

FORMATS: Final[dict[str, Format]] = {format_.name: format_ for format_ in _ORDER}
"""The formats by name; a layout has two entries, one by line and one as a document."""

NAMES: Final = tuple(name for name in get_args(FormatName) if name != "auto")
"""The names that `[transcripts] format` takes, in the order in which error messages list them."""


def detect_format(head: bytes) -> Format:
    """Return the format of an object, from its first few thousand decompressed bytes.

    Raises:
        DataError: `format`, when no known format fits.
    """
    for value in _beginnings(head):
        for format_ in _ORDER:
            if format_.fits(value):
                return resolve_format(format_.name.partition(".")[0], head)
    known = ", ".join(NAMES)
    raise DataError("format", f"not recognised as one of {known}; set [transcripts] format")


def resolve_format(name: str, head: bytes) -> Format:
    """Return the format of a name, by line or as a document, as the object's beginning shows."""
    document_format = FORMATS.get(f"{name}.document")
    return document_format if document_format is not None and _is_document(head) else FORMATS[name]


def _is_document(head: bytes) -> bool:
    """Whether a file is one JSON document: a list, or an object over several lines.

    An object on a single line counts as a file by lines.
    """
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"["):
        return True
    first, end, _ = start.partition(b"\n")
    if not end or not start.startswith(b"{"):
        return False
    try:
        jiter.from_json(first)
    except ValueError:
        # Either a broken line, or the first line of an object over several lines.
        return first.rstrip()[-1:] in (b"{", b"[", b",", b":")
    return False


def _beginnings(head: bytes) -> Iterator[Any]:
    """Yield values that a file may begin with.

    The head may end inside a document, the first lines may be broken, and a later record of a
    document may be broken: so the whole head, each line and ever shorter cuts are tried.
    """
    full_text = head.decode("utf-8-sig", "ignore")
    cuts = (
        full_text[: len(full_text) >> halvings]
        for halvings in range(1, len(full_text).bit_length())
    )
    for text in (full_text, *full_text.split("\n"), *cuts):
        try:
            yield _parse_beginning(text.encode())
        except ValueError:
            continue


def _parse_beginning(text: bytes) -> Any:
    """Return the value of a text, or of the beginning of a text that is cut short.

    Raises:
        ValueError: the text is no JSON, or more text stands behind a whole value.
    """
    try:
        return jiter.from_json(text)
    except ValueError as error:
        if "trailing" in str(error):
            raise
    return jiter.from_json(text, partial_mode="trailing-strings")
