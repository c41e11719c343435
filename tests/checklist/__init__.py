"""Which rows of the feature checklist are asserted by a test.

`ids.txt` holds the ids of all rows, one a line; a test carries those it asserts as
`@pytest.mark.row("000-01", ...)`, or as the mark of one of its parameters. Marks are read from the
source, so nothing is imported or run.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
IDS = Path(__file__).with_name("ids.txt")

_ID = re.compile(r"\d{3}-\d{2}")


def listed_ids() -> list[str]:
    """The ids of the checklist, in its order."""
    return IDS.read_text(encoding="utf-8").split()


def carried_ids(folder: Path = TESTS) -> dict[str, list[str]]:
    """Each id that a test of a folder carries, with the tests that do, as `file::name`."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "mark.row" not in text:  # parsing takes 10 ms
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                for one in _rows(node.decorator_list):
                    place = f"{path.relative_to(folder).as_posix()}::{node.name}"
                    found.setdefault(one, []).append(place)
    return found


def _rows(decorators: list[ast.expr]) -> Iterator[str]:
    """The ids in decorators that hold a `row` mark; where it takes its ids from a table of
    parameters, the table stands in the same decorator.
    """
    for decorator in decorators:
        nodes = list(ast.walk(decorator))
        if any(isinstance(node, ast.Attribute) and node.attr == "row" for node in nodes):
            texts = (node.value for node in nodes if isinstance(node, ast.Constant))
            yield from dict.fromkeys(
                text for text in texts if isinstance(text, str) and _ID.fullmatch(text)
            )
