"""What litellm has for calls without its function around them, and when that function is needed."""

from __future__ import annotations

import copy
import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from importlib.metadata import version
from types import SimpleNamespace
from typing import Annotated, Any, Final, Literal

import httpx
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from assizes.judge.errors import ConfigurationError
from assizes.judge.models.direct_calls import CallParts, DirectCalls, Opened
from assizes.judge.models.litellm_library import (
    FAILURES,
    OPENAI_FORMAT,
    ROUTE,
    UNREADABLE,
    AsyncHTTPHandler,
    LiteLLMAiohttpTransport,
    LlmProviders,
    azure_chat,
    bedrock_chat,
    chat_format,
    get_async_httpx_client,
    get_optional_params,
    litellm,
    map_aiohttp_exceptions,
)
from assizes.judge.models.provider_calls import completion_of, unusable_reason
from assizes.judge.models.provider_http import Received
from assizes.judge.models.request_template import SIGNED_HEADERS, RequestTemplate

log = logging.getLogger(__name__)

CALLS: Final = "ASSIZES_LITELLM_CALLS"
"""A variable of the environment: `direct` (not set: the same), or `plain` for litellm's function."""

TESTED_VERSIONS: Final = frozenset({"1.106.2"})
"""Releases of litellm with which both ways were compared (tests/judge/models/test_direct_calls.py)."""

BY_HTTP_CLIENT: Final = frozenset(
    {
        *("anthropic", "bedrock", "deepseek", "fireworks_ai", "gemini", "groq", "hosted_vllm"),
        *("mistral", "ollama", "ollama_chat", "openrouter", "together_ai", "xai"),
    }
)
"""Providers whose calls litellm sends through an HTTP client that a caller hands over."""

BY_ROUTE: Final = frozenset(
    {
        *("cerebras", "custom_openai", "deepinfra", "litellm_proxy", "llamafile", "lm_studio"),
        *("nvidia_nim", "openai", "perplexity", "sambanova"),
    }
)
"""The same, as long as the variable `ROUTE` keeps litellm from OpenAI's SDK."""

_PARAMETERS: Final = ("temperature", "max_tokens", "max_completion_tokens", "response_format")
"""OpenAI's parameters of our calls."""

_LISTS: Final = (
    *("callbacks", "input_callback", "success_callback", "failure_callback", "service_callback"),
    *("_async_input_callback", "_async_success_callback", "_async_failure_callback"),
    *("pre_call_rules", "post_call_rules", "guardrail_name_config_map", "default_fallbacks"),
    *("model_fallbacks", "cache", "proxy_auth", "secret_manager_client", "max_budget"),
    *("client_session", "aclient_session", "network_mock", "enable_json_schema_validation"),
    "set_verbose",
)
"""Settings of litellm that its function acts on."""

_OF_ITS_OWN: Final = ["cache"]
"""Callbacks that litellm itself sets on the way to Gemini; without `litellm.cache` they do nothing."""


def needed_hook() -> str | None:
    """Return a setting of litellm that needs litellm's function for each call; None without one."""
    settings = vars(litellm)
    is_set = (name for name in _LISTS if settings.get(name) and settings[name] != _OF_ITS_OWN)
    return next((f"litellm.{name} is set" for name in is_set), None)


def reason_for_plain(provider: str, has_format: bool, api_base: str | None) -> str | None:
    """Return why calls of a provider go through litellm's function; None where they need not.

    Raises:
        ConfigurationError: the variable of the environment has another value than those it may have.
    """
    wanted = os.environ.get(CALLS, "").strip() or "direct"
    if wanted not in ("direct", "plain"):
        raise ConfigurationError(f"{CALLS}: {wanted[:40]!r} is neither direct nor plain")
    if wanted == "plain":
        return f"{CALLS} is plain"
    if os.environ.get("LITELLM_LOG", "").upper() == "DEBUG":
        return "LITELLM_LOG is DEBUG"
    release = version("litellm")
    if release not in TESTED_VERSIONS:
        _tell_once(release)
        return f"litellm {release} is not among the tested releases"
    by_route = provider in BY_ROUTE and os.environ.get(ROUTE, "").lower() == "true"
    if provider == "azure":
        return (
            None
            if _AzureAccount.of(api_base)
            else "no key for Azure, or an address of another kind"
        )
    if has_format and (by_route or provider in BY_HTTP_CLIENT):
        return None
    return f"litellm calls {provider} in a way of its own"


