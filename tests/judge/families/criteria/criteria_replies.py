"""Cases, replies and hearings for tests of the criteria judges."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from assizes.judge.case import Case, Expected
from assizes.judge.families.criteria.judge import ENTRIES
from assizes.judge.hearing import Hearing
from assizes.judge.protocol import NoReply
from assizes.judge.score import Score
from tests.builders import agent, case, user

QUERY = "Explain how to make a good cup of coffee"
ANSWER = "Use fresh beans, grind just before brewing, use water at 200F, and brew for 4 minutes."
CRITERIA = "Must mention: bean freshness, grind timing, water temperature, brew time"
COFFEE = case(user(QUERY), agent(ANSWER), expected=Expected(acceptance_criteria=CRITERIA))


def aspects(**concepts: Sequence[str]) -> dict[str, Any]:
    """A decomposition: aspects by name with their concepts."""
    listed = [{"aspect": name, "concepts": list(texts)} for name, texts in concepts.items()]
    return {"reasoning": "because", "aspects": listed}


def found(id: str, held: Sequence[int] = (), covered: bool | None = None, **more: Any) -> Any:
    """A finding on one aspect: numbers of its covered concepts; covered when there are any."""
    return {
        "id": id,
        "reason": f"on {id}",
        "concepts_covered": [f"{id}c{number}" for number in held],
        "concepts_missing": [],
        "concepts_contradicted": [],
        "covered": bool(held) if covered is None else covered,
        **more,
    }


def check(*findings: Any) -> dict[str, Any]:
    """A reply to the coverage question."""
    return {"aspects": list(findings)}


SEVEN = aspects(
    beans=["fresh beans", "quality"],
    grind=["just before brewing", "even"],
    water=["200F", "optimal range"],
    time=["4 minutes"],
)
"""Four aspects with seven concepts."""

FIVE_OF_SEVEN = check(found("a1", [1, 2]), found("a2", [1, 2]), found("a3", [1]), found("a4"))
"""Of `SEVEN` five concepts and three aspects, one of them with a missing concept."""


def opened(one: Case, judge: str = "answer_criteria", **options: Any) -> Hearing:
    """A hearing with validated options, up to its first round."""
    entry = ENTRIES[judge]
    return Hearing(entry.create_judge(entry.options(**options), ()), one)


def answer(hearing: Hearing, *replies: dict[str, Any] | NoReply) -> Hearing:
    """One round of replies, read as a model's text is."""
    hearing.answer(
        [
            reply
            if isinstance(reply, NoReply)
            else one.reply.model_validate_json(json.dumps(reply))
            for one, reply in zip(hearing.asks, replies, strict=True)
        ]
    )
    return hearing


def heard(one: Case, *rounds: Any, **options: Any) -> dict[str, Score]:
    """The scores by part; a round is one reply or a list of them."""
    hearing = opened(one, **options)
    for replies in rounds:
        answer(hearing, *(replies if isinstance(replies, list) else [replies]))
    assert hearing.is_closed
    return {score.part: score for score in hearing.scores}


def headline(one: Case, *rounds: Any, **options: Any) -> Score:
    """The headline score after these rounds of replies."""
    return heard(one, *rounds, **options)[""]
