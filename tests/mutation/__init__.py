"""Mutants of the modules that decide: what mutmut found, beside the survivors that are explained.

`make mutation` runs it; which modules and which tests, `[tool.mutmut]` in pyproject.toml says.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

EXPLAINED = Path(__file__).with_name("explained.toml")

KILLED = "killed"
"""The one good end of a mutant: one that no test reaches or that ran out of time was not caught."""

_RESULT = re.compile(r"^\s*(?P<module>[\w.]+)\.(?P<name>\w+)__mutmut_(?P<number>\d+): (?P<end>.+)$")


@dataclass(frozen=True)
class Mutant:
    """One change to one function, by the number that mutmut gave it, and what became of it."""

    module: str
    name: str
    number: int
    end: str

    @property
    def full_name(self) -> str:
        """As mutmut wants it."""
        return f"{self.module}.{self.name}__mutmut_{self.number}"


@dataclass(frozen=True, order=True)
class Change:
    """What a mutant does, by its lines: it stays the same while others come and go around it."""

    module: str
    was: str
    becomes: str


def results(text: str) -> list[Mutant]:
    """The mutants that `mutmut results --all true` lists."""
    found = (_RESULT.match(line) for line in text.splitlines())
    return [
        Mutant(one["module"], one["name"], int(one["number"]), one["end"]) for one in found if one
    ]


def change(module: str, diff: str) -> Change:
    """The change that `mutmut show` prints as a diff."""
    lines = [line for line in diff.splitlines() if not line.startswith(("---", "+++", "#"))]
    was, becomes = (
        " ".join(line[1:].strip() for line in lines if line.startswith(sign)) for sign in "-+"
    )
    return Change(module, was, becomes)


def explained(path: Path = EXPLAINED) -> dict[Change, str]:
    """Why these mutants cannot be told from the code, one line each."""
    listed = tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]
    return {Change(one["module"], one["was"], one["becomes"]): one["why"] for one in listed}


def scores(mutants: Sequence[Mutant]) -> Iterator[str]:
    """Killed / all, module by module."""
    killed = Counter(one.module for one in mutants if one.end == KILLED)
    for module, number in sorted(Counter(one.module for one in mutants).items()):
        yield f"{module:32} {killed[module]:4} / {number:4} killed, {killed[module] / number:.1%}"


def findings(survivors: Mapping[Mutant, Change], known: Mapping[Change, str]) -> Iterator[str]:
    """Survivors that nobody explained, and explanations of mutants that did not survive."""
    for mutant, made in survivors.items():
        if made not in known:
            yield f"{mutant.full_name} {mutant.end}: {made.was!r} became {made.becomes!r}"
    for one in sorted(known.keys() - set(survivors.values())):
        yield f"{one.module}: {one.was!r} as {one.becomes!r} is explained, but did not survive"