@cache
def _tell_once(release: str) -> None:
    tested = ", ".join(sorted(TESTED_VERSIONS))
    log.warning(
        "litellm %s: calls take more CPU than with a tested release (%s)", *(release, tested)
    )


def direct_calls(
    name: str, provider: str, has_format: bool, options: Mapping[str, Any]
) -> DirectCalls:
    """Return the calls of a model; `options` are the arguments that all of them have."""
    base, timeout_s = options.get("api_base"), options["timeout"]
    plain = reason_for_plain(provider, has_format, base)
    # To Bedrock litellm's function hands the timeout over in this form, which its error quotes.
    through = partial(_through, httpx.Timeout(timeout_s) if provider == "bedrock" else timeout_s)
    if provider == "azure" and plain is None and (account := _AzureAccount.of(base)):
        through = partial(_through_azure, account, name)
    reader = _Reader(name, provider)
    parts = CallParts(
        call=_call,
        through=through,
        pool=partial(_pool, provider),
        session=_session,
        as_httpx_errors=map_aiohttp_exceptions,
        parameters=reader.parameters,
        read=reader.read,
        sign=_headers_with_signature,
        reading=lambda answer: (completion_of(answer, name, None), unusable_reason(answer)),
        hook=needed_hook,
        failures=FAILURES,
        unreadable=UNREADABLE,
    )
    return DirectCalls(parts, plain)


async def _call(**arguments: Any) -> Any:
    # Looked up at each call: a user's own instrumentation may stand in its place.
    return await litellm.acompletion(**arguments)


def _through(timeout: float | httpx.Timeout, transport: httpx.AsyncBaseTransport) -> dict[str, Any]:
    return {"client": AsyncHTTPHandler(timeout=timeout, transport=transport)}


@dataclass(frozen=True, slots=True)
class _AzureAccount:
    """Where and as whom litellm calls Azure."""

    key: str
    base: str
    api_version: str

    @classmethod
    def of(cls, api_base: str | None) -> _AzureAccount | None:
        """Return the account with a key that never runs out; None for other kinds of access."""
        environ = os.environ
        key = (
            litellm.api_key
            or litellm.azure_key
            or environ.get("AZURE_OPENAI_API_KEY")
            or environ.get("AZURE_API_KEY")
        )
        base = api_base or litellm.api_base or environ.get("AZURE_API_BASE")
        api_version = (
            litellm.api_version
            or environ.get("AZURE_API_VERSION")
            or litellm.AZURE_DEFAULT_API_VERSION
        )
        others = ("AZURE_AD_TOKEN", "AZURE_USERNAME", "AZURE_PASSWORD")
        is_usual = "gateway.ai.cloudflare.com" not in (base or "") and api_version[:1].isdigit()
        if not (key and base and is_usual) or any(environ.get(name) for name in others):
            return None
        return cls(str(key), str(base), str(api_version))


def _through_azure(
    account: _AzureAccount, name: str, transport: httpx.AsyncBaseTransport
) -> dict[str, Any]:
    chat, client = azure_chat()
    given: dict[str, Any] = chat.initialize_azure_sdk_client(
        litellm_params={"max_retries": 0},
        api_key=account.key,
        api_base=account.base,
        model_name=name.removeprefix("azure/"),
        api_version=account.api_version,
        is_async=True,
    )
    # litellm remembers a client that it is given, under a key of which the scope is a part: under
    # this one no other call finds it.
    http_client = httpx.AsyncClient(transport=transport, trust_env=False)
    return {"client": client(**{**given, "http_client": http_client}), "azure_scope": "assizes"}


def _pool(provider: str) -> httpx.AsyncClient:
    handler = get_async_httpx_client(LlmProviders(provider), {"ssl_verify": None})
    pool: httpx.AsyncClient = handler.client
    return pool


async def _session(transport: httpx.AsyncBaseTransport, url: httpx.URL) -> Opened | None:
    if type(transport) is not LiteLLMAiohttpTransport:
        return None
    session = transport.get_valid_client_session()
    at: Any = SimpleNamespace(url=url)  # all that it looks at
    options = {"proxy": await transport._get_proxy_settings(at)}
    if transport._ssl_verify is not None:
        options["ssl"] = transport._ssl_verify
    return session, options


class _Plain(BaseModel):
    """A part of a plain answer: whatever it holds beside its fields is `None`."""

    model_config = ConfigDict(extra="allow", frozen=True, protected_namespaces=())
    __pydantic_extra__: dict[str, None] = Field(init=False)


