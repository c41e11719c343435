"""The only file that knows litellm: calls it, prices what came back, names what went wrong.

Importing it takes seconds and about 160 MiB, so it is imported where a model is really needed.
"""

from __future__ import annotations

import os

# Read while litellm is imported: without it, prices are fetched over the network.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import asyncio
import inspect
import json
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from time import perf_counter
from typing import Any, Final, Literal

import httpx
import litellm
from litellm.exceptions import LITELLM_EXCEPTION_TYPES, BadRequestError, UnsupportedParamsError
from litellm.llms.base_llm.base_utils import type_to_response_format_param
from litellm.utils import get_optional_params
from pydantic import BaseModel

from judge.config import JudgeConfig, LimitsConfig
from judge.errors import ConfigurationError, ModelError
from judge.llm import Completion, Unreached, UnusableReply
from judge.prices import Price, estimated_tokens
from judge.protocol import Ask
from judge.rows import as_json

litellm.telemetry = False
litellm.suppress_debug_info = True
litellm.drop_params = False

# litellm builds its response types on first use; pydantic then warns of one of them. litellm's own
# filter for that goes where a caller has put the warning filters back.
with warnings.catch_warnings():
    warnings.filterwarnings("ignore", message=".*`ReadOnly` qualifier.*", category=UserWarning)
    litellm.ModelResponse()

ResponseMode = Literal["json_schema", "json_object", "words"]
"""How a reply's shape is asked for: by its schema, as any JSON object, or in words alone."""

SELF_HOSTED: Final = frozenset(
    {"openai", "custom_openai", "hosted_vllm", "litellm_proxy", "llamafile", "lm_studio"}
)
"""Providers that mean any server of the OpenAI protocol once an `api_base` is given."""

MAX_DETAIL_CHARS: Final = 200

_CODES: Final = {
    401: "authentication",
    402: "quota",
    403: "authentication",
    404: "not_found",
    408: "timeout",
    413: "context_overflow",
    429: "rate_limited",
}
_SIGNS: Final = (
    ("quota", re.compile(r"insufficient_quota|exceeded your current quota", re.IGNORECASE)),
    ("refused", re.compile(r"content[_ ]?(filter|policy|management)", re.IGNORECASE)),
    ("context_overflow", re.compile(r"context[_ ](length|window)|prompt is too long", re.I)),
)
"""What providers say in their own words under a status that means several things."""

_FAILURES: Final[tuple[type[Exception], ...]] = tuple(LITELLM_EXCEPTION_TYPES)
_CLASS_NAMES: Final = re.compile(r"^(?:(?:litellm\.)?\w+(?:Error|Exception)\b[\s:-]*)+")
_SECRETS: Final = (
    re.compile(r"(\b(?:sk|pk|rk|gsk|xai)-)[\w*-]{6,}"),
    re.compile(r"(\bAIza)[\w-]{16,}"),
    re.compile(r"(\b(?:bearer|basic)\s+)[^\s\"',]{6,}", re.IGNORECASE),
    re.compile(r"(\b\w*(?:key|token|secret)\b(?:\s+provided)?[\"'\s:=]*)[\w+/=*-]{16,}", re.I),
    re.compile(r"(://)[^/\s@]+(?=@)"),
)


DEFAULT_TEMPERATURE: Final = 0.2


