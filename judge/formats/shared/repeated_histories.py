"""Histories that are told again with every model call, brought back into one conversation."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from assizes.judge.case import Turn
from assizes.judge.formats.shared.fidelity import Tally

_SUMMARY: Final = 2
"""A summary is a turn, or a turn and what the agent answers to it."""


class Exchange(NamedTuple):
    """One model call: what stood before it, and what it added."""

    asked: tuple[Turn, ...]
    answered: tuple[Turn, ...]


class Chain:
    """A conversation as the calls that go on with it tell it."""

    def __init__(self, first: Exchange) -> None:
        self.turns = (*first.asked, *first.answered)
        self.calls = 1

    def goes_on(self, call: Exchange) -> bool:
        """Whether a call begins with this conversation as it stands, and has gone further."""
        return shared(self.turns, call.asked) == len(self.turns)

    def extend(self, call: Exchange) -> None:
        """Take in what the call has beyond; a turn keeps the times of when it was first made."""
        self.turns = (*self.turns, *call.asked[len(self.turns) :], *call.answered)
        self.calls += 1


def chains(calls: Iterable[Exchange]) -> list[Chain]:
    """The conversations that calls belong to; a call goes on with the longest it begins with."""
    found: list[Chain] = []
    for call in calls:
        fitting = [chain for chain in found if chain.goes_on(call)]
        if fitting:
            max(fitting, key=lambda chain: len(chain.turns)).extend(call)
        else:
            found.append(Chain(call))
    return found


def longest(calls: Sequence[Exchange], tally: Tally) -> tuple[Turn, ...]:
    """The turns of the longest chain of calls, of which there is one at least, the last of equals;
    calls beside it are counted.
    """
    found = chains(calls)
    best = max(reversed(found), key=lambda chain: (len(chain.turns), chain.calls))
    tally.count("dropped", "model call beside the conversation", len(calls) - best.calls)
    return best.turns


def stitched(parts: Iterable[Sequence[Turn]], tally: Tally) -> tuple[Turn, ...]:
    """Parts of a conversation in order; what a part tells again of those before is left out once."""
    turns: tuple[Turn, ...] = ()
    for part in parts:
        again = shared(turns, part)
        if turns and again == len(turns):
            tally.count("repeated", "turn", again)
            turns = (*turns, *part[again:])
        else:
            turns = (*turns, *part)
    return turns


def rejoined(parts: Iterable[Sequence[Turn]], tally: Tally) -> tuple[Turn, ...]:
    """Parts of which a later one may hold a summary in place of the beginning.

    What stood at the end of what was there already is found again behind the summary.
    """
    turns: tuple[Turn, ...] = ()
    for part in parts:
        again = _overlap(turns, part)
        tally.count("repeated", "turn", again)
        turns = (*turns, *part[again:])
    return turns


def _overlap(turns: Sequence[Turn], part: Sequence[Turn]) -> int:
    """Up to which turn of the part everything has been said.

    Up to where the longest end of the turns stands in it, the first time; where none does, as far
    as both begin alike. What is said often (`Done.`) is no such end by itself: before it stand at
    most a summary of two turns, or as much that is known as is not, and behind it something new.
    """
    codes: dict[tuple[Any, ...], int] = {}
    told, said = (
        [codes.setdefault(_said(turn), len(codes)) for turn in side] for side in (turns, part)
    )
    known = set(told)
    strange = [0, *itertools.accumulate(one not in known for one in said)]
    best, longest_end = 0, 0
    for stop, size in enumerate(_ends_in_common(told, said), 1):
        start = stop - size
        new_before = strange[start]
        if new_before and (new_before > max(_SUMMARY, start // 2) or stop == len(said)):
            continue
        if size > longest_end:
            best, longest_end = stop, size
    return best or shared(turns, part)


def _ends_in_common(told: Sequence[int], said: Sequence[int]) -> list[int]:
    """For every beginning of `said`, how much of the end of `told` it ends with: the Z-algorithm
    over both backwards, linear however often they repeat themselves.
    """
    line = [*reversed(told), -1, *reversed(said)]
    sizes = [0] * len(line)
    left = right = 0
    for at in range(1, len(line)):
        size = min(right - at, sizes[at - left]) if at < right else 0
        while at + size < len(line) and line[size] == line[at + size]:
            size += 1
        if at + size > right:
            left, right = at, at + size
        sizes[at] = size
    return sizes[: len(told) : -1]


def shared(one: Sequence[Turn], other: Sequence[Turn]) -> int:
    """How many turns two conversations begin with in common, by what was said and called."""
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine is not theirs and _said(mine) != _said(theirs):
            break
        count += 1
    return count


def _said(turn: Turn) -> tuple[Any, ...]:
    answer = turn.tool_result
    calls = tuple((call.name, repr(call.arguments), call.raw) for call in turn.tool_calls)
    return turn.role, turn.text or "", calls, answer and answer.content
