"""`assizes --help`: the commands by what they are for, in the order in which people meet them."""

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
    """Lists its commands under headings, each with the whole of its first sentence."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list; a command without a heading stands at its end."""
        for title, names in self.sections().items():
            rows = [(name, _first(self.commands[name].help)) for name in names]
            with formatter.section(title):
                formatter.write_dl(rows)

    def sections(self) -> dict[str, list[str]]:
        """Names of commands by heading; empty headings are left out."""
        listed = {name for names in SECTIONS.values() for name in names}
        known = {
            title: [command for command in names if command in self.commands]
            for title, names in SECTIONS.items()
        }
        known[OTHERS] = [name for name in self.commands if name not in listed]
        return {title: names for title, names in known.items() if names}


def _first(text: str | None) -> str:
    """The first paragraph of what a command says of itself, as a line."""
    return (text or "").strip().partition("\n\n")[0].replace("\n", " ")