class _PlainMessage(_Plain):
    role: str
    content: str
    annotations: Annotated[list[Any] | None, Field(max_length=0)] = None
    tool_calls: Annotated[list[Any] | None, Field(max_length=0)] = None


class _PlainChoice(_Plain):
    index: int
    message: _PlainMessage
    finish_reason: Literal["stop"]


class _PlainPromptTokens(_Plain):
    cached_tokens: int | None = None
    audio_tokens: int | None = None


class _PlainUsage(_Plain):
    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: _PlainPromptTokens | None = None
    completion_tokens_details: dict[str, int | None] | None = None


class _PlainAnswer(_Plain):
    """The usual answer in OpenAI's protocol, of which litellm would take nothing but these fields."""

    id: str
    object: str
    created: int
    model: Annotated[str, Field(min_length=1)]
    choices: Annotated[list[_PlainChoice], Field(min_length=1, max_length=1)]
    usage: _PlainUsage
    system_fingerprint: str | None = None
    service_tier: str | None = None


def _plain_answer(body: bytes) -> _PlainAnswer | None:
    """Return an answer that needs no reader of litellm, which takes ten times as long; else None."""
    try:
        answer = _PlainAnswer.model_validate_json(body, strict=True)
    except ValidationError:
        return None
    # litellm takes thoughts between `<think>` and `</think>` out of such a text.
    return None if answer.choices[0].message.content.startswith("<") else answer


class _Reader:
    """litellm's reader of a provider's responses, without logs."""

    def __init__(self, name: str, provider: str) -> None:
        self._model = name.removeprefix(f"{provider}/")
        self._provider = provider

    def parameters(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters of a call in the provider's protocol, and how its answer is read."""
        openai = {name: arguments[name] for name in _PARAMETERS if name in arguments}
        parameters: dict[str, Any] = get_optional_params(
            model=self._model, custom_llm_provider=self._provider, **copy.deepcopy(openai)
        )
        return parameters

    def read(self, received: Received, messages: list[Any], parameters: dict[str, Any]) -> Any:
        """Return litellm's response object, or an answer of the same content."""
        if self._reads_plainly and (answer := _plain_answer(received.content)) is not None:
            return answer
        response = received.response()
        parameters = dict(parameters)
        silent = SimpleNamespace(post_call=_no_log, model_call_details={}, optional_params={})
        # Ollama's readers look into the request.
        is_asked_for = self._provider.startswith("ollama")
        return self._format.transform_response(
            model=self._model,
            raw_response=response,
            model_response=litellm.ModelResponse(model=self._response_model),
            logging_obj=silent,
            request_data=json.loads(response.request.content) if is_asked_for else {},
            messages=messages,
            optional_params=parameters,
            litellm_params={},
            encoding=None,
            json_mode=parameters.pop("json_mode", None),
        )

    @cached_property
    def _response_model(self) -> str | None:
        """The model in litellm's response before it is read; its provider is kept, where it names one."""
        is_azure = self._provider == "azure"
        if is_azure and litellm.AzureOpenAIO1Config().is_o_series_model(self._model):
            return f"{self._provider}/{self._model}"
        return None

    @cached_property
    def _reads_plainly(self) -> bool:
        """Whether litellm reads the provider's responses as those of OpenAI."""
        reader = getattr(type(self._format), "transform_response", None)
        return self._response_model is None and reader is OPENAI_FORMAT.transform_response

    @cached_property
    def _format(self) -> Any:
        # The SDK reads Azure's responses, which are those of OpenAI.
        return chat_format(self._model, "openai" if self._provider == "azure" else self._provider)


def _no_log(*_args: object, **_rest: object) -> None:
    pass


async def _headers_with_signature(template: RequestTemplate, body: bytes) -> httpx.Headers:
    """Return the headers of a request with the signature that litellm makes for AWS."""
    chat, in_thread = bedrock_chat()
    signed = await in_thread(_signature, chat, template, body)
    return httpx.Headers([*template.headers.items(), *signed])


def _signature(chat: Any, template: RequestTemplate, body: bytes) -> list[tuple[str, str]]:
    region = template.aws_region
    signed = chat.get_request_headers(
        credentials=chat.get_credentials(aws_region_name=region),
        aws_region_name=region,
        extra_headers=None,
        endpoint_url=str(template.url),
        data=body.decode(),
        headers={"Content-Type": template.headers["content-type"]},
    )
    headers = [(name.lower(), value) for name, value in dict(signed.headers).items()]
    return [(name, value) for name, value in headers if name in SIGNED_HEADERS]
