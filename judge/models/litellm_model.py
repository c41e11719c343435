"""Models by way of litellm; imported only where needed, because importing litellm takes seconds."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import version
from time import perf_counter
from typing import Any, BinaryIO, Final
from weakref import WeakKeyDictionary, WeakSet

from pydantic import BaseModel

from assizes.judge.config import judging
from assizes.judge.config.judging import JudgeConfig, LimitsConfig, Price, ReplyFormat
from assizes.judge.errors import ConfigurationError, ModelError
from assizes.judge.models import prompt_caching, provider_calls
from assizes.judge.models.litellm_direct import direct_calls
from assizes.judge.models.litellm_library import (
    FAILURES,
    FILE_CONTENT_STREAMING_PROVIDERS,
    ROUTE,
    BadRequestError,
    LlmProviders,
    UnsupportedParamsError,
    chat_format,
    configure_litellm,
    gemini_request_body,
    get_optional_params,
    google_credentials,
    litellm,
    type_to_response_format_param,
    without_qualifier_warnings,
)
from assizes.judge.models.model import Completion, UnusableReply, meant_model
from assizes.judge.models.provider_calls import model_error, readable
from assizes.judge.models.provider_format import LiteLLMParts, ProviderFormat, openai_body
from assizes.judge.models.provider_http import FILE_TIMEOUT_S
from assizes.judge.prompts.prompt_texts import messages, with_reply_id
from assizes.judge.protocol import Ask

_open_models: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, WeakSet[LiteLLM]]] = (
    WeakKeyDictionary()
)
"""Models that have called in an event loop and are not closed: they share litellm's HTTP clients."""


