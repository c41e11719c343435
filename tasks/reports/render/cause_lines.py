"""Renders the causes of failures that come first as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from assizes.tasks.reports.formatting import bullets, code, plain

MAX_EXAMPLES: Final = 3  # cases that are named for one cause, at most


def first_causes(data: Mapping[str, Any]) -> Iterator[str]:
    """The causes of failures that the first screen names."""
    if (causes := data.get("causes")) is not None and causes["first"]:
        yield "What failed cases have in common:"
        yield bullets(_cause(cause) for cause in causes["first"])


def _cause(cause: Mapping[str, Any]) -> str:
    line = f"**{plain(cause['name'])}**: {cause['word']}, {cause['shown']}."
    if cause["sentence"]:
        sentence, writer = plain(cause["sentence"], 300), cause["described_by"]
        line += f' "{sentence}"' if writer is None else f" {sentence} (written by {plain(writer)})."
    cases = ", ".join(map(code, cause["examples"][:MAX_EXAMPLES]))
    return f"{line} Such as {cases}." if cases else line
