"""A model that is never called: all its answers come from the reply cache."""

from __future__ import annotations

from typing import Any, Final

from assizes.judge.config.prices import Price
from assizes.judge.errors import ModelError
from assizes.judge.models.model import OFFLINE_PROVIDER, Completion, Model
from assizes.judge.protocol import Ask

NOT_CACHED: Final = "not_cached"
"""Code of the error for an ask whose reply is not in the cache."""


class ReplayOnlyModel:
    """A stand-in with the name and cache key of a model; it needs no API key and no network.

    Args:
        model: the model whose cached replies are used.
    """

    def __init__(self, model: Model) -> None:
        self.name, self.provider, self.cache_key = model.name, model.provider, model.cache_key
        self._model = model

    @property
    def price(self) -> Price | None:
        """The price of the model's tokens; None when it is not known."""
        return self._model.price

    def tokens(self, ask: Ask[Any], cap: int = 1) -> tuple[int, int]:
        """Return the model's estimate."""
        return self._model.tokens(ask, cap)

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """Refuse the call: the cache was searched before.

        Raises:
            ModelError: always, with the code `not_cached`.
        """
        raise ModelError(NOT_CACHED, "no reply is kept, and none is asked for (replay_only)")

    async def aclose(self) -> None:
        """Close the model's connections."""
        await self._model.aclose()


def is_offline_model(model: Model) -> bool:
    """Whether a model sends nothing over the network, so that nothing has to be limited or paid."""
    return isinstance(model, ReplayOnlyModel) or model.provider == OFFLINE_PROVIDER
