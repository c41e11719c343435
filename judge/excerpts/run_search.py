"""A search in a run: the turns that hold the words of a query, with the text around the words."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from assizes.judge.config.judging import estimated_tokens
from assizes.judge.excerpts.run_digest import shorten_middle

MOST_HITS: Final = 8
"""Turns that the answer to a search shows."""
_WORD: Final = re.compile(r"\w+")
_STEM: Final = 6
"""First characters of a word that must be equal: `refunded` is found by `refunds`."""
_MOST_WORDS: Final = 24
"""Words of a query that are looked for."""
_LONGEST_EXCERPT: Final = 900
_SHORTEST_EXCERPT: Final = 120
"""Characters around the words of a turn."""
_LEAST_SHARE: Final = 0.4
"""Share (0..1) of the best turn's weight that a turn must have to be shown."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A turn that holds words of a query."""

    turn: int
    weight: float  # rare words of the query that the turn holds count for more
    places: tuple[tuple[int, str], ...]  # where in its text the words are


def search_hits(blocks: Sequence[str], query: str) -> list[Hit]:
    """The turns that hold the words of the query, by their rendered blocks, the best first.

    The query is plain words, and never a pattern. A word of which few turns hold one weighs more.
    """
    wanted = dict.fromkeys(_stems(query))
    words = list(wanted)[:_MOST_WORDS]
    found = [_places(block, frozenset(words)) for block in blocks]
    held = Counter(stem for places in found for stem in {stem for _, stem in places})
    rarity = {stem: math.log(1 + len(blocks) / count) for stem, count in held.items()}
    hits = [
        Hit(turn, sum(rarity[stem] for stem in {stem for _, stem in places}), places)
        for turn, places in enumerate(found)
        if places
    ]
    phrase = " ".join(query.split()).casefold()
    best = max((hit.weight for hit in hits), default=0.0)

    def rank(hit: Hit) -> tuple[bool, float, int]:
        is_whole = phrase in " ".join(blocks[hit.turn].split()).casefold()
        return (not is_whole, -hit.weight, hit.turn)

    return sorted((hit for hit in hits if hit.weight >= best * _LEAST_SHARE), key=rank)


def word_share(block: str, text: str) -> float:
    """The share (0..1) of the words of a text that a block holds; 0 for a text without words."""
    wanted = set(_stems(text))
    return len(wanted.intersection(_stems(block))) / len(wanted) if wanted else 0.0


def search_text(blocks: Sequence[str], query: str, most_tokens: int) -> str:
    """The answer to a search in at most `most_tokens` (estimated): a count, then excerpts.

    The excerpts are those of the best turns, in the order of the run.
    """
    shown = shorten_middle(" ".join(query.split()), 120)
    hits = search_hits(blocks, query)
    if not hits:
        return f'search "{shown}": no turn holds any of these words'
    head = f'search "{shown}": {len(hits)} turns'
    size, count = _LONGEST_EXCERPT, min(len(hits), MOST_HITS)
    while count:
        best = sorted(hits[:count], key=lambda hit: hit.turn)
        excerpts = [_excerpt(blocks[hit.turn], hit, size) for hit in best]
        tail = f", the best {count} shown" if count < len(hits) else ""
        answer = "\n".join([head + tail, *excerpts])
        if estimated_tokens(answer) <= most_tokens:
            return answer
        if size > _SHORTEST_EXCERPT:
            size = size * 3 // 4
        else:
            count -= 1
    return f"{head}; no room is left to show them"


def _stems(text: str) -> list[str]:
    return [word[:_STEM] for word in _WORD.findall(text.casefold()) if len(word) > 1]


def _places(block: str, wanted: frozenset[str]) -> tuple[tuple[int, str], ...]:
    places = []
    for match in _WORD.finditer(block):
        stem = match.group().casefold()[:_STEM]
        if stem in wanted:
            places.append((match.start(), stem))
    return tuple(places)


def _excerpt(block: str, hit: Hit, size: int) -> str:
    """The part of a block of so many characters that holds most words of the query."""
    if len(block) <= size:
        return block
    start = max(0, _densest(hit.places, size) - size // 8)
    mark = block[: block.find(": ") + 2][:80] if start else ""  # `[12] tool search: `
    before = f"{mark}... " if start else ""
    after = " ..." if start + size < len(block) else ""
    return f"{before}{block[start : start + size].strip()}{after}"


def _densest(places: Sequence[tuple[int, str]], size: int) -> int:
    """The place from which the next `size` characters hold most different words."""
    best, best_count, first = places[0][0], 0, 0
    inside: Counter[str] = Counter()
    for place, stem in places:
        inside[stem] += 1
        while place - places[first][0] > size * 3 // 4:
            left = places[first][1]
            inside[left] -= 1
            if not inside[left]:
                del inside[left]
            first += 1
        if len(inside) > best_count:
            best, best_count = places[first][0], len(inside)
    return best
