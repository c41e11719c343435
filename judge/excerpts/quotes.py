"""Quotes of a reply, held against the run that they are said to come from."""

from __future__ import annotations

import re
from collections.abc import Sequence

from assizes.judge.case import Transcript
from assizes.judge.prompts.prompt_texts import rendered_turns


def plain_words(text: str) -> str:
    """A text without differences of case and blanks, so that quotes can be looked for in it."""
    return re.sub(r"\s+", " ", text).strip().casefold()


def turn_words(transcript: Transcript) -> list[str]:
    """The texts and the calls of each turn as `plain_words`, by the index of the turn.

    Each is followed by the turn as prompts show it, where calls have other quotation marks.
    """
    words = []
    for turn, block in zip(transcript.turns, rendered_turns(transcript), strict=True):
        calls = " ".join(f"{call.name} {call.raw or call.arguments}" for call in turn.tool_calls)
        words.append(plain_words(f"{turn.all_text()} {calls} {block}"))
    return words


def quote_place(texts: Sequence[str], quote: str) -> int | None:
    """The index of the first of these `plain_words` that holds the quote; `None`: none does."""
    words = plain_words(quote)
    return next((index for index, text in enumerate(texts) if words and words in text), None)
