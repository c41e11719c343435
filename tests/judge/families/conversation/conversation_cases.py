"""A case for the conversation judge, and replies to what it asks."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from assizes.judge.case import Case
from assizes.judge.families.conversation import ConversationJudge
from assizes.judge.hearing import Hearing
from assizes.judge.protocol import Ask
from assizes.judge.rubrics.rubric import Rubric, built_in_rubrics
from assizes.judge.score import Score
from tests.builders import agent, call, result, user
from tests.judge.prompts.replied import replied

TURNS = (
    user("Cancel order 7 please."),
    agent(calls=[call("cancel_order", order=7)]),
    result("cancelled"),
    agent("Done, order 7 is cancelled."),
)


def chosen(*names: str) -> list[Rubric]:
    return [rubric for rubric in built_in_rubrics() if rubric.name in names]


def scored(score: Any = 5, code: str | None = None, turns: Any = ()) -> dict[str, Any]:
    return {
        "justification": "because",
        "score": score,
        "failure_code": code,
        "turns": list(turns),
    }


def opened(one: Case, *names: str) -> Hearing:
    return Hearing(ConversationJudge(chosen(*(names or ("tool_routing",)))), one)


def asked(one: Case, *names: str) -> Ask[BaseModel]:
    (found,) = opened(one, *names).asks
    return found


def heard(one: Case, reply: dict[str, Any], *names: str) -> dict[tuple[str, str], Score]:
    hearing = opened(one, *names)
    hearing.answer([replied(hearing.asks[0], reply)])
    return {(score.metric, score.part): score for score in hearing.scores}
