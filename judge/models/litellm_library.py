"""litellm itself: the only module that imports it, and imported only where needed.

The import takes seconds and about 160 MiB (docs/decisions.md, decision 7).
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, Final, NoReturn

import httpx

from assizes.judge.models.import_environment import readable_environment

with readable_environment():
    import litellm

from litellm.exceptions import BadRequestError, UnsupportedParamsError
from litellm.llms.base_llm.base_utils import type_to_response_format_param
from litellm.llms.custom_httpx.aiohttp_transport import (
    LiteLLMAiohttpTransport,
    map_aiohttp_exceptions,
)
from litellm.llms.custom_httpx.http_handler import AsyncHTTPHandler, get_async_httpx_client
from litellm.types.utils import FILE_CONTENT_STREAMING_PROVIDERS, LlmProviders
from litellm.utils import ProviderConfigManager, get_optional_params

__all__ = (
    "FAILURES",
    "FILE_CONTENT_STREAMING_PROVIDERS",
    "OPENAI_FORMAT",
    "ROUTE",
    "UNREADABLE",
    "AsyncHTTPHandler",
    "BadRequestError",
    "LiteLLMAiohttpTransport",
    "LlmProviders",
    "UnsupportedParamsError",
    "azure_chat",
    "bedrock_chat",
    "chat_format",
    "configure_litellm",
    "gemini_request_body",
    "get_async_httpx_client",
    "get_optional_params",
    "google_credentials",
    "litellm",
    "map_aiohttp_exceptions",
    "type_to_response_format_param",
    "without_qualifier_warnings",
)


@contextmanager
def without_qualifier_warnings() -> Iterator[None]:
    """Hide what pydantic says of litellm's types, which litellm builds on first use."""
    # litellm's own filter for that goes where a caller has put the warning filters back.
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*`ReadOnly` qualifier.*", category=UserWarning)
        yield


with without_qualifier_warnings():
    litellm.ModelResponse()

ROUTE: Final = "EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER"
"""A variable that litellm reads at each call."""

OPENAI_FORMAT: Final[Any] = litellm.OpenAIGPTConfig
"""litellm's description of OpenAI's chat protocol."""

FAILURES: Final = (litellm.exceptions.openai.OpenAIError, httpx.HTTPError)  # type: ignore[attr-defined]
"""The root of litellm's errors, and what its files and batches let through."""

UNREADABLE: Final = (Exception,)
"""What litellm's readers raise for a response that is no plain answer: some raise a bare `Exception`."""


@cache
def configure_litellm() -> None:
    """Set litellm up before the first call, once for the process."""
    litellm.telemetry = False
    litellm.suppress_debug_info = True  # it prints advice to the terminal
    litellm.drop_params = False  # a parameter that is dropped silently would be in no row's flags
    litellm.disable_hf_tokenizer_download = True  # no network but to the provider
    AsyncHTTPHandler.single_connection_post_request = _no_second_request  # type: ignore[method-assign]
    # By litellm's own HTTP client a call takes two thirds of the CPU that OpenAI's SDK takes.
    os.environ.setdefault(ROUTE, "true")
    # Else a call of Anthropic's models first fetches a list from the web.
    os.environ.setdefault("LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS", "True")
    # A call that is cut while litellm still prepares it in a thread: nothing was sent.
    warnings.filterwarnings(
        "ignore", message=r"coroutine '[\w.]*completion' was never awaited", category=RuntimeWarning
    )


async def _no_second_request(*_args: object, **_rest: object) -> NoReturn:
    """Raise a broken connection's error: litellm would repeat a request that may be charged."""
    error = sys.exception()
    assert error is not None
    raise error


def chat_format(model: str, provider: str) -> Any:
    """Return litellm's description of a provider's chat protocol; None where it has none."""
    try:
        known = LlmProviders(provider)
    except ValueError:  # a provider of the user's own is no member of the enum
        return None
    with without_qualifier_warnings():
        return ProviderConfigManager.get_provider_chat_config(model, known)


def gemini_request_body(**given: Any) -> Any:
    """Return the body of a request to Gemini's `generateContent`."""
    from litellm.llms.vertex_ai.gemini.transformation import transform_request_body

    return transform_request_body(**given)


def google_credentials() -> Any:
    """Return litellm's class that finds the credentials for Google Cloud."""
    from litellm.llms.vertex_ai.vertex_llm_base import VertexBase

    return VertexBase


def azure_chat() -> tuple[Any, Any]:
    """Return litellm's chat with Azure, and the client of OpenAI's SDK that the chat takes."""
    from litellm.llms.azure import azure
    from litellm.main import azure_chat_completions

    return azure_chat_completions, vars(azure)["AsyncAzureOpenAI"]


def bedrock_chat() -> tuple[Any, Any]:
    """Return litellm's chat with Bedrock, and its function that signs in a thread."""
    from litellm.llms.bedrock.base_aws_llm import run_aws_signing
    from litellm.main import bedrock_converse_chat_completion

    return bedrock_converse_chat_completion, run_aws_signing
