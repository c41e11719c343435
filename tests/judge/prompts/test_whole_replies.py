"""Replies without any fault, which two fast parsers read: as the careful ones do, and no others."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from assizes.judge.prompts.reply import _fit_reply, _read_whole_reply, parse_reply
from assizes.judge.prompts.reply_object import clean_json, is_clean, reply_object
from tests.judge.prompts.reply_shapes import ID, Reply, refused


class Loose(BaseModel):
    """A reply class of a user, which takes whatever it is given."""

    model_config = ConfigDict(extra="allow")

    score: float


def text_of(members: str, reply_id: str = ID) -> str:
    return f'{{"reply_id": "{reply_id}", {members}}}'


GOOD = '"why": "a", "score": 4'


@pytest.mark.parametrize(
    "text",
    [
        text_of(GOOD),
        f' \n{{\t"reply_id" :"{ID}",{GOOD}}}\n',
        text_of('"why": "Grüße, 你好, \\u00fc \\n \\"so\\" (1e999)", "score": 4e0'),
        text_of('"why": "", "score": 0.5, "turns": [1, 2]'),
    ],
)
def test_a_reply_without_fault_is_read_at_once(text: str):
    whole = _read_whole_reply(text, Reply, ID)
    assert whole is not None
    parsed = parse_reply(text, Reply, ID)
    assert (parsed.reply, parsed.flags, parsed.doubt) == (whole, (), None)
    assert _carefully_read(text, Reply) == (whole, set())


@pytest.mark.parametrize(
    "text",
    [
        text_of(GOOD, "other"),
        "{" + GOOD + "}",
        f'{{{GOOD}, "reply_id": "{ID}"}}',
        f"Here: {text_of(GOOD)}",
        f"{text_of(GOOD)} done",
        f"```json\n{text_of(GOOD)}\n```",
        f"\ufeff{text_of(GOOD)}",
        text_of(f'{GOOD}, "score": 4'),
        text_of(f'{GOOD}, "reply_id": "{ID}"'),
        text_of(f'{GOOD}, "reply\\u005fid": "{ID}"'),
        text_of(f"{GOOD},"),
        text_of('"why": "a", "score": NaN'),
        text_of('"why": "a", "score": 1e999'),
        text_of(f'"why": "a", "score": {"9" * 400}.0'),
        text_of('"why": "a", "score": "4"'),
        text_of('"why": "a\\u0000", "score": 4'),
        text_of('"why": "a\\b", "score": 4'),
        text_of('"why": "a\\ud83d", "score": 4'),
        text_of('"why": "a\x7f", "score": 4'),
        text_of('"why": "a\ud800", "score": 4'),
        text_of('"why": "a\nb", "score": 4'),
        text_of(f'"why": "{"a" * 8001}", "score": 4'),
    ],
)
def test_any_other_reply_is_read_carefully(text: str):
    assert _read_whole_reply(text, Reply, ID) is None


@pytest.mark.parametrize(
    ("members", "detail"),
    [
        ('"score": 4, "reply\\u005fid": "x"', "invalid_reply: key 'reply_id' appears twice"),
        ('"score": 1e999', "invalid_reply: number 1e999 is too large"),
        ('"score": 4, "more": {"a": 1, "a": 2}', "invalid_reply: key 'a' appears twice"),
    ],
)
def test_a_class_that_takes_everything_is_protected_all_the_same(members: str, detail: str):
    assert ": ".join(refused(text_of(members), Loose, ID)) == detail


def test_both_ways_agree_over_thousands_of_texts():
    draw = random.Random(5)
    pieces = (
        '"',
        "\\",
        "\\u00e9",
        "\\ud83d\\ude00",
        "é",
        "中",
        "{",
        "}",
        "[1]",
        ",",
        ":",
        "e9",
        "1e400",
    )
    at_once = 0
    for _ in range(4000):
        record: dict[str, Any] = {"reply_id": ID, "why": "it said so", "score": draw.randrange(6)}
        if draw.random() < 0.5:
            record["turns"] = [draw.randrange(9) for _ in range(draw.randrange(3))]
        text = json.dumps(record, ensure_ascii=draw.random() < 0.5)
        for _ in range(draw.randrange(3)):
            place = draw.randrange(len(text) + 1)
            cut = draw.randrange(3)
            text = text[:place] + draw.choice(pieces) + text[place + cut :]
        for model in (Reply, Loose):
            whole = _read_whole_reply(text, model, ID)
            if whole is not None:
                at_once += 1
                assert _carefully_read(text, model) == (whole, set()), text
    assert at_once > 1500


def _carefully_read(text: str, model: type[BaseModel]) -> tuple[BaseModel, set[str]]:
    candidate = reply_object(text, ID)
    flags = {"repaired"} if candidate.repaired else set()
    value = candidate.value if is_clean(text) else clean_json(candidate.value, flags)
    return _fit_reply(value, model, flags).reply, flags
