"""Foreign transcripts into cases: one file a format, one table of them."""

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
    """How one kind of object is read."""

    @property
    def name(self) -> str:
        """The name `[transcripts] format` takes; with `.document` behind it, in one document."""

    @property
    def by_line(self) -> bool:
        """True: one record a line; false: one document of many records."""

    def fits(self, value: Any) -> bool:
        """Whether a file that begins with this value is of the format.

        The value may be cut short: it is what a parser makes of the first bytes.
        """

    def records(self, document: bytes) -> list[Any]:
        """The records of a whole document, in order, each complete in itself.

        Raises:
            DataError: when the document as a whole cannot be read.
        """

    def case(self, record: Any) -> Case:
        """The case a record holds.

        Raises:
            DataError: when it holds none.
        """


_LAYOUTS: Final = (InspectAI(), ATIF(), AnthropicMessages(), OpenAIChat())
_PIECE_FORMATS: Final = (MLflowTraces(), Langfuse(), OpenTelemetry(), OpenAILogs())
# What is told by fewer and more common keys comes later.
_ORDER: Final[tuple[Format, ...]] = (
    Native(),
    TauBench(),
    *_PIECE_FORMATS,
    *(container(layout) for layout in _LAYOUTS for container in (LineFormat, DocumentFormat)),
    Tau2(),
    AgentEvaluation(),
)

FORMATS: Final[dict[str, Format]] = {format_.name: format_ for format_ in _ORDER}
"""By name; a layout that may also stand in one document is there twice."""

NAMES: Final = tuple(name for name in get_args(FormatName) if name != "auto")
"""The names of the formats, in the order in which they are told."""


def detect_format(head: bytes) -> Format:
    """The format of an object, from its first few thousand decompressed bytes.

    Raises:
        DataError: `format`, naming the ones that are known.
    """
    for value in _beginnings(head):
        for format_ in _ORDER:
            if format_.fits(value):
                return resolve_format(format_.name.partition(".")[0], head)
    known = ", ".join(NAMES)
    raise DataError("format", f"not recognised as one of {known}; set [transcripts] format")


def resolve_format(name: str, head: bytes) -> Format:
    """The format of that name, in the container an object shows by how it begins."""
    document_format = FORMATS.get(f"{name}.document")
    return document_format if document_format is not None and _is_document(head) else FORMATS[name]


def _is_document(head: bytes) -> bool:
    """Whether a file holds a list, or an object over several lines; a single line is a line."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"["):
        return True
    first, end, _ = start.partition(b"\n")
    if not end or not start.startswith(b"{"):
        return False
    try:
        jiter.from_json(first)
    except ValueError:
        # A broken line among lines, or the first of an object that goes on behind it?
        return first.rstrip()[-1:] in (b"{", b"[", b",", b":")
    return False


def _beginnings(head: bytes) -> Iterator[Any]:
    # A document may be cut anywhere; of a file by lines, the first ones may be broken, and of a
    # document a record that is not the first.
    full_text = head.decode("utf-8-sig", "ignore")
    cuts = (
        full_text[: len(full_text) >> halved] for halved in range(1, len(full_text).bit_length())
    )
    for text in (full_text, *full_text.split("\n"), *cuts):
        try:
            yield _parse_beginning(text.encode())
        except ValueError:
            continue


def _parse_beginning(text: bytes) -> Any:
    """The value that a text is, or begins; a whole value with more behind it is no line.

    Raises:
        ValueError: it is none.
    """
    try:
        return jiter.from_json(text)
    except ValueError as error:
        if "trailing" in str(error):
            raise
    return jiter.from_json(text, partial_mode="trailing-strings")