class LiteLLM:
    """A model of any provider that litellm knows, one HTTP request a call.

    litellm and the SDKs below it never repeat a call: what is worth repeating is decided once, by
    the engine.
    """

    def __init__(self, config: JudgeConfig, limits: LimitsConfig) -> None:
        self.name = config.model_id
        self.provider = provider_of(config)
        self._mode = response_mode(config, self.provider)
        self._cap = config.max_output_tokens
        self.price: Price | None = limits.prices.get(self.name)
        self._parameters: dict[str, Any] = {
            "model": self.name,
            "timeout": limits.timeout_s,
            "num_retries": 0,
            "max_retries": 0,
        }
        temperature = temperature_for(config, self.provider)
        if temperature is not None:
            self._parameters["temperature"] = temperature
        if config.api_base is not None:
            self._parameters["api_base"] = config.api_base
        self.cache_key: str | None = as_json(
            {
                "model": self.name,
                "provider": self.provider,
                "temperature": temperature,
                "max_output_tokens": config.max_output_tokens,
                "response_mode": self._mode,
                "api_base": config.api_base,
            }
        )

    def tokens(self, ask: Ask[Any], cap: int = 1) -> tuple[int, int]:
        """By the length of the prompt and of the reply's schema."""
        reply: type[BaseModel] = ask.reply
        sent = estimated_tokens(ask.prompt.system, ask.prompt.user, _schema(reply))
        return sent, self._cap * cap

    async def complete(
        self, ask: Ask[Any], *, complaint: str | None = None, cap: int = 1
    ) -> Completion:
        """One request; its latency is wall clock, its price litellm's.

        Raises:
            ModelError: with a code of `model_error`, or `empty`, `truncated_output`, `refused`.
        """
        parameters = {**self._parameters, **self._response_format(ask.reply)}
        parameters["max_tokens"] = self._cap * cap
        started = perf_counter()
        try:
            response = await litellm.acompletion(
                messages=self._messages(ask, complaint), **parameters
            )
        except _FAILURES as error:
            raise model_error(error) from error
        latency_ms = (perf_counter() - started) * 1000
        return _completion(response, self.name, latency_ms)

    async def aclose(self) -> None:
        """Close the connections of the running event loop; a later call opens new ones.

        litellm keeps its clients by event loop, for all models, and its own way of closing them
        leaves closed ones behind for the next call.
        """
        clients = litellm.in_memory_llm_clients_cache
        loop = id(asyncio.get_running_loop())
        ours = [key for key in clients.cache_dict if key.endswith(f"-{loop}")]
        for key in ours:
            clients.ttl_dict.pop(key, None)
        closing = [clients.cache_dict.pop(key).close() for key in ours]
        await asyncio.gather(*filter(inspect.isawaitable, closing))

    def _response_format(self, reply: type[BaseModel]) -> dict[str, Any]:
        if self._mode == "words":
            return {}
        if self._mode == "json_object":
            return {"response_format": {"type": "json_object"}}
        # Loaded anew each time: litellm rewrites the object for some providers.
        return {"response_format": json.loads(_json_schema_format(reply))}

    def _messages(self, ask: Ask[Any], complaint: str | None) -> list[dict[str, str]]:
        system, user = ask.prompt.system, ask.prompt.user
        reply: type[BaseModel] = ask.reply
        if self._mode != "json_schema":
            system += (
                "\n\nAnswer with one JSON object and nothing else. It fits this JSON Schema:\n"
                + _schema(reply)
            )
        if complaint is not None:
            user += (
                f"\n\nYour previous answer to this could not be used: {complaint}\n"
                "Answer again, in full, with one JSON object that fits the schema."
            )
        return [{"role": "system", "content": system}, {"role": "user", "content": user}]


def check(config: JudgeConfig) -> None:
    """See that a model can be called, without calling it.

    Raises:
        ConfigurationError: provider unknown, key not in the environment, parameter not taken.
    """
    provider = provider_of(config)
    found = litellm.validate_environment(model=config.model_id, api_base=config.api_base)
    if missing := found["missing_keys"]:
        raise ConfigurationError(
            f"[judge] model {config.model_id!r}: set {' and '.join(missing)} in the environment"
            + (" (any value if the endpoint asks for no key)" if config.api_base else "")
        )
    try:
        _see_parameters(config, provider, config.temperature)
    except UnsupportedParamsError as error:
        raise ConfigurationError(
            f"[judge] model {config.model_id!r}, temperature {config.temperature!r}: "
            f"{_readable(str(error))}"
        ) from error


def temperature_for(config: JudgeConfig, provider: str) -> float | None:
    """The chosen temperature, else the judge's default where the model takes one at all."""
    if config.temperature is not None:
        return config.temperature
    try:
        _see_parameters(config, provider, DEFAULT_TEMPERATURE)
    except UnsupportedParamsError:
        return None
    return DEFAULT_TEMPERATURE


