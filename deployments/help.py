"""The listing of `assizes --help`: commands grouped by purpose, in the order of first use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from typer.core import TyperGroup

SECTIONS: Final[Mapping[str, Sequence[str]]] = {
    "Begin": ("demo", "init", "doctor", "plan"),
    "Judge": ("run", "resume", "requeue", "nightly", "after-deployment", "backfill", "stop"),
    "Read": ("runs", "show", "case", "explain", "compare", "trends", "report", "serve", "sql"),
    "Judges and transcripts": ("metrics", "judges", "calibrate", "import"),
    "Prefect server": ("up", "down", "deploy", "serve-flows", "metrics-export"),
    "Upkeep of a store": ("rebuild", "gc", "forget", "compact"),
}
OTHERS: Final = "Others"


class SectionedGroup(TyperGroup):
    """A command group that lists its commands under headings, each with its first paragraph."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the listing; commands that `SECTIONS` does not name come last."""
        for title, names in self.sections().items():
            texts = [(self.commands[name].help or "").strip() for name in names]
            lines = [text.partition("\n\n")[0].replace("\n", " ") for text in texts]
            with formatter.section(title):
                formatter.write_dl(list(zip(names, lines, strict=True)))

    def sections(self) -> dict[str, list[str]]:
        """Names of the commands, by heading; a heading without commands is left out."""
        listed = {name for names in SECTIONS.values() for name in names}
        known = {
            title: [command for command in names if command in self.commands]
            for title, names in SECTIONS.items()
        }
        known[OTHERS] = [name for name in self.commands if name not in listed]
        return {title: names for title, names in known.items() if names}
