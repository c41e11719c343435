"""Escapes foreign text for Markdown, and builds the blocks of a Markdown document."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from assizes.tasks.reports import formatting

TEXT_CHARS: Final = 280
"""Characters that are shown of a text, unless the caller says otherwise."""

# An underscore inside a word is no emphasis; left alone, names stay readable in the source.
_SPECIAL: Final = re.compile(r"[\\`*{}\[\]#~$^=+]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")
# At the start of a line these begin a list or a rule.
_BLOCK: Final = re.compile(r"^(\d{0,9})([-.)])(?=[\s-]|$)")
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "|": "&#124;"}
# Renderers turn these into links without any syntax; a word joiner (U+2060) prevents that.
_AUTOLINKS: Final = re.compile(
    r"(?i)(?<=:)(?=//)|(?<=www)(?=\.)|(?<=@)|(?<=mailto)(?=:)|(?<=xmpp)(?=:)"
)
_JOINER: Final = "\u2060"
_CODE_SAFE: Final = re.compile(r"[^`|\\<>&\s]+(?: [^`|\\<>&\s]+)*")

Block = str


def plain(text: str, limit: int = TEXT_CHARS) -> str:
    """Foreign text as Markdown that renders as exactly that text, on one line."""
    line = formatting.clean_line(text, limit)
    line = _SPECIAL.sub(lambda match: f"\\{match[0]}", _AUTOLINKS.sub(_JOINER, line))
    line = _BLOCK.sub(r"\1\\\2", line)
    return "".join(_ENTITIES.get(sign, sign) for sign in line)


def code(text: str, limit: int = TEXT_CHARS) -> str:
    """Foreign text as a code span, or as plain text where it could break out of a code span."""
    line = formatting.clean_line(text, limit)
    return f"`{line}`" if _CODE_SAFE.fullmatch(line) else plain(line, limit)


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: int = 0) -> Block:
    """A Markdown table; its last `numbers` columns are aligned to the right."""
    left = len(head) - numbers
    rule = ["---" if place < left else "---:" for place in range(len(head))]
    lines = (head, rule, *rows)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def bullets(lines: Iterable[str]) -> Block:
    """A Markdown list with one entry for each line."""
    return "\n".join(f"- {line}" for line in lines)
