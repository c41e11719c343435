"""Forty real transcripts for the demo (SOURCE.md: whose they are), and a copy that got worse."""

from __future__ import annotations

import gzip
from importlib import resources

from assizes.judge.case import Case, Transcript
from assizes.judge.evidence.tool_calls import MadeCall, tool_evidence
from assizes.judge.formats import FORMATS

__all__ = ["FILE", "SLOWDOWN", "sample_cases", "with_planted_regression"]

FILE = "airline.jsonl.gz"
"""The bundled file, beside this module."""

SLOWDOWN = 1.3
"""Factor on all latencies and durations of the planted version."""


def sample_cases() -> list[Case]:
    """Read the bundled transcripts; their agent version is `v1`, their order that of the source."""
    native = FORMATS["native"]
    document = gzip.decompress((resources.files(__package__) / FILE).read_bytes())
    return [native.case(line) for line in native.records(document)]


def with_planted_regression(cases: list[Case]) -> list[Case]:
    """The same conversations as version `v2`: some claim a change that is not made, all are slower.

    A case that lost its last successful state-changing call, with the result, names that call in
    `metadata["planted"]`; all take `SLOWDOWN` times as long.
    """
    planted: list[Case] = []
    changing_cases = 0
    for case in cases:
        writes = tool_evidence(case).done_writes
        loses = bool(writes) and changing_cases % 3 == 0  # the 1st, 4th, 7th ... that has writes
        changing_cases += bool(writes)
        worse = _without_call(case, writes[-1]) if loses else case  # what the agent says stays
        slower = _slowed(worse.transcript)
        planted.append(worse.model_copy(update={"transcript": slower, "agent_version": "v2"}))
    return planted


def _without_call(case: Case, made: MadeCall) -> Case:
    turns = []
    for index, turn in enumerate(case.transcript.turns):
        if turn.tool_result is not None and turn.tool_result is made.result:  # equal ones stay
            continue
        calls = tuple(call for call in turn.tool_calls if call is not made.call)
        if index != made.turn:
            turns.append(turn)
        elif calls or turn.text:  # a turn that held only this call goes
            turns.append(turn.model_copy(update={"tool_calls": calls}))
    planted = f"removed the call of {made.call.name} in turn {made.turn}"
    metadata = {**case.metadata, "planted": planted}
    transcript = case.transcript.model_copy(update={"turns": tuple(turns)})
    # Labels of people were about the conversation as it was.
    return case.model_copy(update={"transcript": transcript, "labels": {}, "metadata": metadata})


def _slowed(transcript: Transcript) -> Transcript:
    turns = tuple(
        turn.model_copy(update={"latency_ms": _scaled_ms(turn.latency_ms)})
        for turn in transcript.turns
    )
    duration_ms = _scaled_ms(transcript.duration_ms)
    return transcript.model_copy(update={"turns": turns, "duration_ms": duration_ms})


def _scaled_ms(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else round(milliseconds * SLOWDOWN, 3)
