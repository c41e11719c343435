"""Readers of transcripts: each format has one module in `readers/`, and one entry in `FORMATS`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple, get_args

import jiter

from assizes.judge.case import Case
from assizes.judge.config.columns import TranscriptColumns
from assizes.judge.config.transcripts import FormatName
from assizes.judge.errors import DataError
from assizes.judge.formats.readers.agent_evaluation import AGENT_EVALUATION
from assizes.judge.formats.readers.anthropic_messages import ANTHROPIC, anthropic_record
from assizes.judge.formats.readers.atif import ATIF
from assizes.judge.formats.readers.inspect_ai import INSPECT_AI
from assizes.judge.formats.readers.langfuse import LANGFUSE
from assizes.judge.formats.readers.mlflow_traces import MLFLOW
from assizes.judge.formats.readers.native import NATIVE, native_line
from assizes.judge.formats.readers.openai_chat import OPENAI_CHAT, openai_record
from assizes.judge.formats.readers.openai_logs import OPENAI_LOGS
from assizes.judge.formats.readers.otel import OTEL
from assizes.judge.formats.readers.table import TABLE, table_formats
from assizes.judge.formats.readers.tau2 import TAU2
from assizes.judge.formats.readers.tau_bench import TAU_BENCH
from assizes.judge.formats.readers.who_and_when import WHO_AND_WHEN
from assizes.judge.formats.shared.containers import Format, Layout, PieceFormat
from assizes.judge.formats.shared.parsing import FIDELITY

__all__ = [
    "FORMATS",
    "NAMES",
    "WRITERS",
    "Format",
    "detect_format",
    "lost_fields",
    "native_line",
    "resolve_format",
    "resolve_table",
    "table_formats",
]

_LAYOUTS: Final = (INSPECT_AI, ATIF, WHO_AND_WHEN, ANTHROPIC, OPENAI_CHAT)
# Detection tries the formats in this order: formats with rarer keys come first.
_ORDER: Final[tuple[Format, ...]] = (
    *(NATIVE, TAU_BENCH, MLFLOW, LANGFUSE, OTEL, OPENAI_LOGS),
    *(format_ for each in _LAYOUTS for format_ in (each.line_format(), each.document_format())),
    *(TAU2, AGENT_EVALUATION),
)

FORMATS: Final[dict[str, Format]] = {format_.name: format_ for format_ in _ORDER}
"""The formats by name; a layout has two entries, one by line and one as a document."""

NAMES: Final = tuple(name for name in get_args(FormatName) if name != "auto")
"""The names that `[transcripts] format` takes, in the order in which error messages list them."""


_BEFORE_JSON: Final = b"\xef\xbb\xbf \t\r\n"
"""Bytes of a byte order mark and of blanks, which may stand before JSON."""

_SIMPLEST: Final = (
    "set [transcripts] format, or write each conversation as a line "
    '{"messages": [{"role": "user", "content": "..."}, ...]}'
)
"""What helps where no format fits."""


def detect_format(head: bytes) -> Format:
    """Return the format of an object, from its first few thousand decompressed bytes.

    Raises:
        DataError: `format`, when no known format fits.
    """
    # The head may end inside a document, the first lines may be broken, and a later record of a
    # document may be broken: so the whole head, each line and ever shorter cuts are tried.
    text = head.decode("utf-8-sig", "ignore")
    cuts = (text[: len(text) >> halvings] for halvings in range(1, len(text).bit_length()))
    for beginning in (text, *text.split("\n"), *cuts):
        data = beginning.encode()
        try:
            value = jiter.from_json(data)  # whole lines and short files; else read as cut off
        except ValueError as error:
            if "trailing" in str(error):  # more text behind a whole value: this is no beginning
                continue
            try:
                value = jiter.from_json(data, partial_mode="trailing-strings")
            except ValueError:
                continue
        first = value[0] if isinstance(value, list) and value else value
        keys = first.keys() if isinstance(first, dict) else ()
        for format_ in _ORDER:
            # A list of pieces is read piece by piece; of other lists a format says itself if it fits.
            fitting = first if isinstance(format_, PieceFormat) else value
            if not format_.keys.isdisjoint(keys) and format_.fits(fitting):
                # The head decides between lines and document, not the cut that fitted.
                return resolve_format(format_.name.partition(".")[0], head)
    known = ", ".join(NAMES)
    raise DataError("format", f"not recognised as one of {known}; {_SIMPLEST}")


def resolve_format(name: str, head: bytes) -> Format:
    """Return the format of a name, by line or as a document, as the object's beginning shows."""
    document_format = FORMATS.get(f"{name}.document")
    if document_format is None:
        return FORMATS[name]
    is_document = _is_document(head) or document_format.fills_a_line(_only_value(head))
    return document_format if is_document else FORMATS[name]


