"""The protocol of models: every ask of a judge is answered by an implementation of `Model`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from assizes.judge.config.prices import Price
from assizes.judge.errors import ModelError
from assizes.judge.protocol import Ask

OFFLINE_PROVIDER = "offline"

FREE = Price(input_usd_per_million=0.0, output_usd_per_million=0.0, source="offline")
"""The price of a model that calls no provider."""

ESTIMATED = "tokens_estimated"
"""Flag of a completion whose tokens the provider did not meter."""


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
