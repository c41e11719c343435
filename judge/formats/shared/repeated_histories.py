"""Histories that are told again with every model call, brought back into one conversation."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from assizes.judge.case import Turn
from assizes.judge.formats.shared.fidelity import FidelityCounter

_SUMMARY: Final = 2
"""A summary is a turn, or a turn and what the agent answers to it."""


class RecordedCall(NamedTuple):
    """One model call: what stood before it, and what it added."""

    turns_before: tuple[Turn, ...]
    turns_added: tuple[Turn, ...]


class Chain:
    """A conversation as the calls that go on with it tell it."""

    def __init__(self, first: RecordedCall) -> None:
        self.turns = (*first.turns_before, *first.turns_added)
        self.calls = 1

    def is_continued_by(self, call: RecordedCall) -> bool:
        """Whether a call begins with this conversation as it stands, and has gone further."""
        return shared_turn_count(self.turns, call.turns_before) == len(self.turns)

    def extend(self, call: RecordedCall) -> None:
        """Take in what the call has beyond; a turn keeps the times of when it was first made."""
        self.turns = (*self.turns, *call.turns_before[len(self.turns) :], *call.turns_added)
        self.calls += 1


def chains(calls: Iterable[RecordedCall]) -> list[Chain]:
    """The conversations that calls belong to; a call goes on with the longest it begins with."""
    call_chains: list[Chain] = []
    for call in calls:
        fitting = [chain for chain in call_chains if chain.is_continued_by(call)]
        if fitting:
            max(fitting, key=lambda chain: len(chain.turns)).extend(call)
        else:
            call_chains.append(Chain(call))
    return call_chains


def longest_chain_turns(calls: Sequence[RecordedCall], tally: FidelityCounter) -> tuple[Turn, ...]:
    """The turns of the longest chain of calls, of which there is one at least, the last of equals;
    calls beside it are counted.
    """
    call_chains = chains(calls)
    best = max(reversed(call_chains), key=lambda chain: (len(chain.turns), chain.calls))
    tally.count("dropped", "model call beside the conversation", len(calls) - best.calls)
    return best.turns


def join_parts(parts: Iterable[Sequence[Turn]], tally: FidelityCounter) -> tuple[Turn, ...]:
    """Parts of a conversation in order; what a part tells again of those before is left out once."""
    turns: tuple[Turn, ...] = ()
    for part in parts:
        repeated_count = shared_turn_count(turns, part)
        if turns and repeated_count == len(turns):
            tally.count("repeated", "turn", repeated_count)
            turns = (*turns, *part[repeated_count:])
        else:
            turns = (*turns, *part)
    return turns


def join_compacted_parts(
    parts: Iterable[Sequence[Turn]], tally: FidelityCounter
) -> tuple[Turn, ...]:
    """Parts of which a later one may hold a summary in place of the beginning.

    What stood at the end of what was there already is found again behind the summary.
    """
    turns: tuple[Turn, ...] = ()
    for part in parts:
        repeated_count = _overlap(turns, part)
        tally.count("repeated", "turn", repeated_count)
        turns = (*turns, *part[repeated_count:])
    return turns


def _overlap(turns: Sequence[Turn], part: Sequence[Turn]) -> int:
    """Up to which turn of the part everything has been said.

    Up to where the longest end of the turns stands in it, the first time; where none does, as far
    as both begin alike. What is said often (`Done.`) is no such end by itself: before it stand at
    most a summary of two turns, or as much that is known as is not, and behind it something new.
    """
    codes: dict[tuple[Any, ...], int] = {}
    turn_codes, part_codes = (
        [codes.setdefault(_turn_key(turn), len(codes)) for turn in side] for side in (turns, part)
    )
    known = set(turn_codes)
    strange = [0, *itertools.accumulate(code not in known for code in part_codes)]
    best, longest_end = 0, 0
    for stop, size in enumerate(_ends_in_common(turn_codes, part_codes), 1):
        start = stop - size
        new_before = strange[start]
        if new_before and (new_before > max(_SUMMARY, start // 2) or stop == len(part_codes)):
            continue
        if size > longest_end:
            best, longest_end = stop, size
    return best or shared_turn_count(turns, part)


def _ends_in_common(turn_codes: Sequence[int], part_codes: Sequence[int]) -> list[int]:
    """For every beginning of `said`, how much of the end of `told` it ends with: the Z-algorithm
    over both backwards, linear however often they repeat themselves.
    """
    line = [*reversed(turn_codes), -1, *reversed(part_codes)]
    sizes = [0] * len(line)
    left = right = 0
    for at in range(1, len(line)):
        size = min(right - at, sizes[at - left]) if at < right else 0
        while at + size < len(line) and line[size] == line[at + size]:
            size += 1
        if at + size > right:
            left, right = at, at + size
        sizes[at] = size
    return sizes[: len(turn_codes) : -1]


def shared_turn_count(first: Sequence[Turn], second: Sequence[Turn]) -> int:
    """How many turns two conversations begin with in common, by what was said and called."""
    count = 0
    for mine, theirs in zip(first, second, strict=False):
        if mine is not theirs and _turn_key(mine) != _turn_key(theirs):
            break
        count += 1
    return count


def _turn_key(turn: Turn) -> tuple[Any, ...]:
    answer = turn.tool_result
    calls = tuple((call.name, repr(call.arguments), call.raw) for call in turn.tool_calls)
    return turn.role, turn.text or "", calls, answer and answer.content
