"""The offline judge as a model: it answers asks by plain text rules, without a language model."""

from __future__ import annotations

import json
from typing import Any

from assizes.judge.config.judging import OFFLINE_MODEL
from assizes.judge.config.prices import Price
from assizes.judge.heuristic.answers import answer
from assizes.judge.models.model import FREE, OFFLINE_PROVIDER, Completion
from assizes.judge.protocol import Ask


class HeuristicModel:
    """The offline judge: plain text rules answer from an ask's evidence, without a language model.

    Its answers cost nothing to repeat, so they are not cached. A complaint changes nothing.
    """

    name = OFFLINE_MODEL
    provider = OFFLINE_PROVIDER
    cache_key: str | None = None
    price: Price | None = FREE

    def tokens(self, ask: Ask[Any], cap: int = 1) -> tuple[int, int]:
        """Return no tokens."""
        return 0, 0

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """Answer by plain text rules, at no cost."""
        text = json.dumps(answer(ask.evidence), ensure_ascii=False)
        return Completion(text=text, answered_by=self.name, cost_usd=0.0)

    async def aclose(self) -> None:
        """Do nothing: no connection is ever opened."""
