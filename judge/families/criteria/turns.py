"""The input of the criteria judges: the answered questions of a conversation, and the criteria."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from assizes.judge.case import Transcript, Turn


@dataclass(frozen=True, slots=True)
class AnsweredTurn:
    """A question of the user with the agent's answer.

    `index` counts the answered questions from 0; `at` is the index of the answer among all turns.
    """

    index: int
    at: int
    query: str
    response: str


def answered_turns(transcript: Transcript) -> tuple[AnsweredTurn, ...]:
    """Each user message that the agent answered, with the first text that answers it.

    A text of the agent before the first user message is no answer, nor is a second text in a row.
    Of several user messages in a row the last one is answered. A text beside a tool call only
    announces the answer, so it counts where the agent says nothing else.
    """
    return tuple(
        AnsweredTurn(index, at, query, response)
        for index, (at, query, response) in enumerate(_pairs(transcript))
    )


def criteria_text(value: object) -> str | None:
    """A text, or a list of texts joined by newlines; `None` for other values and blank texts."""
    lines = [value] if isinstance(value, str) else value
    if not isinstance(lines, list | tuple) or not all(isinstance(line, str) for line in lines):
        return None
    return "\n".join(line.strip() for line in lines if line.strip()) or None


def _pairs(transcript: Transcript) -> Iterator[tuple[int, str, str]]:
    """Each answer's index among all turns, its query and its text."""
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
