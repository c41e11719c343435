"""Who answers an ask offline: one function for each kind of evidence, in one table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from assizes.judge.errors import ModelError
from assizes.judge.evidence.tool_calls import ConversationEvidence
from assizes.judge.heuristic import agent_steps, conversation, criteria, rag
from assizes.judge.prompts.reply import parse_reply
from assizes.judge.protocol import Ask, NoReply

ANSWERS: Final[Mapping[type, Callable[[Any], dict[str, Any]]]] = {
    ConversationEvidence: conversation.answer,
    **agent_steps.ANSWERS,
    **criteria.ANSWERS,
    **rag.ANSWERS,
}


def answer(evidence: object) -> dict[str, Any]:
    """What the offline judge replies to an ask, as the JSON value of its reply model.

    Raises:
        ModelError: `no_offline_rule`, for evidence it has no rule for.
    """
    rule = ANSWERS.get(type(evidence))
    if rule is None:
        kind = type(evidence).__name__
        raise ModelError("no_offline_rule", f"the offline judge has no rule for {kind}")
    return rule(evidence)


def plain_reply(ask: Ask[Any]) -> tuple[dict[str, Any] | None, BaseModel | NoReply]:
    """What the offline judge replies to an ask: the JSON value (null: there is no rule), and it
    read as any other reply.
    """
    try:
        value = answer(ask.evidence)
        return value, parse_reply(json.dumps(value), ask.reply).reply
    except ModelError as error:
        return None, NoReply(error.code, error.detail)
