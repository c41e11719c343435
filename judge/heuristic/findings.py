"""What a rule of the offline conversation judge finds: a level, a reason, a code and turns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from assizes.judge.evidence.tool_calls import MadeCall


@dataclass(frozen=True, slots=True)
class RuleFinding:
    """The result of one rule.

    Attributes:
        level: from 0 to 5; a pass/fail metric has 5 for pass and 0 for fail.
        why: the reason in words.
        code: the failure code, used when the level is not acceptable.
        turns: indices of the turns that the reason is about.
    """

    level: int
    why: str
    code: str
    turns: tuple[int, ...] = ()


def level_by_count(count: int, levels: Sequence[int]) -> int:
    """Return the level for a count; `levels[0]` is for none, the last level for any higher count."""
    return levels[min(count, len(levels) - 1)]


def count_text(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 call` or `2 calls`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def turns_of(calls: Sequence[MadeCall]) -> tuple[int, ...]:
    """Return the turn index of each call."""
    return tuple(made_call.turn for made_call in calls)
