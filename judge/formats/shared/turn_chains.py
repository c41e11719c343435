"""Parts of conversations that repeat what came before, joined to one conversation.

A model call repeats the whole history, or begins with a summary of it.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from assizes.judge.case import Turn
from assizes.judge.formats.shared.parsing import FidelityCounter

_MAX_SUMMARY_TURNS: Final = 2
"""Turns that a summary has at most: the summary itself, and the agent's answer to it."""

_MIN_KNOWN_MESSAGES: Final = 2
"""Messages at the beginning of a history that are taken for known where the others are not."""

_Key = tuple[Any, ...]
"""What equal turns have in common: see `_turn_key`."""


class RecordedCall(NamedTuple):
    """One model call of a log or a trace."""

    turns_before: tuple[Turn, ...]  # history that the model was sent
    turns_added: tuple[Turn, ...]  # the model's answer
    record: Any = None  # what the call was read from, for readers that need it again


class TracePart(NamedTuple):
    """The turns of one trace of a conversation."""

    turns: tuple[Turn, ...]
    given_count: int  # turns at the beginning that the trace was sent; all others happened in it


@dataclass
class Chain:
    """Model calls each of which begins with the call before and its answer: one conversation."""

    turns: tuple[Turn, ...]  # up to the answer of the last call
    calls: list[RecordedCall]


def chains_of(calls: Iterable[RecordedCall]) -> list[Chain]:
    """Group calls into chains; a call that continues several chains goes to the longest of them."""
    chains: list[Chain] = []
    # Chains are looked up by their turns: thousands of conversations may begin with the same `hi`.
    numbers: dict[tuple[int, _Key], int] = {}
    chains_by_turns: dict[int, list[int]] = {}  # number of all turns -> heap of places in `chains`
    for call in calls:
        history = _beginnings(call.turns_before, 0, numbers)
        known = next((number for number in reversed(history) if chains_by_turns.get(number)), None)
        if known is None:
            place = len(chains)
            chains.append(Chain((*call.turns_before, *call.turns_added), [call]))
        else:
            place = heapq.heappop(chains_by_turns[known])  # of equal chains the first
            chain = chains[place]
            # Turns that the chain has already keep the times of their first record.
            new_turns = (*call.turns_before[len(chain.turns) :], *call.turns_added)
            chain.turns = (*chain.turns, *new_turns)
            chain.calls.append(call)
        whole = _beginnings(call.turns_added, history[-1], numbers)[-1]
        heapq.heappush(chains_by_turns.setdefault(whole, []), place)
    return chains


def _beginnings(
    turns: Sequence[Turn], before: int, numbers: dict[tuple[int, _Key], int]
) -> list[int]:
    """Return the numbers of all beginnings of a conversation, the shortest first.

    `before` is the number of what stands in front of the turns, 0 for nothing. Equal beginnings
    have equal numbers: `numbers` holds them by the number of the beginning one turn shorter, and
    the key of the turn behind it.
    """
    found = [before]
    for turn in turns:
        found.append(numbers.setdefault((found[-1], _turn_key(turn)), len(numbers) + 1))
    return found


def join_parts(parts: Iterable[TracePart], tally: FidelityCounter) -> tuple[Turn, ...]:
    """Join the parts of a conversation in order.

    A part adds only its new turns. Those that repeat the conversation so far are counted. They are
    the whole of it, or the history that the part was sent: perhaps a window of the last messages,
    perhaps without tools.
    """
    joined = _Joined()
    for part in parts:
        repeated_count = _shared_turn_count(joined.turns, part.turns)
        # A user may say the same once more and get the same answer: that is no history.
        is_said_again = repeated_count == len(part.turns) > part.given_count
        if repeated_count < len(joined.turns) or is_said_again:
            repeated_count = joined.known_history(part)
        tally.count("repeated", "turn", repeated_count)
        joined.add(part.turns[repeated_count:])
    return tuple(joined.turns)


class _Joined:
    """A conversation while parts are added to it."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []
        self._messages: list[_Key] = []  # the keys of turns without calls and results
        self._asides: set[_Key] = set()  # the keys of all others

    def add(self, turns: Sequence[Turn]) -> None:
        self.turns += turns
        for turn in turns:
            if _is_aside(turn):
                role, text, calls, answer = _turn_key(turn)
                # A memory that keeps texts alone drops the calls beside a text.
                self._asides |= {(role, text, calls, answer), (role, text, (), answer)}
            else:
                self._messages.append(_turn_key(turn))

    def known_history(self, part: TracePart) -> int:
        """Return how many turns of the history that a part was sent the conversation has already.

        The history ends before the last messages of the user: these ask for something new, even in
        the same words as before. What is known of it stands in the conversation as it does in the
        history, but for turns of tools: all of the history, or its beginning up to where the
        conversation ends.
        """
        given = part.turns[: part.given_count]
        end = max((at for at, turn in enumerate(given) if turn.role == "user"), default=0)
        while end and given[end - 1].role == "user":
            end -= 1
        history: list[_Key] = []  # of messages, and of calls and results that are not known
        turn_counts = [0]  # turns up to the next message, by the count of messages before it
        for count, turn in enumerate(given[:end], 1):
            key = _turn_key(turn)
            if key not in self._asides:
                history.append(key)
                turn_counts.append(count)
            turn_counts[-1] = count
        if not history:
            return end
        known_count = self._known_count(history)
        return turn_counts[known_count] if known_count else 0

    def _known_count(self, history: list[_Key]) -> int:
        """Return how many messages at the beginning of a history stand in the conversation."""
        if history == self._messages[-len(history) :]:
            return len(history)
        sizes = _prefix_sizes([*history, None, *self._messages])[len(history) + 1 :]
        if len(history) in sizes:
            return len(history)
        # The rest of the history was not recorded. A single message may be the same by chance.
        tails = (size for at, size in enumerate(sizes) if at + size == len(sizes))
        return max((size for size in tails if size >= _MIN_KNOWN_MESSAGES), default=0)


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
    codes: dict[_Key, int] = {}  # equal turns have equal numbers
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
    sizes = _prefix_sizes([*reversed(turn_codes), -1, *reversed(part_codes)])  # -1 is no code
    return sizes[: len(turn_codes) : -1]


def _prefix_sizes(line: Sequence[object]) -> list[int]:
    """Return, for every place of a sequence, how much of its beginning stands there; 0 at first."""
    # The Z-algorithm (Gusfield 1997): linear time, however often turns repeat.
    sizes = [0] * len(line)
    left = right = 0
    for at in range(1, len(line)):
        size = min(right - at, sizes[at - left]) if at < right else 0
        while at + size < len(line) and line[size] == line[at + size]:
            size += 1
        if at + size > right:
            left, right = at, at + size
        sizes[at] = size
    return sizes


def _shared_turn_count(first: Sequence[Turn], second: Sequence[Turn]) -> int:
    """Count the turns that two conversations have in common at their beginning."""
    count = 0
    for mine, theirs in zip(first, second, strict=False):
        if mine is not theirs and _turn_key(mine) != _turn_key(theirs):
            break
        count += 1
    return count


def _is_aside(turn: Turn) -> bool:
    """Whether a turn is no message that user and agent exchange, but a call or a result."""
    return turn.role == "tool" or bool(turn.tool_calls)


def _turn_key(turn: Turn) -> _Key:
    # Without times and ids: a repeated history may have new ones. `repr` makes arguments hashable.
    answer = turn.tool_result
    calls = tuple((call.name, repr(call.arguments), call.raw) for call in turn.tool_calls)
    return turn.role, turn.text or "", calls, answer and answer.content
