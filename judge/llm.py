"""The one seam to language models: everything a judge asks is answered here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from judge.config import OFFLINE_MODEL, JudgeConfig, LimitsConfig
from judge.errors import ModelError
from judge.offline import answer
from judge.protocol import Ask

OFFLINE_PROVIDER = "offline"


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


class Unreached(ModelError):
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

    async def complete(self, ask: Ask[Any], *, complaint: str | None = None) -> Completion:
        """One model call. `complaint` says what was wrong with the answer before.

        Raises:
            ModelError: when no answer came.
        """

    async def aclose(self) -> None:
        """Give back connections; a later call may open new ones."""


class Lexical:
    """The offline judge: answers from an ask's evidence by plain text rules, without a model.

    Its answers cost nothing to repeat, so they are not cached; a complaint changes nothing.
    """

    name = OFFLINE_MODEL
    provider = OFFLINE_PROVIDER
    cache_key: str | None = None

    async def complete(self, ask: Ask[Any], *, complaint: str | None = None) -> Completion:
        """What plain text rules say about the evidence; no tokens, no cost."""
        text = json.dumps(answer(ask.evidence), ensure_ascii=False)
        return Completion(text=text, answered_by=self.name, cost_usd=0.0)

    async def aclose(self) -> None:
        """Nothing is open."""


def check_model(config: JudgeConfig) -> None:
    """See that the model of a run can be called, without calling it.

    Raises:
        ConfigurationError: when its provider is unknown or a key is not in the environment.
    """
    if config.model_id == OFFLINE_MODEL:
        return
    from judge.litellm_model import check

    check(config)


def model_for(config: JudgeConfig, limits: LimitsConfig) -> Model:
    """The model that answers a run's asks: `Lexical` for `offline/lexical`, else `LiteLLM`.

    Raises:
        ConfigurationError: when the model's provider is unknown.
    """
    if config.model_id == OFFLINE_MODEL:
        return Lexical()
    from judge.litellm_model import LiteLLM

    return LiteLLM(config, limits)
