"""What reaches a terminal: printable text only, whatever a transcript or a provider wrote.

Escape sequences could rename a window, hide a line or write another one in its place; direction
overrides show a line otherwise than it is.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from assizes.tasks.runtime.log_records import clean_log


def printable(text: str, keep: str = "") -> str:
    """The text with a blank for every character that is not printable, but for those to `keep`."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in keep else " " for char in text)


def print_stderr(text: str) -> None:
    """One line on stderr, wherever that leads now: a progress bar redirects it."""
    sys.stderr.write(f"assizes: {printable(' '.join(text.split()))}\n")
    sys.stderr.flush()


def json_text(document: Any, indent: int | None = None) -> str:
    """A JSON document; characters that are not printable stand as escapes, which read the same."""
    text = json.dumps(document, indent=indent, ensure_ascii=False, default=str)
    if text.replace("\n", "").isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else _json_escape(char) for char in text
    )


def keep_log_printable() -> None:
    """Have every line of every log be text that a terminal shows as it is, tracebacks included."""
    clean_log(_log_text)


def _log_text(text: str) -> str:
    return printable(text, "\n\t")


def _json_escape(char: str) -> str:
    return json.dumps(char)[1:-1]
