"""The one seam to language models: everything a judge asks is answered here."""

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
"""Flag of a completion whose tokens were not metered."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of a model, unparsed.

    `cost_usd` is null where the price is not known, never 0 for that; `latency_ms` is wall clock.

    Args:
        text: what the model wrote.
        answered_by: the model as the provider names it.
        input_tokens: as metered, else estimated (`tokens_estimated` among the flags).
        output_tokens: the same.
        cost_usd: by the prices pinned into the run.
        latency_ms: wall clock.
        reply_id: the id that the reply was told to repeat; null where none was.
        fingerprint: the provider's mark of the system that answered; empty where it gives none.
        flags: what was done to get it: `dropped:temperature`, `tokens_estimated`.
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
    """An answer came, and was paid for, but is empty, cut off or a refusal.

    Args:
        code: `empty`, `truncated_output` or `refused`.
        detail: what is wrong with it.
        completion: the answer, so that its tokens and cost are not lost.
    """

    def __init__(self, code: str, detail: str, completion: Completion) -> None:
        """Keep the answer beside the reason."""
        super().__init__(code, detail)
        self.completion = completion


class ProviderUnreachable(ModelError):
    """No connection to the provider came about: nothing was sent, nothing was charged."""

    def __init__(self, detail: str) -> None:
        """The code is `unavailable`."""
        super().__init__("unavailable", detail)


class Model(Protocol):
    """Answers asks. Implementations: `LiteLLM`, `Lexical`, `Scripted`."""

    @property
    def name(self) -> str:
        """The model as requested, e.g. `openai/gpt-4.1`."""

    @property
    def provider(self) -> str:
        """Who is sent the transcript; `offline` for nobody."""

    @property
    def cache_key(self) -> str | None:
        """What besides the prompt decides the answer (model, parameters); null: do not cache."""

    @property
    def price(self) -> Price | None:
        """What its tokens cost; null where that is not known."""

    def tokens(self, ask: Ask[Any], cap: int = 1) -> tuple[int, int]:
        """Tokens of a call, estimated before it is made: those sent, and the most that can come
        back; `cap` as for `complete`.
        """

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """One model call.

        Args:
            ask: the question.
            complaint: what was wrong with the answer before.
            cap: times the usual number of tokens the answer may take.

        Raises:
            ModelError: when no answer came.
        """

    async def aclose(self) -> None:
        """Give back connections; a later call may open new ones."""
