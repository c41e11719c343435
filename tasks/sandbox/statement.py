"""Reads in the text of an SQL statement whether its result is ordered."""

from __future__ import annotations

import re

_NOISE = re.compile(
    r"""
      '(?:[^']|'')*'      # a string
    | "(?:[^"]|"")*"      # a quoted name
    | `[^`]*`             # a quoted name, as MySQL writes it
    | \[[^\]]*\]          # a quoted name, as T-SQL writes it
    | --[^\n]*            # a comment to the end of the line
    | /\*.*?(?:\*/|\Z)    # a comment
    """,
    re.VERBOSE | re.DOTALL,
)
_WORDS = re.compile(r"[()]|\border\s+by\b", re.IGNORECASE)


def has_order_by(sql: str) -> bool:
    """Whether a statement orders its result, that is: has ORDER BY outside all parentheses."""
    depth = 0
    for match in _WORDS.finditer(_NOISE.sub(" ", sql)):
        if match[0] == "(":
            depth += 1
        elif match[0] == ")":
            depth -= 1
        elif depth == 0:
            return True
    return False
