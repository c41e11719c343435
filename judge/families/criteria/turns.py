"""What answer criteria are held against: the answered questions of a conversation, and the text
that says what an answer must hold.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from assizes.judge.case import Transcript, Turn


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """A question of the user with the agent's answer.

    `index` counts the answered questions from 0; `at` is the answer's place among all turns.
    """

    index: int
    at: int
    query: str
    response: str


def answered_turns(transcript: Transcript) -> tuple[AnsweredTurn, ...]:
    """Each user message that was answered, with the first text that answers it.

    What the agent says before the user or a second time in a row is no answer; of several user
    messages in a row the last one is answered. What is said beside a tool call announces the
    answer, so it counts only where nothing else is said.
    """
    return tuple(
        AnsweredTurn(index, at, query, response)
        for index, (at, query, response) in enumerate(_pairs(transcript))
    )


def criteria_text(value: object) -> str | None:
    """A text as it is, a list of texts joined by newlines; null for anything else and for blanks."""
    lines = [value] if isinstance(value, str) else value
    if not isinstance(lines, list | tuple) or not all(isinstance(line, str) for line in lines):
        return None
    return "\n".join(line.strip() for line in lines if line.strip()) or None


def _pairs(transcript: Transcript) -> Iterator[tuple[int, str, str]]:
    query: str | None = None
    spoken: list[tuple[int, Turn]] = []
    for at, turn in enumerate(transcript.turns):
        if not (turn.text or "").strip():
            continue
        if turn.role == "assistant":
            spoken.append((at, turn))
        elif turn.role == "user":
            yield from _pair(query, spoken)
            query, spoken = turn.text, []
    yield from _pair(query, spoken)


def _pair(query: str | None, spoken: list[tuple[int, Turn]]) -> Iterator[tuple[int, str, str]]:
    if query is not None and spoken:
        at, answer = next((pair for pair in spoken if not pair[1].tool_calls), spoken[0])
        yield at, query, answer.text or ""
