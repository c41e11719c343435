"""Who answers an ask offline: one function for each kind of evidence, in one table."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from judge import lexical, lexical_criteria, lexical_rag, lexical_steps
from judge.errors import ModelError
from judge.evidence import ConversationEvidence
from judge.protocol import Ask, NoReply
from judge.reply import parse_reply

ANSWERS: Final[Mapping[type, Callable[[Any], dict[str, Any]]]] = {
    ConversationEvidence: lexical.answer,
    **lexical_steps.ANSWERS,
    **lexical_criteria.ANSWERS,
    **lexical_rag.ANSWERS,
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
