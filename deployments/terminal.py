"""Make text safe for a terminal: only printable characters of transcripts and providers reach it.

Escape sequences could rename a window, hide a line or write another line in its place; Unicode
direction overrides would show the characters of a line in a different order.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from assizes.tasks.runtime.log_records import clean_log


def printable(text: str, keep: str = "") -> str:
    """The text with a blank in place of each unprintable character, except the characters `keep`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else " " for char in text)


def print_stderr(text: str) -> None:
    """Write one line to stderr, looked up at each call because a progress bar redirects it."""
    sys.stderr.write(f"assizes: {printable(' '.join(text.split()))}\n")
    sys.stderr.flush()


def json_text(document: Any, indent: int | None = None) -> str:
    """A JSON document whose unprintable characters are written as escapes, which parse the same."""
    text = json.dumps(document, indent=indent, ensure_ascii=False, default=str)
    if text.replace("\n", "").isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text
    )


def keep_log_printable() -> None:
    """Make every line of every log printable text, tracebacks included."""
    clean_log(_printable_lines)


def _printable_lines(text: str) -> str:
    return printable(text, "\n\t")
