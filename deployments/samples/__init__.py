"""Forty real transcripts to try things on, and a copy of them in which an agent got worse.

SOURCE.md says whose they are and how they were chosen; `make.py` chooses them again.
"""

from __future__ import annotations

import gzip
from importlib import resources

from assizes.judge.case import Case, Transcript, Turn
from assizes.judge.evidence.tool_calls import MadeCall, tool_evidence
from assizes.judge.formats import FORMATS

__all__ = ["FILE", "SLOWDOWN", "sample_cases", "with_planted_regression"]

FILE = "airline.jsonl.gz"
"""The bundled file, beside this module."""

SLOWDOWN = 1.3
"""By how much the planted version is slower."""


def sample_cases() -> list[Case]:
    """The bundled transcripts as agent version `v1`, in the order of their source."""
    native = FORMATS["native"]
    document = gzip.decompress((resources.files(__package__) / FILE).read_bytes())
    return [native.case(line) for line in native.records(document)]


def with_planted_regression(cases: list[Case]) -> list[Case]:
    """The same conversations with an agent that got worse in two ways, as version `v2`.

    In the first and then every third of the cases in which the agent changed state, its last
    change that succeeded is taken out, call and result; what the agent says stays, so that it
    claims what it did not do. Such a case names the change in `metadata["planted"]` and loses its
    labels, which no longer hold. In all cases the agent takes 1.3 times as long.
    """
    planted: list[Case] = []
    changing = 0
    for case in cases:
        writes = tool_evidence(case).done_writes
        worse = case
        if writes:
            worse = case if changing % 3 else _without(case, writes[-1])
            changing += 1
        slower = _slower(worse.transcript)
        planted.append(worse.model_copy(update={"transcript": slower, "agent_version": "v2"}))
    return planted


def _without(case: Case, made: MadeCall) -> Case:
    turns = [
        _not_calling(turn, made) if index == made.turn else turn
        for index, turn in enumerate(case.transcript.turns)
        if turn.tool_result is None or turn.tool_result is not made.result
    ]
    remaining_turns = tuple(turn for turn in turns if turn is not None)
    planted = f"removed the call of {made.call.name} in turn {made.turn}"
    return case.model_copy(
        update={
            "transcript": case.transcript.model_copy(update={"turns": remaining_turns}),
            "labels": {},
            "metadata": {**case.metadata, "planted": planted},
        }
    )


def _not_calling(turn: Turn, made: MadeCall) -> Turn | None:
    """The turn without the call; null where nothing is left of it."""
    calls = tuple(call for call in turn.tool_calls if call is not made.call)
    return turn.model_copy(update={"tool_calls": calls}) if calls or turn.text else None


def _slower(transcript: Transcript) -> Transcript:
    turns = tuple(
        turn.model_copy(update={"latency_ms": _scaled_ms(turn.latency_ms)})
        for turn in transcript.turns
    )
    return transcript.model_copy(
        update={"turns": turns, "duration_ms": _scaled_ms(transcript.duration_ms)}
    )


def _scaled_ms(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds * SLOWDOWN, 3)
