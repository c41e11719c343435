"""Cases of agents that retrieve, and how the yes/no judges hear them by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assizes.judge.case import Case, Chunk, Expected, Turn
from assizes.judge.families.rag import built_in
from assizes.judge.hearing import Hearing
from assizes.judge.protocol import Ask, Judge, NoReply
from assizes.judge.score import Score
from tests.builders import agent, case, user
from tests.judge.prompts.replied import replied

REQUEST = "What does a checked bag cost?"
RESPONSE = "A checked bag costs 50 dollars."
CHUNKS = (
    Chunk(content="Each checked bag costs 50 dollars.", doc_uri="fees.md"),
    Chunk(content="Lounges open at six.", doc_uri="lounge.md"),
)


def rag_case(
    *turns: Turn,
    chunks: Sequence[Chunk] | None = CHUNKS,
    expected: Expected | None = None,
    **rest: Any,
) -> Case:
    """One question, one answer, two chunks and the expected response, unless said otherwise."""
    return case(
        *(turns or (user(REQUEST), agent(RESPONSE))),
        expected=expected or Expected(response="50 dollars a bag"),
        chunks=None if chunks is None else tuple(chunks),
        **rest,
    )


def opened(name: str, one: Case) -> Hearing:
    """The hearing of a built-in judge."""
    return Hearing(built_in(name), one)


def prompt_of(name: str, one: Case, place: int = 0) -> str:
    """The user message of one ask."""
    question = opened(name, one).asks[place]
    assert isinstance(question, Ask)
    return question.prompt.user


def headings(message: str) -> list[str]:
    """The headings of the data sections of a user message."""
    lines = message.splitlines()
    return [
        one.removeprefix("<data: ").removesuffix(">") for one in lines if one.startswith("<data: ")
    ]


def heard(judge: Judge, one: Case, *ratings: str | NoReply) -> list[Score]:
    """The scores after these ratings, each with the rationale `because <rating>`."""
    hearing = Hearing(judge, one)
    replies = [_reply(ask, word) for ask, word in zip(hearing.asks, ratings, strict=True)]
    hearing.answer(replies)
    return hearing.scores


def _reply(ask: Any, word: str | NoReply) -> Any:
    if isinstance(word, NoReply):
        return word
    return replied(ask, {"rationale": f"because {word}", "rating": word})
