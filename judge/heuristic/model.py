"""The offline judge as a model: it answers asks by plain text rules, without a language model."""

from __future__ import annotations

import json
from typing import Any

from assizes.judge.config.prices import Price
from assizes.judge.config.run import OFFLINE_MODEL
from assizes.judge.heuristic.answers import answer
from assizes.judge.models.model import FREE, OFFLINE_PROVIDER, Completion
from assizes.judge.protocol import Ask


class HeuristicModel:
    """The offline judge: answers from an ask's evidence by plain text rules, without a model.

    Its answers cost nothing to repeat, so they are not cached; a complaint changes nothing.
    """

    name = OFFLINE_MODEL
    provider = OFFLINE_PROVIDER
    cache_key: str | None = None
    price: Price | None = FREE

    def tokens(self, ask: Ask[Any], cap: int = 1) -> tuple[int, int]:
        """None."""
        return 0, 0

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """What plain text rules say about the evidence; no tokens, no cost."""
        text = json.dumps(answer(ask.evidence), ensure_ascii=False)
        return Completion(text=text, answered_by=self.name, cost_usd=0.0)

    async def aclose(self) -> None:
        """Nothing is open."""
