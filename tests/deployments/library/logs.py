"""Thirty conversations with an order desk, as OpenAI-style logs and as rows of tables."""

from __future__ import annotations

from typing import Any

COUNT = 30


def messages(number: int) -> list[dict[str, Any]]:
    """One conversation; in every third the agent gives up."""
    answer = "I cannot help." if number % 3 == 0 else f"Order {number} is on its way."
    return [
        {"role": "user", "content": f"Where is order {number}?"},
        {"role": "assistant", "content": answer},
    ]


def logs(count: int = COUNT) -> list[dict[str, Any]]:
    """Chat-completions records."""
    return [{"id": f"c{number}", "messages": messages(number)} for number in range(count)]


def turn_rows(count: int = COUNT) -> list[dict[str, Any]]:
    """A row for each message, the answer before the question."""
    return [
        {"chat": f"c{number}", "n": turn, "who": message["role"], "said": message["content"]}
        for number in range(count)
        for turn, message in reversed(list(enumerate(messages(number))))
    ]


COLUMNS = {"id": "chat", "turn": "n", "role": "who", "text": "said"}
