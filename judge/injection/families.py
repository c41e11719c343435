"""The attack families of `families.toml`, and the search for them in a text."""

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
"""Characters before and after a cue in which the patterns of its family are tried. The longest
pattern spans 400 characters."""

NEAR: Final = 180
"""Characters before and after a cue in which a family with `near` words needs one of them, and in
which its patterns are tried."""

_WORD: Final = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class AttackFamily:
    """One way to talk a judge into a verdict.

    Attributes:
        name: the name of the family in flags.
        cues: the patterns are tried only around these strings.
        near: where given, a cue counts only with one of these strings within `NEAR` characters.
        patterns: regular expressions over text that `plain` has normalised.
    """

    name: str
    cues: tuple[str, ...]
    near: tuple[str, ...]
    patterns: tuple[re.Pattern[str], ...]

    def has_match(self, bare: str, words: str | None = None) -> bool:
        """Whether a pattern matches in `bare`, a text from `plain`.

        `words` are the `different_words` of the text, where the caller has them already.
        """
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
    """The words of a text, each once, one a line.

    Texts repeat their words, so the search for cues is fast because it starts with these.
    """
    return "\n".join(set(bare.split()))


@cache
def _piece(cue: str) -> str:
    """The longest part of a cue without a blank."""
    return max(cue.split(), key=len)


def _possible_cues(cues: Iterable[str], words: str) -> list[str]:
    """The cues that a text of these words can contain."""
    return [cue for cue in cues if _piece(cue) in words]


def _places(bare: str, cues: Sequence[str]) -> Iterator[int]:
    for cue in cues:
        at = bare.find(cue)
        while at >= 0:
            if not cue.isdigit() or _stands_alone(bare, at, at + len(cue)):
                yield at
            at = bare.find(cue, at + 1)


def _stands_alone(bare: str, start: int, end: int) -> bool:
    """Whether a number is not part of a longer one, as most digits of a conversation are."""
    return not (bare[max(0, start - 1) : start].isalnum() or bare[end : end + 1].isalnum())


def _places_near(places: Sequence[int], others: Sequence[int]) -> Iterator[int]:
    """Yield the places, in ascending order, that have one of `others` within `NEAR` characters."""
    for place in places:
        at = bisect_left(others, place - NEAR)
        if at < len(others) and others[at] <= place + NEAR:
            yield place


def _merge_windows(places: Iterable[int], before: int, after: int) -> Iterator[tuple[int, int]]:
    """Yield the windows around ascending places as (start, end), overlapping windows as one."""
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
    """All attack families, in the order of the file."""
    data = tomllib.loads(
        (resources.files("assizes.judge.injection") / "families.toml").read_text("utf-8")
    )
    words: dict[str, str] = data["words"]

    def expanded(pattern: str) -> str:
        while _WORD.search(pattern):
            pattern = _WORD.sub(lambda word: words[word[1]], pattern)
        return pattern

    return tuple(
        AttackFamily(
            entry["name"],
            tuple(entry["cues"]),
            tuple(entry.get("near", ())),
            tuple(re.compile(expanded(pattern), re.MULTILINE) for pattern in entry["patterns"]),
        )
        for entry in data["family"]
    )


@lru_cache(maxsize=1)
def _cues() -> tuple[tuple[str, str], ...]:
    """All cues of all families, each with its `_piece`."""
    every = {cue for family in families() for cue in family.cues}
    return tuple((cue, _piece(cue)) for cue in sorted(every))


def _candidates(bare: str, words: str) -> tuple[AttackFamily, ...]:
    present = {cue for cue, piece in _cues() if piece in words and (cue == piece or cue in bare)}
    return tuple(family for family in families() if not present.isdisjoint(family.cues))


def matching_families(text: str, shape: TextShape) -> tuple[AttackFamily, ...]:
    """The families that match in a text.

    For several texts joined to one, these are all families that can match in one of them.
    """
    bare = plain(text)
    return tuple(_matching_families(bare, shape.words if shape.ascii else different_words(bare)))


def family_names(text: str, among: Sequence[AttackFamily] | None = None) -> Iterator[str]:
    """Yield the names of the families that match in a text; `among` limits the families tried."""
    bare = plain(text)
    for family in families() if among is None else among:
        if family.has_match(bare):
            yield family.name


def disguise_names(text: str, shape: TextShape | None = None) -> Iterator[str]:
    """Yield the names of the disguises under which a family matches in a text."""
    for disguise, reading in readings(text, shape or TextShape.of(text)):
        if any(True for _ in _matching_families(reading, different_words(reading))):
            yield disguise


def _matching_families(bare: str, words: str) -> Iterator[AttackFamily]:
    return (family for family in _candidates(bare, words) if family.has_match(bare, words))