class LiteLLM:
    """A model of any provider that litellm knows; each call makes at most one HTTP request.

    A parameter that the model rejects is left out of all later calls.
    """

    def __init__(self, config: JudgeConfig, limits: LimitsConfig) -> None:
        configure_litellm()
        self.name = config.model_id
        self.provider = provider_of(config)
        described = chat_format("", self.provider)
        self.api_base = config.api_base
        self.price = price_of(config, limits)
        temperature = temperature_for(config, self.provider)
        mode = response_mode(config, self.provider)
        self._parameters = provider_calls.Parameters(mode, config.max_output_tokens, temperature)
        self._scale = judging.TokenScale()
        entry = _price_entry(self.name, self.provider)
        # Tokens of the context window; `None` where litellm's list lacks the model.
        self._window: int | None = entry.get("max_input_tokens")
        self.marked_from = prompt_caching.marked_from(self.name, self.provider, entry)
        if self.marked_from is not None:
            self.price = prompt_caching.with_write_price(self.price)
        # The engine alone decides about retries: those of litellm and the SDKs below it are off.
        self._call = dict[str, Any](timeout=limits.timeout_s, num_retries=0, max_retries=0)
        if self.api_base is not None:
            self._call["api_base"] = self.api_base
        # As first sent: what the model then rejects depends on the model alone.
        settings = {"temperature": temperature, "response_mode": mode}
        self.cache_key: str | None = provider_calls.cache_key(config, self.provider, **settings)
        if described is None:  # litellm's own HTTP client does not know the provider's protocol
            os.environ[ROUTE] = "false"
        self.calls = direct_calls(self.name, self.provider, described is not None, self._call)

    def tokens(self, ask: Ask[Any], cap: int = 1) -> tuple[int, int]:
        """Estimate tokens by the length of messages and schema, corrected by the calls so far."""
        in_words = self._parameters.mode != "json_schema"
        sent = self._estimate(ask, messages(ask, in_words=in_words))
        return self._scale.adjusted_estimate(sent), self._parameters.cap * cap

    def request(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> dict[str, Any]:
        """Return model, messages and parameters of a call, as arguments of litellm."""
        reply: type[BaseModel] = ask.reply
        return {
            "model": self.name,
            "messages": messages(ask, complaint, in_words=self._parameters.mode != "json_schema"),
            **self._parameters.of(_json_schema_format(reply), cap),
        }

    def sent_request(self, ask: Ask[Any]) -> dict[str, Any]:
        """Return the arguments of a first call as they are sent."""
        return self._marked(self.request(ask))

    def _marked(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return a request that asks for the provider's prompt cache where it must be asked for."""
        sent = prompt_caching.with_mark(request["messages"], self.marked_from)
        return {**request, "messages": sent}

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """Make one model call, with at most one HTTP request.

        Raises:
            ModelError: with a code of `model_error` for a failed request; `context_overflow` before
                any request; `unsupported_parameter` when the next call will leave the parameter
                out; `empty`, `truncated_output` or `refused` for an answer that cannot be used.
        """
        request = self.request(ask, complaint=complaint, cap=cap)
        # Before the call: a parallel call may make the list of dropped parameters longer.
        flags = tuple(f"dropped:{name}" for name in self._parameters.dropped)
        self.keep_clients()
        estimate = self._estimate(ask, request["messages"])
        await self._check_fit(request["messages"], estimate)
        started = perf_counter()
        try:
            response = await self.calls.respond(
                self._kind(ask, request), {**self._marked(request), **self._call}
            )
        except FAILURES as error:
            name = self._parameters.drop_rejected(error, request)
            if name is None:
                raise model_error(error) from error
            detail = readable(f"the model does not take {name}: {readable(str(error))}")
            status = getattr(error, "status_code", None)
            raise ModelError("unsupported_parameter", detail, status=status) from error
        latency_ms = (perf_counter() - started) * 1000
        completion = replace(
            provider_calls.completion_of(response, self.name, self.price),
            latency_ms=latency_ms,
            reply_id=ask.reply_id,
            flags=flags,
            by_schema=request.get("response_format", {}).get("type") == "json_schema",
        )
        self._scale.note(completion.input_tokens, estimate)
        completion = provider_calls.with_estimates(
            completion, self._scale.adjusted_estimate(estimate), self.price
        )
        if why := provider_calls.unusable_reason(response):
            raise UnusableReply(*why, completion)
        return completion

    def _kind(self, ask: Ask[Any], request: Mapping[str, Any]) -> tuple[object, ...]:
        """Return what decides a call's request beside its texts."""
        names = ("temperature", "max_tokens", "max_completion_tokens")
        response_format = request.get("response_format", {}).get("type")
        is_marked = prompt_caching.is_marked(request["messages"][0]["content"], self.marked_from)
        return (ask.reply, *map(request.get, names), response_format, is_marked)

    def keep_clients(self) -> None:
        """Keep the HTTP clients of the running event loop open until `aclose`."""
        _open_models.setdefault(asyncio.get_running_loop(), WeakSet()).add(self)

    async def aclose(self) -> None:
        """Close the connections of the running event loop, unless another open model shares them.

        A later call opens new ones.
        """
        loop = asyncio.get_running_loop()
        sharing = _open_models.get(loop, WeakSet())
        sharing.discard(self)
        if sharing:
            return
        # litellm's own function for closing leaves closed clients in the cache: the next call
        # would use them. The cache holds the clients of all event loops, for all models together.
        clients = litellm.in_memory_llm_clients_cache
        ours = [key for key in clients.cache_dict if key.endswith(f"-{id(loop)}")]
        for key in ours:
            clients.ttl_dict.pop(key, None)
        closing = [clients.cache_dict.pop(key).close() for key in ours]
        await asyncio.gather(*filter(inspect.isawaitable, closing))

    def _estimate(self, ask: Ask[Any], sent_messages: Sequence[Mapping[str, str]]) -> int:
        reply: type[BaseModel] = ask.reply
        # In the other modes the schema is part of the messages.
        beside = _schema_tokens(reply) if self._parameters.mode == "json_schema" else 0
        return beside + judging.estimated_tokens(*(message["content"] for message in sent_messages))

    async def _check_fit(self, sent_messages: Sequence[Mapping[str, str]], estimate: int) -> None:
        """Raise `context_overflow`, without a request, for a prompt that certainly does not fit."""
        if self._window is None or estimate <= provider_calls.NEARLY_FULL * self._window:
            return
        # In a thread: the tokenizer takes long over a prompt of this size.
        count = await asyncio.to_thread(
            litellm.token_counter, model=self.name, messages=sent_messages
        )
        if count > self._window * (
            1.0 if self.provider == "openai" else provider_calls.OTHER_TOKENIZER
        ):
            detail = f"the prompt has {count} tokens, the model takes {self._window}"
            raise ModelError("context_overflow", detail)


def price_of(config: JudgeConfig, limits: LimitsConfig) -> Price | None:
    """Return the configured price of a model, else that in litellm's installed list, else None.

    Raises:
        ConfigurationError: the model's provider is unknown.
    """
    if (configured := limits.prices.get(config.model_id)) is not None:
        return configured
    entry = _price_entry(config.model_id, provider_of(config))
    return judging.listed_price(entry, f"litellm {version('litellm')}")


def _price_entry(model: str, provider: str) -> Mapping[str, Any]:
    """Return the model's entry in litellm's price list; an empty mapping without an entry."""
    bare = model.removeprefix(f"{provider}/")
    # The list names some models with their provider and some without.
    names = (model, bare, f"{provider}/{bare}")
    return next((litellm.model_cost[name] for name in names if name in litellm.model_cost), {})


def check(config: JudgeConfig) -> None:
    """Check that a model can be called, without calling it.

    Raises:
        ConfigurationError: unknown provider, missing key, or a temperature the model rejects.
    """
    configure_litellm()
    provider = provider_of(config)
    environment = litellm.validate_environment(model=config.model_id, api_base=config.api_base)
    key = f"{provider.upper()}_API_KEY"  # CI sets a secret that is not there to an empty text
    is_blank = not config.api_base and key in os.environ and not os.environ[key].strip()
    if missing := environment["missing_keys"] or [key] * is_blank:
        hint = ""
        if config.api_base:
            hint = " (any value if the endpoint asks for no key)"
        elif missing[-1].endswith("_API_BASE"):
            hint = ", or its address as [judge] api_base"
        raise ConfigurationError(
            f"[judge] model {config.model_id!r}: set {' and '.join(missing)} in the environment{hint}"
        )
    try:
        _check_parameters(config, provider, config.temperature)
    except UnsupportedParamsError as error:
        raise ConfigurationError(
            f"[judge] model {config.model_id!r}, temperature {config.temperature!r}: "
            f"{readable(str(error))}"
        ) from error


def temperature_for(config: JudgeConfig, provider: str) -> float | None:
    """Return the configured temperature, else the default; None when the model takes no default."""
    if config.temperature is not None:
        return config.temperature
    try:
        _check_parameters(config, provider, provider_calls.DEFAULT_TEMPERATURE)
    except UnsupportedParamsError:
        return None
    return provider_calls.DEFAULT_TEMPERATURE


def _check_parameters(config: JudgeConfig, provider: str, temperature: float | None) -> None:
    """Let litellm raise `UnsupportedParamsError`, without a call, for parameters it cannot send."""
    with without_qualifier_warnings():
        get_optional_params(
            model=config.model_id.removeprefix(f"{provider}/"),
            custom_llm_provider=provider,
            temperature=temperature,
            max_tokens=config.max_output_tokens,
        )


def provider_of(config: JudgeConfig) -> str:
    """Return the provider of a model, as litellm derives it from the model's name.

    Raises:
        ConfigurationError: litellm does not know the provider, or no model is named after it.
    """
    try:
        name, provider, _, _ = litellm.get_llm_provider(config.model_id, api_base=config.api_base)
    except BadRequestError as error:
        raise ConfigurationError(
            f"[judge] model {config.model_id!r}: litellm does not know its provider; "
            f"write provider/model, e.g. {meant_model(config.model_id, LlmProviders)}"
        ) from error
    if not name.strip(" /"):
        raise ConfigurationError(
            f"[judge] model {config.model_id!r}: names no model after the provider; "
            "write provider/model, e.g. openai/gpt-4.1"
        )
    return str(provider)


def response_mode(config: JudgeConfig, provider: str) -> ReplyFormat:
    """Return the configured response mode, else the strictest that the model is known to take."""
    if config.reply_format is not None:
        return config.reply_format
    bare = config.model_id.removeprefix(f"{provider}/")
    known = litellm.get_supported_openai_params(bare, custom_llm_provider=provider)
    # `None`: litellm does not know the provider.
    if known is not None and "response_format" not in known:
        return "words"
    # Such a server serves any model; a schema that it rejects is given up at the first call.
    self_hosted = config.api_base is not None and provider in provider_calls.SELF_HOSTED
    if self_hosted or litellm.supports_response_schema(config.model_id):
        return "json_schema"
    return "words" if known is None else "json_object"


@lru_cache(maxsize=256)
def _json_schema_format(reply: type[BaseModel]) -> str:
    wanted: Any = type_to_response_format_param(reply)
    # OpenAI allows ASCII letters, digits, - and _ in the name, at most 64.
    wanted["json_schema"]["name"] = re.sub(r"[^A-Za-z0-9_-]", "_", reply.__name__)[:64]
    wanted["json_schema"]["schema"] = with_reply_id(wanted["json_schema"]["schema"])
    return json.dumps(wanted)


@lru_cache(maxsize=256)
def _schema_tokens(reply: type[BaseModel]) -> int:
    return judging.estimated_tokens(_json_schema_format(reply))


def provider_parts(provider: str, model: str = "") -> LiteLLMParts:
    """Return what litellm has for a provider's own protocol; some have one for each `model`."""
    chat = chat_format(model, provider)
    writers = (get_optional_params, litellm.ModelResponse, gemini_request_body)
    return LiteLLMParts(chat, *writers, google_credentials())


class LiteLLMBatchCalls:
    """litellm's files and batches for one model; implements `assizes.judge.models.batch_lines.BatchCalls`."""

    def __init__(self, model: LiteLLM) -> None:
        self.model, self.price = model.name, model.price
        self._provider, self._keep_clients = model.provider, model.keep_clients
        self._format = ProviderFormat(model, get_optional_params, openai_body, self.response)
        self._call = model._call | {"timeout": FILE_TIMEOUT_S}  # without retries, as live calls

    def body(self, ask: Ask[Any]) -> dict[str, Any]:
        """Return the body of the HTTP request that litellm would send for a live call."""
        return self._format.body(ask)

    def response(self, body: dict[str, Any], _name: str = "") -> Any:
        """Return the response object that litellm would return for a response's body."""
        return litellm.ModelResponse(**body)

    async def upload(self, lines: BinaryIO) -> str:
        """Upload a file of requests, which is read while it is sent; return its id."""
        file = ("asks.jsonl", lines, "application/jsonl")
        return str((await self._request(litellm.acreate_file, file=file, purpose="batch")).id)

    async def begin(self, file_id: str, tag: Mapping[str, str]) -> Any:
        """Begin a batch over a file, to be answered within 24 hours, the only window on offer."""
        wanted = {"endpoint": "/v1/chat/completions", "completion_window": "24h"}
        asked = {**wanted, "input_file_id": file_id, "metadata": dict(tag)}
        return await self._request(litellm.acreate_batch, **asked)

    async def batch(self, batch_id: str) -> Any:
        """Return a batch with its present status."""
        return await self._request(litellm.aretrieve_batch, batch_id=batch_id)

    async def page(self, after: str | None) -> Any:
        """Return up to 100 batches, newest first."""
        return await self._request(litellm.alist_batches, after=after, limit=100)

    async def content(self, file_id: str) -> AsyncIterator[bytes]:
        """Yield the bytes of a file, in chunks where litellm can stream, else all at once."""
        streams = self._provider in FILE_CONTENT_STREAMING_PROVIDERS
        response = await self._request(litellm.afile_content, file_id=file_id, stream=streams)
        if not streams:
            yield response.content
            return
        try:
            async for chunk in response.stream_iterator:
                yield chunk
        except FAILURES as error:
            raise model_error(error) from error

    async def _request(self, function: Callable[..., Awaitable[Any]], **rest: Any) -> Any:
        self._keep_clients()
        try:
            return await function(**rest, **self._call, custom_llm_provider=self._provider)
        except FAILURES as error:
            raise model_error(error) from error
