"""Oddities of a case that is judged all the same; a run counts them by code and warns once."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from assizes.judge.case import Case, Transcript

DROPPED_TIMES: Final = "dropped_times"
"""Key of `Case.metadata`: how many times in the record ran backwards and were left out."""

ODDITY_TEXTS: Final = {
    "time_order": "with times that run backwards: turns stay as in the file, negative latencies "
    "are left out",
    "call_without_result": "with tool calls that nothing answered",
    "result_without_call": "with tool results that nobody asked for",
    "malformed_arguments": "with tool arguments that are no JSON object",
    "no_agent_turn": "in which the agent never speaks",
}
"""The codes, each with the words that follow `n records` in its warning."""


def oddities(case: Case) -> set[str]:
    """Return the codes of a case's oddities, keys of `ODDITY_TEXTS`."""
    return set(_oddity_codes(case))


def warning_lines(counts: dict[str, int]) -> tuple[str, ...]:
    """Return one warning line for each code with a count, in the order of `ODDITY_TEXTS`."""
    return tuple(
        f"{code}: {counts[code]} {'record' if counts[code] == 1 else 'records'} {words}"
        for code, words in ODDITY_TEXTS.items()
        if counts.get(code)
    )


def _oddity_codes(case: Case) -> Iterator[str]:
    transcript = case.transcript
    if case.metadata.get(DROPPED_TIMES) or _runs_backwards(transcript):
        yield "time_order"
    if not any(turn.role == "assistant" for turn in transcript.turns):
        yield "no_agent_turn"
    yield from _tool_oddities(transcript)


def _runs_backwards(transcript: Transcript) -> bool:
    last: datetime | None = transcript.started_at
    for turn in transcript.turns:
        if turn.started_at is not None:
            if last is not None and turn.started_at < last:
                return True
            last = turn.started_at
    return False


def _tool_oddities(transcript: Transcript) -> Iterator[str]:
    calls = [call for _, call in transcript.calls()]
    results = [turn.tool_result for turn in transcript.turns if turn.tool_result is not None]
    if any(call.raw is not None for call in calls):
        yield "malformed_arguments"
    # Ids pair results with calls. Where some have no id, only the numbers can be compared.
    call_ids = {call.id for call in calls}
    result_ids = {result.call_id for result in results}
    if None in call_ids | result_ids:
        if len(results) < len(calls):
            yield "call_without_result"
        if len(results) > len(calls):
            yield "result_without_call"
        return
    if call_ids - result_ids:
        yield "call_without_result"
    if result_ids - call_ids:
        yield "result_without_call"