def _see_parameters(config: JudgeConfig, provider: str, temperature: float | None) -> None:
    """Let litellm say whether it would send these parameters, without a call."""
    get_optional_params(
        model=config.model_id.removeprefix(f"{provider}/"),
        custom_llm_provider=provider,
        temperature=temperature,
        max_tokens=config.max_output_tokens,
    )


def provider_of(config: JudgeConfig) -> str:
    """Who answers, as litellm reads the model's name.

    Raises:
        ConfigurationError: when it cannot tell.
    """
    try:
        _, provider, _, _ = litellm.get_llm_provider(config.model_id, api_base=config.api_base)
    except BadRequestError as error:
        raise ConfigurationError(
            f"[judge] model {config.model_id!r}: litellm does not know its provider; "
            "write provider/model, e.g. openai/gpt-4.1"
        ) from error
    return str(provider)


def response_mode(config: JudgeConfig, provider: str) -> ResponseMode:
    """The strictest way of asking for a shape that the model is known to take."""
    self_hosted = config.api_base is not None and provider in SELF_HOSTED
    if self_hosted or litellm.supports_response_schema(config.model_id):
        return "json_schema"
    known = litellm.get_supported_openai_params(config.model_id) or ()
    return "json_object" if "response_format" in known else "words"


def model_error(error: Exception) -> ModelError:
    """The one place where a provider's failure gets its code: by status, then by its words."""
    text = str(error)
    if any(isinstance(one, httpx.ConnectError) for one in _causes(error)):
        return Unreached(_readable(text) or type(error).__name__)
    status = getattr(error, "status_code", None) or 500
    code = _CODES.get(status, "unavailable" if status >= 500 else "bad_request")
    if code in ("bad_request", "rate_limited", "authentication"):
        code = next((name for name, sign in _SIGNS if sign.search(text)), code)
    return ModelError(code, _readable(text) or type(error).__name__)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error and what led to it, the last first."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _readable(text: str) -> str:
    """One line of a provider's text, without keys, class names, and what exceeds 200 characters."""
    line = _CLASS_NAMES.sub("", " ".join(text.split()))
    for secret in _SECRETS:
        line = secret.sub(r"\1***", line)
    return line[:MAX_DETAIL_CHARS]


def _completion(response: Any, name: str, latency_ms: float) -> Completion:
    choice = response.choices[0] if response.choices else None
    text = (choice.message.content if choice else None) or ""
    usage: Any = getattr(response, "usage", None)
    # litellm fills a missing usage with zeros, which would make the call look free.
    counted = bool(usage and usage.total_tokens)
    completion = Completion(
        text=text,
        answered_by=response.model or name,
        input_tokens=usage.prompt_tokens if counted else None,
        output_tokens=usage.completion_tokens if counted else None,
        cost_usd=response._hidden_params.get("response_cost") if counted else None,
        latency_ms=latency_ms,
    )
    if why := _unusable(choice, text):
        raise UnusableReply(*why, completion)
    return completion


def _unusable(choice: Any, text: str) -> tuple[str, str] | None:
    if choice is None:
        return "empty", "the answer has no choices"
    fields = getattr(choice.message, "provider_specific_fields", None) or {}
    if refusal := fields.get("refusal"):
        return "refused", _readable(str(refusal))
    if choice.finish_reason == "content_filter":
        return "refused", "the provider's content filter stopped the answer"
    if choice.finish_reason == "length":
        return "truncated_output", "cut off at [judge] max_output_tokens"
    return None if text.strip() else ("empty", "the answer has no text")


@lru_cache(maxsize=256)
def _json_schema_format(reply: type[BaseModel]) -> str:
    wanted: Any = type_to_response_format_param(reply)
    wanted["json_schema"]["name"] = re.sub(r"[^\w-]", "_", reply.__name__)[:64]
    return json.dumps(wanted)


@lru_cache(maxsize=256)
def _schema(reply: type[BaseModel]) -> str:
    return json.dumps(reply.model_json_schema())
