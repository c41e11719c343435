"""The protocol of models: every ask of a judge is answered by an implementation of `Model`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from assizes.judge.config.prices import Price
from assizes.judge.config.run import OFFLINE_MODEL, JudgeConfig, LimitsConfig
from assizes.judge.errors import ModelError
from assizes.judge.heuristic.answers import answer
from assizes.judge.protocol import Ask

OFFLINE_PROVIDER = "offline"

ESTIMATED = "tokens_estimated"
"""Flag of a completion whose tokens the provider did not meter."""

FREE = Price(input_usd_per_million=0.0, output_usd_per_million=0.0, source="offline")


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of a model, not yet parsed.

    Attributes:
        text: the text that the model wrote.
        answered_by: the model, as the provider names it.
        input_tokens: tokens of the prompt, metered by the provider or estimated (then
            `tokens_estimated` is among the flags).
        output_tokens: tokens of the answer, metered or estimated in the same way.
        cost_usd: the cost by the prices pinned into the run; None, never 0, for an unknown price.
        latency_ms: wall clock time of the call.
        reply_id: the id that the prompt told the model to repeat; None without such an id.
        fingerprint: the provider's mark of the system that answered; empty when it gives none.
        flags: marks of how the answer was obtained: `dropped:temperature`, `tokens_estimated`.
    """

    text: str
    answered_by: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    latency_ms: float = 0.0
    reply_id: str | None = None
    fingerprint: str = ""
    flags: tuple[str, ...] = ()


class UnusableReply(ModelError):
    """An answer that was received and paid for, but is empty, cut off or a refusal.

    Args:
        code: `empty`, `truncated_output` or `refused`.
        detail: the reason why the answer cannot be used.
        completion: the answer, so that its tokens and cost are not lost.
    """

    def __init__(self, code: str, detail: str, completion: Completion) -> None:
        """Create the error with its answer."""
        super().__init__(code, detail)
        self.completion = completion


class ProviderUnreachable(ModelError):
    """No connection to the provider was made, so nothing was sent and nothing was charged."""

    def __init__(self, detail: str) -> None:
        """Create the error with the code `unavailable`."""
        super().__init__("unavailable", detail)


class Model(Protocol):
    """A model that answers asks: `LiteLLM`, `HeuristicModel`, `ScriptedModel`, `ReplayOnlyModel`."""

    @property
    def name(self) -> str:
        """The model as the configuration names it, e.g. `openai/gpt-4.1`."""

    @property
    def provider(self) -> str:
        """The provider to which transcripts are sent; `offline` when nothing is sent."""

    @property
    def cache_key(self) -> str | None:
        """Everything besides the prompt that decides the answer; None: do not cache answers."""

    @property
    def price(self) -> Price | None:
        """The price of the model's tokens; None when it is not known."""

    def tokens(self, ask: Ask[Any], cap: int = 1) -> tuple[int, int]:
        """Estimate the tokens of a call before it is made.

        Args:
            ask: the question.
            cap: as for `complete`.

        Returns:
            The tokens of the prompt, and the most tokens that the answer can have.
        """

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """Make one model call.

        Args:
            ask: the question.
            complaint: the fault of the answer before, when the model is asked again.
            cap: a factor on the usual limit of the answer's tokens.

        Raises:
            ModelError: no answer came, or the answer cannot be used.
        """

    async def aclose(self) -> None:
        """Close the connections; a later call may open new ones."""


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


def check_model(config: JudgeConfig) -> None:
    """Check that the model of a run can be called, without calling it.

    Raises:
        ConfigurationError: its provider is unknown, or a key is not in the environment.
    """
    if config.model_id == OFFLINE_MODEL:
        return
    from assizes.judge.models.litellm_model import check

    check(config)


def model_for(config: JudgeConfig, limits: LimitsConfig) -> Model:
    """Return the model of a run: `HeuristicModel` for `offline/lexical`, else `LiteLLM`.

    Raises:
        ConfigurationError: the model's provider is unknown.
    """
    if config.model_id == OFFLINE_MODEL:
        return HeuristicModel()
    from assizes.judge.models.litellm_model import LiteLLM

    return LiteLLM(config, limits)
