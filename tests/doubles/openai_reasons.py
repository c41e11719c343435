"""Answers of realistic length: one or two sentences for each reason, and scores of 3 to 5."""

from __future__ import annotations

import json
import random
import re

from benchmarks.varied_texts import judge_words

TEXT = re.compile(r'"ok"|"score": 4\b')
"""What a filled schema holds in place of a reason, and of a score."""

SCORES = ("5", "5", "5", "4", "4", "3")


def with_reasons(text: str, prompt: bytes) -> str:
    """The answer to a prompt of this hash with sentences of its own; one prompt, one answer."""
    draw = random.Random(prompt)
    words = judge_words(draw)

    def told(place: re.Match[str]) -> str:
        if place[0] != '"ok"':
            return f'"score": {words.pick(SCORES)}'
        sentences = [words.sentence("reason") for _ in range(1 + (draw.random() < 0.5))]
        return json.dumps(" ".join(sentences), ensure_ascii=False)

    return TEXT.sub(told, text)
