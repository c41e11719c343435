"""The offline judge `offline/lexical` as a model: plain text rules answer, not a language model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import BaseModel

from assizes.judge.config.judging import OFFLINE_MODEL, Price
from assizes.judge.errors import ModelError
from assizes.judge.evidence.tool_calls import ConversationEvidence
from assizes.judge.families.diagnosis.looks import DiagnosisEvidence
from assizes.judge.families.pairwise.judge import PairEvidence
from assizes.judge.families.rag import RatingEvidence
from assizes.judge.families.run_criteria.looks import RunCriteriaEvidence
from assizes.judge.heuristic import (
    agent_steps,
    conversation,
    diagnosis,
    pairwise,
    rag,
    run_criteria,
)
from assizes.judge.models.model import FREE, OFFLINE_PROVIDER, Completion
from assizes.judge.prompts.reply import parse_reply
from assizes.judge.protocol import Ask, NoReply

ANSWERS: Final[Mapping[type, Callable[[Any], dict[str, Any]]]] = {
    ConversationEvidence: conversation.answer,
    **agent_steps.ANSWERS,
    RatingEvidence: rag.answer,
    PairEvidence: pairwise.answer,
    DiagnosisEvidence: diagnosis.answer,
    RunCriteriaEvidence: run_criteria.answer,
}
"""The offline rule for each type of evidence; a rule returns the JSON value of a reply."""


class HeuristicModel:
    """The offline judge as a model: plain text rules answer from the evidence of an ask."""

    name = OFFLINE_MODEL
    provider = OFFLINE_PROVIDER
    cache_key: str | None = None  # not cached: an answer costs nothing to repeat
    price: Price | None = FREE

    def tokens(self, ask: Ask[Any], cap: int = 1) -> tuple[int, int]:
        """Return no tokens."""
        return 0, 0

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """Answer by plain text rules, at no cost."""
        text = json.dumps(_answer(ask.evidence), ensure_ascii=False)
        return Completion(text=text, answered_by=self.name, cost_usd=0.0)

    async def aclose(self) -> None:
        """Do nothing: no connection is ever opened."""


def plain_reply(ask: Ask[Any]) -> tuple[dict[str, Any] | None, BaseModel | NoReply]:
    """Return the offline judge's reply to an ask: its JSON value (`None`: no rule), and it parsed."""
    try:
        value = _answer(ask.evidence)
        return value, parse_reply(json.dumps(value), ask.read_offline().reply).reply
    except ModelError as error:
        return None, NoReply(error.code, error.detail)


def _answer(evidence: object) -> dict[str, Any]:
    kind = type(evidence)
    if kind not in ANSWERS:
        raise ModelError("no_offline_rule", f"the offline judge has no rule for {kind.__name__}")
    return ANSWERS[kind](evidence)
