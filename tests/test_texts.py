"""What users read speaks of the product, never of how it came to be."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.test_docs_text import FORMER_SENTENCES

ROOT = Path(__file__).resolve().parents[1]
HISTORY = re.compile(
    r"\bseeds? 00\d|\bthe (reference )?documents'|\breference documents\b"
    r"|\bbefore the package was renamed",
    re.IGNORECASE,
)
OLD_COMMANDS = re.compile(
    r"assizes (requeue|gc|compact|forget|rebuild|serve-flows|metrics-export)\b|--only-errors --run-id"
)

RIDDLES = re.compile(
    r"nobody is at work|no fall is held|judge beside people|stands in none|in no figure below"
    r"|held still on|own configuration holds|blocks nothing|\bput one by one\b",
    re.IGNORECASE,
)
"""Phrases that users could not read at once; each has a plain one now."""


def product_texts() -> Iterator[tuple[str, str]]:
    """The place and text of every string and docstring of the product, and of its data files."""
    for part in ("judge", "tasks", "flows", "deployments"):
        for path in sorted((ROOT / part).rglob("*")):
            place = path.relative_to(ROOT).as_posix()
            if path.suffix == ".py":
                for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                    if isinstance(node, ast.Constant) and isinstance(node.value, str):
                        yield f"{place}:{node.lineno}", node.value
            elif path.suffix in {".j2", ".html", ".js"}:
                yield place, path.read_text(encoding="utf-8")


def test_no_text_of_the_product_speaks_of_its_history_or_names_an_old_command():
    texts = list(product_texts())
    assert len(texts) > 5000
    patterns = (HISTORY, OLD_COMMANDS, RIDDLES)
    assert [place for place, text in texts if any(p.search(text) for p in patterns)] == []


def test_no_text_of_the_product_holds_a_sentence_that_readers_did_not_understand():
    for place, text in product_texts():
        plain = " ".join(text.replace("`", "").split())
        assert [former for former in FORMER_SENTENCES if former in plain] == [], place


def test_no_page_names_an_old_command_or_speaks_of_the_documents():
    pages = [
        ROOT / "README.md",
        *(ROOT / "docs").glob("*.md"),
        ROOT / "docs" / "report.schema.json",
    ]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        if page.name == "architecture.md":  # says what the comments in the code mean by a seed
            text = text.split("## What the comments name")[0]
        assert HISTORY.findall(text) == [], page.name
        assert OLD_COMMANDS.findall(text) == [], page.name
