"""Text, paths and bytes that try to become something else: one JSON string a line in each list."""

from __future__ import annotations

import json
from pathlib import Path

_FOLDER = Path(__file__).parent


def listed(name: str) -> tuple[str, ...]:
    """The strings of a list, such as `xss`; none stands twice."""
    lines = (_FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()
    found = tuple(json.loads(line) for line in lines)
    assert len(set(found)) == len(found)
    return found


XSS = listed("xss")
"""Tries to be markup, a link, an image, a template or a script where it is shown."""

ESCAPES = listed("escapes")
"""Tries to steer a terminal, or to write lines that are not there."""

CELLS = listed("cells")
"""Tries to be a formula in a spreadsheet."""

PATHS = listed("paths")
"""Tries to lead somewhere else where it becomes part of a path or a URI."""
