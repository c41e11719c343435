"""Parts of conversations that repeat what came before, joined to one conversation.

A model call repeats the whole history, or begins with a summary of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from assizes.judge.case import Turn
from assizes.judge.formats.shared.parsing import FidelityCounter

_MAX_SUMMARY_TURNS: Final = 2
"""Turns that a summary has at most: the summary itself, and the agent's answer to it."""


class RecordedCall(NamedTuple):
    """One model call of a log or a trace."""

    turns_before: tuple[Turn, ...]  # history that the model was sent
    turns_added: tuple[Turn, ...]  # the model's answer
    record: Any = None  # what the call was read from, for readers that need it again


@dataclass
class Chain:
    """Model calls each of which begins with the call before and its answer: one conversation."""

    turns: tuple[Turn, ...]  # up to the answer of the last call
    calls: list[RecordedCall]


def chains_of(calls: Iterable[RecordedCall]) -> list[Chain]:
    """Group calls into chains; a call that continues several chains goes to the longest of them."""
    chains: list[Chain] = []
    for call in calls:
        fitting = [
            chain
            for chain in chains
            if _shared_turn_count(chain.turns, call.turns_before) == len(chain.turns)
        ]
        if fitting:
            chain = max(fitting, key=lambda chain: len(chain.turns))
            # Turns that the chain has already keep the times of their first record.
            new_turns = (*call.turns_before[len(chain.turns) :], *call.turns_added)
            chain.turns = (*chain.turns, *new_turns)
            chain.calls.append(call)
        else:
            chains.append(Chain((*call.turns_before, *call.turns_added), [call]))
    return chains


def join_parts(parts: Iterable[Sequence[Turn]], tally: FidelityCounter) -> tuple[Turn, ...]:
    """Join the parts of a conversation in order.

    A part that begins with the whole conversation so far adds only its new turns; the repeated
    turns are counted. Any other part is appended whole.
    """
    turns: tuple[Turn, ...] = ()
    for part in parts:
        repeated_count = _shared_turn_count(turns, part)
        if turns and repeated_count == len(turns):
            tally.count("repeated", "turn", repeated_count)
            turns = (*turns, *part[repeated_count:])
        else:
            turns = (*turns, *part)
    return turns


def join_compacted_parts(
    parts: Iterable[Sequence[Turn]], tally: FidelityCounter
) -> tuple[Turn, ...]:
    """Join the parts of a conversation, where a later part may begin with a summary.

    The summary replaces the beginning of the conversation. Behind it the part repeats the last
    turns before the summary was made; these are found, left out and counted.
    """
    turns: tuple[Turn, ...] = ()
    for part in parts:
        repeated_count = _overlap(turns, part)
        tally.count("repeated", "turn", repeated_count)
        turns = (*turns, *part[repeated_count:])
    return turns


def _overlap(turns: Sequence[Turn], part: Sequence[Turn]) -> int:
    """Return how many turns at the beginning of `part` repeat, or sum up, the turns so far.

    The place sought is the first in `part` where the longest tail of `turns` ends. Without any such
    place, the overlap is what both have in common at their beginning.
    """
    codes: dict[tuple[Any, ...], int] = {}  # equal turns have equal numbers
    turn_codes, part_codes = (
        [codes.setdefault(_turn_key(turn), len(codes)) for turn in side] for side in (turns, part)
    )
    known = set(turn_codes)
    unknown_counts = [0, *itertools.accumulate(code not in known for code in part_codes)]
    best, longest_end = 0, 0
    for stop, size in enumerate(_matching_tail_sizes(turn_codes, part_codes), 1):
        start = stop - size
        unknown = unknown_counts[start]
        # A tail of frequent words (`Done.`) may match by chance: unknown turns in front of a match
        # must be few enough for a summary, and something new must follow it.
        at_most = max(_MAX_SUMMARY_TURNS, start // 2)
        if unknown and (unknown > at_most or stop == len(part_codes)):
            continue
        if size > longest_end:
            best, longest_end = stop, size
    return best or _shared_turn_count(turns, part)


def _matching_tail_sizes(turn_codes: Sequence[int], part_codes: Sequence[int]) -> list[int]:
    """Return, for every prefix of `part_codes`, how long a tail of `turn_codes` it ends with."""
    # The Z-algorithm (Gusfield 1997) over both sequences reversed, parted by a number that is no
    # code: linear time, however often turns repeat.
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


def _shared_turn_count(first: Sequence[Turn], second: Sequence[Turn]) -> int:
    """Count the turns that two conversations have in common at their beginning."""
    count = 0
    for mine, theirs in zip(first, second, strict=False):
        if mine is not theirs and _turn_key(mine) != _turn_key(theirs):
            break
        count += 1
    return count


def _turn_key(turn: Turn) -> tuple[Any, ...]:
    # Without times and ids: a repeated history may have new ones. `repr` makes arguments hashable.
    answer = turn.tool_result
    calls = tuple((call.name, repr(call.arguments), call.raw) for call in turn.tool_calls)
    return turn.role, turn.text or "", calls, answer and answer.content
