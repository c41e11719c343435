"""The protocol of models, which answer the asks of judges, and the models that call no provider."""

from __future__ import annotations

import difflib
import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Final, Protocol

from assizes.judge.config.judging import OFFLINE_MODEL, Price, estimated_tokens
from assizes.judge.errors import ModelError
from assizes.judge.protocol import Ask

OFFLINE_PROVIDER = "offline"  # of models that send nothing over the network

FREE = Price(input_usd_per_million=0.0, output_usd_per_million=0.0, source="offline")
"""The price of a model that calls no provider."""

ESTIMATED = "tokens_estimated"
"""Flag of a completion whose tokens the provider did not meter."""

NOT_CACHED: Final = "not_cached"
"""Code of the error for an ask whose reply is not in the cache."""


MAX_CALL_TOKENS: Final = 100_000_000
"""Tokens of a prompt or an answer above which a number is no count of tokens."""

MAX_CALL_USD: Final = 1_000_000.0
"""US dollars above which a number is no cost of one call."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of a model, not yet parsed."""

    text: str
    answered_by: str  # the model as the provider names it
    input_tokens: int | None = None  # metered, or with flag `tokens_estimated`; `None`: not known
    output_tokens: int | None = None
    cost_usd: float | None = None  # by the prices pinned into the run; `None`, never 0: no price
    latency_ms: float = 0.0  # wall clock
    reply_id: str | None = None  # that the prompt told the model to repeat; `None`: told no id
    fingerprint: str = ""  # the provider's mark of the system that answered; empty: it gives none
    flags: tuple[str, ...] = ()  # how the answer was obtained, e.g. `dropped:temperature`
    by_schema: bool = False  # the provider was given the schema to hold the answer to
    # Parts of `input_tokens`: read from the provider's prompt cache, and put there by this call.
    cached_tokens: int | None = None  # `None`: the provider does not tell
    cache_write_tokens: int | None = None


def is_token_count(number: object) -> bool:
    """Whether a number that came from outside can be the tokens of a prompt or an answer."""
    is_whole = isinstance(number, int) and not isinstance(number, bool)
    return is_whole and 0 <= number <= MAX_CALL_TOKENS  # type: ignore[operator]


def with_bounded_numbers(completion: Completion) -> Completion:
    """A completion whose tokens, cost and latency are None or 0 where no call can have them."""
    names = ("input_tokens", "output_tokens", "cached_tokens", "cache_write_tokens")
    bounded: dict[str, Any] = {
        name: each if is_token_count(each := getattr(completion, name)) else None for name in names
    }
    usd, latency_ms = completion.cost_usd, completion.latency_ms
    bounded["cost_usd"] = usd if usd is not None and 0 <= usd <= MAX_CALL_USD else None
    bounded["latency_ms"] = latency_ms if math.isfinite(latency_ms) and latency_ms >= 0 else 0.0
    changed = {
        name: each for name, each in bounded.items() if each is not getattr(completion, name)
    }
    return replace(completion, **changed) if changed else completion


class UnusableReply(ModelError):
    """A paid answer without use; the code is `empty`, `truncated_output` or `refused`."""

    def __init__(self, code: str, detail: str, completion: Completion) -> None:
        super().__init__(code, detail)
        self.completion = completion  # so that its tokens and cost are not lost


class ProviderUnreachable(ModelError):
    """No connection to the provider was made, so nothing was sent and nothing was charged."""

    def __init__(self, detail: str) -> None:
        super().__init__("unavailable", detail)  # retried as any other outage


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
        """Estimate a call's tokens: those of the prompt, and the most that the answer can have."""

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """Make one model call.

        `complaint` is the fault of the answer before, when the model is asked again; `cap` is a
        factor on the usual limit of the answer's tokens.

        Raises:
            ModelError: no answer came, or the answer cannot be used.
        """

    async def aclose(self) -> None:
        """Close the connections; a later call may open new ones."""


class ReplayOnlyModel:
    """A stand-in for a model that is never called: all its answers come from the reply cache.

    It has the name and cache key of the model, and needs no API key and no network.
    """

    def __init__(self, model: Model) -> None:
        self.name, self.provider, self.cache_key = model.name, model.provider, model.cache_key
        self.price: Price | None = model.price
        self._model = model

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


def meant_model(model: str, providers: Iterable[Enum]) -> str:
    """A model's name as it was probably meant, with a known provider in front."""
    name, slash, rest = model.partition("/")
    known = [OFFLINE_PROVIDER, *(str(provider.value) for provider in providers)]
    near = difflib.get_close_matches(name, known, 1) if slash else []
    if near == [OFFLINE_PROVIDER]:
        return OFFLINE_MODEL
    return f"{near[0] if near else 'openai'}/{rest or 'gpt-4.1'}"


def is_offline_model(model: Model) -> bool:
    """Whether a model sends nothing over the network, so that nothing has to be limited or paid."""
    return isinstance(model, ReplayOnlyModel) or model.provider == OFFLINE_PROVIDER


ScriptedReply = (
    str
    | Mapping[str, Any]
    | ModelError
    | Completion
    | Callable[[Ask[Any]], str | Mapping[str, Any]]
)
"""A prepared reply: text, a JSON object, an error to raise, a completion or a function of the ask."""


class ScriptedModel:
    """Answers asks with queued replies, in order: for tests and rehearsals without a provider.

    A text or an object becomes an answer with 10 tokens in, 5 tokens out, 1 ms latency and no cost;
    queue a `Completion` where other figures matter. Without a cache key no answer is cached.
    """

    name = "scripted/queue"
    provider = "scripted"
    price: Price | None = FREE

    def __init__(
        self, replies: Iterable[ScriptedReply], cache_key: str | None = "scripted"
    ) -> None:
        self.cache_key = cache_key
        self.asked: list[tuple[Ask[Any], str | None]] = []  # with complaints; `None`: a first ask
        self._replies: deque[ScriptedReply] = deque(replies)

    def tokens(self, ask: Ask[Any], cap: int = 1) -> tuple[int, int]:
        """Estimate tokens by the length of the prompt; an answer has at most 100 times `cap`."""
        return estimated_tokens(ask.prompt.system, ask.prompt.user), 100 * cap

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """Answer with the next reply of the queue.

        Raises:
            ModelError: the queued error, or `script_empty` when the queue is empty.
        """
        self.asked.append((ask, complaint))
        if not self._replies:
            raise ModelError("script_empty", f"no reply is queued for ask {len(self.asked)}")
        reply = self._replies.popleft()
        if callable(reply):
            reply = reply(ask)
        if isinstance(reply, ModelError):
            raise reply
        if isinstance(reply, Completion):
            return reply
        text = reply if isinstance(reply, str) else json.dumps(reply)
        return Completion(text, self.name, 10, 5, cost_usd=0.0, latency_ms=1.0)

    async def aclose(self) -> None:
        """Do nothing: no connection is ever opened."""
