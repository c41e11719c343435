"""Reasons of judges about planted failure modes, in real conversations.

A mode has eight wordings (`causes_modes.toml`). What stands in braces is filled from a real
conversation. Half of the reasons also quote it or end with a sentence that says nothing about the
mode, so that hardly any two are equal.
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import polars as pl

from assizes.judge.causes.failures import FAILURES
from benchmarks.corpus import base_cases

MODES = Path(__file__).with_name("causes_modes.toml")
METRICS = ("accuracy", "completeness", "tone", "tool_routing", "compliance")
TAILS = (
    "The rest of the conversation is fine.",
    "This is a serious failure.",
    "Apart from that the agent was helpful and polite.",
    "The customer was not satisfied in the end.",
    "All other steps were correct.",
    "It should have been handled better.",
    "Therefore the score is low.",
    "The agent followed the other rules.",
)
_ID = re.compile(r"\b(?=[A-Z0-9#_]*\d)[A-Z0-9#_]{5,12}\b")
_AMOUNT = re.compile(r"\$\d[\d,.]*\d")

Part = Literal["planted", "development"]


@dataclass(frozen=True)
class Mode:
    """One way to fail, and how judges word it."""

    name: str
    wordings: tuple[str, ...]
    code: str | None = None


@dataclass(frozen=True)
class _Facts:
    """What a reason may quote from one conversation."""

    tools: tuple[str, ...]
    ids: tuple[str, ...]
    amounts: tuple[str, ...]
    quotes: tuple[str, ...]
    turns: int


def modes(part: Part) -> list[Mode]:
    """The modes that measure (`planted`), or those that chose the constants (`development`)."""
    return [
        Mode(each["name"], tuple(each["reasons"]), each.get("code"))
        for each in tomllib.loads(MODES.read_text("utf-8"))[part]
    ]


def planted(draw: random.Random, failing: Sequence[Mode], first: int = 0) -> pl.DataFrame:
    """One failure for each mode given, in as many cases; the names of cases count from `first`."""
    rows = [_failure(draw, mode, f"case-{first + n:07d}") for n, mode in enumerate(failing)]
    return pl.DataFrame(rows, schema=FAILURES, orient="row")


def _failure(draw: random.Random, mode: Mode, case_id: str) -> dict[str, Any]:
    facts = draw.choice(_all_facts())
    # Judges write one sentence or two about what went wrong.
    reason = " ".join(
        wording.format(
            tool=draw.choice(facts.tools),
            id=draw.choice(facts.ids),
            amount=draw.choice(facts.amounts),
            turn=draw.randrange(facts.turns),
        )
        for wording in draw.sample(mode.wordings, draw.choice((1, 2)))
    )
    if draw.random() < 0.25:
        reason = f'The user said: "{draw.choice(facts.quotes)}". {reason}'
    elif draw.random() < 0.33:
        reason = f"{reason} {draw.choice(TAILS)}"
    return {
        "case_id": case_id,
        "repetition": 0,
        "metric": draw.choice(METRICS),
        "reason": reason,
        "code": mode.code if draw.random() < 0.8 else None,  # judges leave it out at times
        "points": draw.uniform(5, 40),
    }


@cache
def _all_facts() -> tuple[_Facts, ...]:
    return tuple(
        _Facts(
            tuple(sorted({call.name for turn in turns for call in turn.tool_calls}))
            or ("find_order",),
            tuple(_ID.findall(text)[:20]) or ("HX41K2",),
            tuple(_AMOUNT.findall(text)[:20]) or ("$112",),
            tuple(
                " ".join(turn.text.split()[:12])
                for turn in turns
                if turn.role == "user" and turn.text
            )
            or ("hello",),
            len(turns),
        )
        for case in base_cases()
        for turns in [case.transcript.turns]
        for text in [" ".join(turn.text or "" for turn in turns)]
    )
