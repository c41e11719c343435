"""The one seam to language models: everything a judge asks is answered here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from judge.protocol import Ask


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of a model, unparsed.

    `cost_usd` is null where the price is not known, never 0 for that; `latency_ms` is wall clock.
    """

    text: str
    answered_by: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    latency_ms: float = 0.0


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

    async def complete(self, ask: Ask[Any], *, complaint: str | None = None) -> Completion:
        """One model call. `complaint` says what was wrong with the answer before.

        Raises:
            ModelError: when no answer came.
        """