def _only_value(head: bytes) -> Any:
    """The value on the only line of a file, as much of it as there is; `None` for other files."""
    line, _, rest = head.lstrip(_BEFORE_JSON).partition(b"\n")
    try:
        return None if rest.strip() else jiter.from_json(line, partial_mode="trailing-strings")
    except ValueError:
        return None


def resolve_table(columns: TranscriptColumns, head: bytes) -> Format:
    """Return the format of a table, by line or as a document, as the object's beginning shows."""
    formats = table_formats(columns)
    document_format = formats.get(f"{TABLE}.document")
    return document_format if document_format and _is_document(head) else formats[TABLE]


def _is_document(head: bytes) -> bool:
    """Whether a file is one JSON document: a list, or an object over several lines."""
    start = head.lstrip(_BEFORE_JSON)
    if start.startswith(b"["):
        return True
    first, end, _ = start.partition(b"\n")
    if not end or not start.startswith(b"{"):  # one line alone is a file by lines
        return False
    try:
        jiter.from_json(first)
    except ValueError:
        # Either a broken line, or the first line of an object over several lines.
        return first.rstrip()[-1:] in (b"{", b"[", b",", b":")
    return False


class Writer(NamedTuple):
    """A format that cases can be written in."""

    record: Callable[[Case], dict[str, Any]]  # writes a case as a record
    layout: Layout  # reads such a record back


WRITERS: Final[dict[str, Writer]] = {
    "openai_chat": Writer(openai_record, OPENAI_CHAT),
    "anthropic": Writer(anthropic_record, ANTHROPIC),
}
"""The formats that cases can be written in, by name."""


def lost_fields(case: Case, record: dict[str, Any], layout: Layout) -> Counter[str]:
    """Count the fields of a case that are lost when its record is read back.

    Returns:
        The number of lost values by path; a path has no list places: `transcript.turns.chunks`.
    """
    back = layout.read(record)
    skipped = {"metadata": {FIDELITY}}
    # Default values are what a reader gives back for a field that is not there: no loss.
    before = _leaves(case.model_dump(mode="json", exclude=skipped, exclude_defaults=True))
    after = _leaves(back.model_dump(mode="json", exclude=skipped, exclude_defaults=True))
    missing = dict(before)
    for place, value in after:
        if place in missing and missing[place] == value:
            del missing[place]
    # Without places in lists the same field of all turns counts under one path.
    return Counter(".".join(step for step in place if isinstance(step, str)) for place in missing)


def _leaves(value: Any, place: tuple[str | int, ...] = ()) -> list[tuple[Any, Any]]:
    # Arguments of a tool are one value, whose own keys are no fields of a case.
    if isinstance(value, dict) and value and place[-1:] not in (("arguments",), ("parameters",)):
        return [leaf for name, item in value.items() for leaf in _leaves(item, (*place, name))]
    if isinstance(value, list) and value:
        return [leaf for at, item in enumerate(value) for leaf in _leaves(item, (*place, at))]
    return [] if value == {} and not place[1:] else [(place, value)]  # `{}` at the top: no field
