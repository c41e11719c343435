"""The families of `families.toml`, and which of them speak in a text."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Final

from judge.hostile.disguises import plain, readings

_WORD: Final = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Family:
    """One way of talking to a judge: patterns, tried where one of the cues occurs."""

    name: str
    cues: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]

    def place(self, text: str) -> int | None:
        """Where it first speaks in a text that `plain` has read; null where it does not."""
        if not any(cue in text for cue in self.cues):
            return None
        found = (pattern.search(text) for pattern in self.patterns)
        return min((one.start() for one in found if one), default=None)


@lru_cache(maxsize=1)
def families() -> tuple[Family, ...]:
    """All of them, in the order of the file."""
    data = tomllib.loads((resources.files("judge.hostile") / "families.toml").read_text("utf-8"))
    words: dict[str, str] = data["words"]

    def whole(pattern: str) -> str:
        while _WORD.search(pattern):
            pattern = _WORD.sub(lambda word: words[word[1]], pattern)
        return pattern

    return tuple(
        Family(
            one["name"],
            tuple(one["cues"]),
            tuple(re.compile(whole(pattern), re.MULTILINE) for pattern in one["patterns"]),
        )
        for one in data["family"]
    )


def speaking(text: str) -> Iterator[str]:
    """The names of the families that speak in a text; `base64:NAME` for one under a disguise."""
    bare = plain(text)
    for family in families():
        if family.place(bare) is not None:
            yield family.name
    for disguise, said in readings(text):
        if any(family.place(said) is not None for family in families()):
            yield disguise
