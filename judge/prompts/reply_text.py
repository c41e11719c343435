"""Cleans texts of models for storage: valid Unicode, no control characters, bounded length."""

from __future__ import annotations

import re
from typing import Any, Final

MAX_TEXT_CHARS: Final = 8_000
"""The longest text in a reply, in characters; longer texts are cut."""

REPLACED: Final = "text_replaced"
CAPPED: Final = "text_capped"

_UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def without_surrogates(text: str) -> str:
    """The text as valid Unicode: surrogate pairs joined, lone surrogates replaced by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def clean_json(value: Any, flags: set[str]) -> Any:
    """Clean the texts and keys of a JSON value.

    Characters that cannot be printed become U+FFFD, and texts over `MAX_TEXT_CHARS` are cut and end
    in an ellipsis. `REPLACED` and `CAPPED` are added to `flags` accordingly.

    Raises:
        RecursionError: for a value that is nested too deeply.
    """
    if isinstance(value, str):
        return _clean_text(value, flags)
    if isinstance(value, dict):
        return {_clean_text(key, flags): clean_json(item, flags) for key, item in value.items()}
    if isinstance(value, list):
        return [clean_json(item, flags) for item in value]
    return value


def _clean_text(text: str, flags: set[str]) -> str:
    if len(text) > MAX_TEXT_CHARS:
        flags.add(CAPPED)
        text = f"{text[: MAX_TEXT_CHARS - 1]}…"
    if _UNPRINTABLE.search(text):
        flags.add(REPLACED)
        text = _UNPRINTABLE.sub("\ufffd", text)
    return text
