"""What reaches a terminal: printable text only, whatever a transcript or a provider wrote.

Escape sequences could rename a window, hide a line or write another one in its place; direction
overrides show a line otherwise than it is.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Callable
from typing import Any


def printable(text: str, keep: str = "") -> str:
    """The text with a blank for every character that is not printable, but for those to `keep`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else " " for char in text)


def say(text: str) -> None:
    """One line on stderr, wherever that leads now: a progress bar redirects it."""
    sys.stderr.write(f"assizes: {printable(' '.join(text.split()))}\n")
    sys.stderr.flush()


def json_text(document: Any, indent: int | None = None) -> str:
    """A JSON document; characters that are not printable stand as escapes, which read the same."""
    text = json.dumps(document, indent=indent, ensure_ascii=False, default=str)
    if text.replace("\n", "").isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else _escaped(char) for char in text)


def keep_log_printable() -> None:
    """Have every line of every log be text that a terminal shows as it is, tracebacks included."""
    logging.setLogRecordFactory(_Printable(logging.getLogRecordFactory()))


class _Printable:
    """Makes log records without control characters."""

    def __init__(self, make: Callable[..., logging.LogRecord]) -> None:
        self._make = make

    def __call__(self, *args: Any, **named: Any) -> logging.LogRecord:
        record = self._make(*args, **named)
        try:
            said = record.getMessage()
        except (TypeError, ValueError, KeyError):
            return record  # logging itself says what is wrong with the line
        if (shown := printable(said, "\n\t")) != said:
            record.msg, record.args = shown, ()
        if record.exc_info and record.exc_info[1] is not None:
            trace = record.exc_text or "".join(traceback.format_exception(record.exc_info[1]))
            record.exc_text = printable(trace.rstrip("\n"), "\n\t")
        return record


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1]
