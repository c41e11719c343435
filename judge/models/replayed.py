"""A model that is never called: every answer comes from kept replies, or not at all."""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.config.prices import Price
from assizes.judge.errors import ModelError
from assizes.judge.models.model import OFFLINE_PROVIDER, Completion, Model
from assizes.judge.protocol import Ask

NOT_CACHED: Final = "not_cached"


class ReplayOnlyModel:
    """Stands for a model under its name and cache key, without its key and its network."""

    def __init__(self, model: Model) -> None:
        self.name, self.provider, self.cache_key = model.name, model.provider, model.cache_key
        self._model = model

    @property
    def price(self) -> Price | None:
        """The model's."""
        return self._model.price

    def tokens(self, ask: Ask[Any], cap: int = 1) -> tuple[int, int]:
        """The model's estimate."""
        return self._model.tokens(ask, cap)

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """Never an answer.

        Raises:
            ModelError: `not_cached`.
        """
        raise ModelError(NOT_CACHED, "no reply is kept, and none is asked for (replay_only)")

    async def aclose(self) -> None:
        """Give back what the model opened; it opened nothing."""
        await self._model.aclose()


def is_offline_model(model: Model) -> bool:
    """Whether a model sends nothing anywhere: there is nothing to limit or to pay for."""
    return isinstance(model, ReplayOnlyModel) or model.provider == OFFLINE_PROVIDER
