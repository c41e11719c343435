"""The offline judge's table of rules: the type of an ask's evidence decides which rule answers."""

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
"""The offline rule for each type of evidence; a rule returns the JSON value of a reply."""


def answer(evidence: object) -> dict[str, Any]:
    """Return the offline judge's reply to an ask, as a JSON value that fits the ask's reply model.

    Raises:
        ModelError: `no_offline_rule`, when no rule exists for this type of evidence.
    """
    rule = ANSWERS.get(type(evidence))
    if rule is None:
        kind = type(evidence).__name__
        raise ModelError("no_offline_rule", f"the offline judge has no rule for {kind}")
    return rule(evidence)


def plain_reply(ask: Ask[Any]) -> tuple[dict[str, Any] | None, BaseModel | NoReply]:
    """Return the offline judge's reply to an ask, raw and parsed.

    Returns:
        The JSON value (None when there is no rule), and the reply that was parsed from it, as if a
        model had written it.
    """
    try:
        value = answer(ask.evidence)
        return value, parse_reply(json.dumps(value), ask.reply).reply
    except ModelError as error:
        return None, NoReply(error.code, error.detail)
