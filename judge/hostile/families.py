"""The families of `families.toml`, and which of them speak in a text."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Final

from judge.hostile.disguises import plain, readings

BEFORE: Final = 200
AFTER: Final = 400
"""Characters around a cue in which its family is looked for; the longest pattern spans 400."""

_WORD: Final = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Family:
    """One way of talking to a judge: patterns, tried around each cue, and where `near` is given
    only where one of those words stands near the cue.
    """

    name: str
    cues: tuple[str, ...]
    near: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]

    def speaks(self, bare: str) -> bool:
        """Whether it does in a text that `plain` has read."""
        return any(
            pattern.search(bare, start, end)
            for start, end in self._windows(bare)
            for pattern in self.patterns
        )

    def _windows(self, bare: str) -> Iterator[tuple[int, int]]:
        for start, end in _merged(sorted(_places(bare, self.cues))):
            if not self.near or any(bare.find(word, start, end) >= 0 for word in self.near):
                yield start, end


def _places(bare: str, cues: Sequence[str]) -> Iterator[int]:
    for cue in cues:
        at = bare.find(cue)
        while at >= 0:
            yield at
            at = bare.find(cue, at + 1)


def _merged(places: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The surroundings of places, those that overlap as one."""
    start = end = 0
    for place in places:
        if end and place - BEFORE > end:
            yield start, end
            end = 0
        start = start if end else max(0, place - BEFORE)
        end = place + AFTER
    if end:
        yield start, end


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
            tuple(one.get("near", ())),
            tuple(re.compile(whole(pattern), re.MULTILINE) for pattern in one["patterns"]),
        )
        for one in data["family"]
    )


@lru_cache(maxsize=1)
def _cues() -> tuple[tuple[str, bool], ...]:
    """All cues, and whether each stands within a word."""
    return tuple((cue, cue.isalnum()) for cue in {cue for one in families() for cue in one.cues})


def candidates(text: str) -> tuple[Family, ...]:
    """The families that may speak in a text or in a part of it, found at little cost."""
    bare = plain(text)
    # A text repeats its words: looking for cues among the different ones is what makes this fast.
    words = "\n".join(set(bare.split()))
    held = {cue for cue, in_word in _cues() if cue in (words if in_word else bare)}
    return tuple(one for one in families() if not held.isdisjoint(one.cues))


def speaking(text: str, among: Sequence[Family] | None = None) -> Iterator[str]:
    """The names of the families that speak in a text, `among` those that may."""
    bare = plain(text)
    for family in families() if among is None else among:
        if family.speaks(bare):
            yield family.name


def disguised(text: str) -> Iterator[str]:
    """The names of the disguises under which a family speaks in a text."""
    for disguise, said in readings(text):
        if any(one.speaks(said) for one in candidates(said)):
            yield disguise
