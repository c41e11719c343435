"""The families of `families.toml`, and which of them speak in a text."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import Final

from assizes.judge.injection.disguises import TextShape, plain, readings

BEFORE: Final = 200
AFTER: Final = 400
"""Characters around a cue in which its family is looked for; the longest pattern spans 400."""

NEAR: Final = 180
"""Characters around a cue in which a family that has them wants one of its `near` words; its patterns
span no more."""

_WORD: Final = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class AttackFamily:
    """One way of talking to a judge: patterns, tried around each cue, and where `near` is given
    only around cues that have one of those words near them.
    """

    name: str
    cues: tuple[str, ...]
    near: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]

    def has_match(self, bare: str, words: str | None = None) -> bool:
        """Whether it does in a text that `plain` has read; `words` are the different ones of it."""
        words = different_words(bare) if words is None else words
        return any(
            pattern.search(bare, start, end)
            for start, end in self._windows(bare, words)
            for pattern in self.patterns
        )

    def _windows(self, bare: str, words: str) -> Iterator[tuple[int, int]]:
        places = sorted(_places(bare, _possible_cues(self.cues, words)))
        if not self.near:
            return _merge_windows(places, BEFORE, AFTER)
        others = sorted(_places(bare, _possible_cues(self.near, words)))
        return _merge_windows(_places_near(places, others), NEAR, NEAR)


def different_words(bare: str) -> str:
    """The words of a text, each once, a line each: a text repeats its words, and looking for cues
    among the different ones first is what makes this fast.
    """
    return "\n".join(set(bare.split()))


@cache
def _piece(cue: str) -> str:
    """The longest part of a cue that has no blank in it."""
    return max(cue.split(), key=len)


def _possible_cues(cues: Iterable[str], words: str) -> list[str]:
    """Those that a text of these words may hold."""
    return [cue for cue in cues if _piece(cue) in words]


def _places(bare: str, cues: Sequence[str]) -> Iterator[int]:
    for cue in cues:
        at = bare.find(cue)
        while at >= 0:
            if not cue.isdigit() or _stands_alone(bare, at, at + len(cue)):
                yield at
            at = bare.find(cue, at + 1)


def _stands_alone(bare: str, start: int, end: int) -> bool:
    """Whether a number is a whole one: most of the digits in a conversation are parts of others."""
    return not (bare[max(0, start - 1) : start].isalnum() or bare[end : end + 1].isalnum())


def _places_near(places: Sequence[int], others: Sequence[int]) -> Iterator[int]:
    """Those of ascending places that have another one near them."""
    for place in places:
        at = bisect_left(others, place - NEAR)
        if at < len(others) and others[at] <= place + NEAR:
            yield place


def _merge_windows(places: Iterable[int], before: int, after: int) -> Iterator[tuple[int, int]]:
    """The surroundings of ascending places, those that overlap as one."""
    start = end = 0
    for place in places:
        if end and place - before > end:
            yield start, end
            end = 0
        start = start if end else max(0, place - before)
        end = place + after
    if end:
        yield start, end


@lru_cache(maxsize=1)
def families() -> tuple[AttackFamily, ...]:
    """All of them, in the order of the file."""
    data = tomllib.loads(
        (resources.files("assizes.judge.injection") / "families.toml").read_text("utf-8")
    )
    words: dict[str, str] = data["words"]

    def whole(pattern: str) -> str:
        while _WORD.search(pattern):
            pattern = _WORD.sub(lambda word: words[word[1]], pattern)
        return pattern

    return tuple(
        AttackFamily(
            entry["name"],
            tuple(entry["cues"]),
            tuple(entry.get("near", ())),
            tuple(re.compile(whole(pattern), re.MULTILINE) for pattern in entry["patterns"]),
        )
        for entry in data["family"]
    )


@lru_cache(maxsize=1)
def _cues() -> tuple[tuple[str, str], ...]:
    """All cues, each with its piece."""
    every = {cue for family in families() for cue in family.cues}
    return tuple((cue, _piece(cue)) for cue in sorted(every))


def _candidates(bare: str, words: str) -> tuple[AttackFamily, ...]:
    held = {cue for cue, piece in _cues() if piece in words and (cue == piece or cue in bare)}
    return tuple(family for family in families() if not held.isdisjoint(family.cues))


def matching_families(text: str, shape: TextShape) -> tuple[AttackFamily, ...]:
    """The families that speak in a text of a shape; of several texts in one, those that may in any
    of them.
    """
    bare = plain(text)
    return tuple(_matching_families(bare, shape.words if shape.ascii else different_words(bare)))


def family_names(text: str, among: Sequence[AttackFamily] | None = None) -> Iterator[str]:
    """The names of the families that speak in a text, `among` those that may."""
    bare = plain(text)
    for family in families() if among is None else among:
        if family.has_match(bare):
            yield family.name


def disguise_names(text: str, shape: TextShape | None = None) -> Iterator[str]:
    """The names of the disguises under which a family speaks in a text."""
    for disguise, reading in readings(text, shape or TextShape.of(text)):
        if any(True for _ in _matching_families(reading, different_words(reading))):
            yield disguise


def _matching_families(bare: str, words: str) -> Iterator[AttackFamily]:
    return (family for family in _candidates(bare, words) if family.has_match(bare, words))
