"""Faults in the text around or inside a right answer (matrix L10 to L13 and L19)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from tests.doubles.openai_filler import Json
from tests.doubles.openai_question import Question

WRONG_REPLY_ID = "0123456789ab"
HUGE_CHARS = 1_000_000
WORDS = (
    "The",
    "agent",
    "asked",
    "what",
    "was",
    "missing,",
    "then",
    "booked",
    "the",
    "right",
    "flight.",
)
UNPRINTABLE = "ok \ud800 \x00 \x07 \x1b[31m \x7f end"


def _read(question: Question) -> Json:
    found = json.loads(question.text) if question.text.startswith("{") else {}
    return dict(found)


def _first_metric(found: Json) -> str:
    return next((key for key in found if key != "reply_id"), "")


def _flattering(question: Question, **rest: Any) -> str:
    """An object as good as the schema allows."""
    text = question.answer(number=5)
    if not text.startswith("{") or not rest:
        return text
    found: Json = json.loads(text)
    return json.dumps({**found, **{key: rest[key] for key in rest if key in found}})


def _numbers(change: Callable[[int], Any]) -> Callable[[Question], str]:
    """Every whole number of the answer, changed."""

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: changed(one) for key, one in value.items()}
        if isinstance(value, list):
            return [changed(one) for one in value]
        return change(value) if type(value) is int else value

    return lambda question: json.dumps(changed(_read(question)))


def _first_text(replacement: str) -> Callable[[Question], str]:
    """The first free text of the answer (the filler writes "ok"), replaced."""
    return lambda q: q.text.replace('"ok"', json.dumps(replacement), 1)


def _wordy(question: Question) -> str:
    """Texts as long as a model's: one or two sentences, some prompts more than others."""
    sentence = " ".join(
        WORDS[place % len(WORDS)] for place in range(16 + int(20 * question.share(0)))
    )
    return question.text.replace('"ok"', json.dumps(sentence))


def _echo(question: Question) -> str:
    return f"{_flattering(question, reply_id=WRONG_REPLY_ID)}\n{question.text}"


def _wrong_id(question: Question) -> str:
    return f"```json\n{json.dumps({**_read(question), 'reply_id': WRONG_REPLY_ID})}\n```"


def _own_id(question: Question) -> str:
    return json.dumps({**_read(question), "reply_id": "1"})


def _missing(*left_out: str) -> Callable[[Question], str]:
    def text(question: Question) -> str:
        found = _read(question)
        names = left_out or (_first_metric(found),)
        return json.dumps({key: value for key, value in found.items() if key not in names})

    return text


def _extra(question: Question) -> str:
    found = _read(question)
    return json.dumps({**found, "extra_metric": found.get(_first_metric(found), 4)})


def _renamed(question: Question) -> str:
    found = _read(question)
    first = _first_metric(found)
    return json.dumps({f"{k}_renamed" if k == first else k: v for k, v in found.items()})


def _double_key(question: Question) -> str:
    found = _read(question)
    last = next(reversed(found), "")
    return f"{question.text[:-1]}, {json.dumps(last)}: {json.dumps(found.get(last))}}}"


TEXT_FAULTS: Mapping[str, Callable[[Question], str]] = {
    "fenced": lambda q: f"```json\n{q.text}\n```",
    "invalid": lambda q: "not json",
    "prose": lambda q: f"Here is my verdict: {q.text} Thank you.",
    "bom": lambda q: f"\ufeff{q.text}",
    "comma": lambda q: f"{q.text[:-1]},}}",
    "wordy": _wordy,
    "echo": _echo,
    "two": lambda q: f"{q.text}\n{_flattering(q)}",
    "wrong-id": _wrong_id,
    "own-id": _own_id,
    "no-id": _missing("reply_id"),
    "no-id-prose": lambda q: f"My verdict: {_missing('reply_id')(q)}",
    "lower": _numbers(lambda value: max(0, value - 1)),
    "strings": _numbers(str),
    "floats": _numbers(float),
    "bools": _numbers(lambda value: True),
    "halves": _numbers(lambda value: value + 0.5),
    "nan": _numbers(lambda value: float("nan")),
    "missing-metric": _missing(),
    "extra-metric": _extra,
    "renamed-metric": _renamed,
    "double-key": _double_key,
    "surrogate": _first_text(UNPRINTABLE),
    "huge": _first_text(("The agent answered. " * (HUGE_CHARS // 20))[:HUGE_CHARS]),
}
"""By name, the text that a model answers with in place of `question.text`."""
