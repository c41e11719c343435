"""Requests and responses in the protocol of a provider itself, as litellm writes and reads them.

Batches of such a provider hold the very requests that live calls would send.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, Final, Protocol

import httpx

from assizes.judge.config.judging import Price
from assizes.judge.errors import ModelError
from assizes.judge.models.model import Completion, UnusableReply
from assizes.judge.models.provider_calls import completion_of, readable, unusable_reason
from assizes.judge.protocol import Ask

BATCH_FLAG: Final = "batch"
"""Flag of completions that came from a batch, and of their asks."""

MALFORMED: Final = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""Exceptions that a client library, or a reader of ours, raises for a body of another shape."""


@dataclass(frozen=True, slots=True)
class LiteLLMParts:
    """What litellm has for the protocol of one provider."""

    chat: Any  # its description of the provider's chat protocol
    parameters: Callable[..., dict[str, Any]]  # OpenAI's parameters of a call -> the provider's
    response: Callable[..., Any]  # makes litellm's response object
    gemini_body: Callable[..., Any]  # writes the body of a request to Gemini
    google_access: Callable[[], Any]  # makes what signs in to Google Cloud


class CallArguments(Protocol):
    """A model that can tell what a live call of an ask would be made with."""

    name: str
    provider: str
    api_base: str | None
    price: Price | None

    def sent_request(self, ask: Ask[Any]) -> dict[str, Any]:
        """Return model, messages and parameters of a call, as arguments of litellm."""


@dataclass(slots=True, eq=False)
class ProviderFormat:
    """Bodies of requests and responses of one model, in its provider's protocol."""

    model: CallArguments
    parameters: Callable[..., dict[str, Any]]  # litellm's, from OpenAI's to the provider's
    write: Callable[..., dict[str, Any]]  # name, messages, parameters, headers -> body
    read: Callable[[dict[str, Any], str], Any]  # body of a response, name -> litellm's response
    headers: dict[str, str] = field(default_factory=dict)  # that such bodies need: beta features

    @property
    def name(self) -> str:
        """The name of the model at its provider."""
        return self.model.name.removeprefix(f"{self.model.provider}/")

    def body(self, ask: Ask[Any]) -> dict[str, Any]:
        """Return the body of the HTTP request that litellm would send for a live call."""
        request = self.model.sent_request(ask)
        request.pop("model")
        messages = request.pop("messages")
        provider = self.model.provider
        sent = self.parameters(model=self.name, custom_llm_provider=provider, **request)
        sent.pop("json_mode", None)  # tells litellm how to read the response
        sent.pop("stream", None)  # no batch is streamed
        beside = sent.pop("extra_body", None) or {}
        return {**self.write(self.name, messages, sent, self.headers), **beside}

    def outcome(self, body: object) -> Completion | ModelError:
        """Return what the body of a response says, at the price of a batch.

        A malformed body is the failure of its own ask, not of the batch.
        """
        if not isinstance(body, Mapping):
            return ModelError("unavailable", "no answer: the body of the line is no object")
        try:
            response = self.read(copy.deepcopy(dict(body)), self.name)
            completion = completion_of(response, self.model.name, self.model.price, batch=True)
            why = unusable_reason(response)
        except MALFORMED as error:
            return ModelError("unavailable", readable(f"no answer: {error}"))
        return batch_outcome(completion, why)


def batch_outcome(
    completion: Completion, why: tuple[str, str] | None
) -> Completion | UnusableReply:
    """Return a completion of a batch with its flag; with code and reason why, as an unusable one."""
    completion = replace(completion, flags=(BATCH_FLAG,))
    return UnusableReply(*why, completion) if why else completion


def openai_body(name: str, messages: Any, parameters: dict[str, Any], _: Any) -> dict[str, Any]:
    """Return the body of a request in the protocol of OpenAI."""
    return {"model": name, "messages": messages, **parameters}


def anthropic_format(model: CallArguments, parts: LiteLLMParts) -> ProviderFormat:
    """Return the protocol of Anthropic's messages."""

    def write(name: str, messages: Any, parameters: Any, headers: Any) -> dict[str, Any]:
        rest = {"optional_params": parameters, "litellm_params": {}, "headers": headers}
        body: dict[str, Any] = parts.chat.transform_request(model=name, messages=messages, **rest)
        return body

    def read(body: dict[str, Any], _: str) -> Any:
        # Where an answer is asked for as the arguments of a tool, they are its text.
        return parts.chat.transform_parsed_response(
            body, httpx.Response(200), parts.response(), json_mode=True
        )

    return ProviderFormat(model, parts.parameters, write, read)


def gemini_format(model: CallArguments, parts: LiteLLMParts) -> ProviderFormat:
    """Return the protocol of Gemini's `generateContent`."""
    fixed: dict[str, Any] = {
        "custom_llm_provider": model.provider,
        "litellm_params": {},
        "cached_content": None,
    }

    def write(name: str, messages: Any, parameters: Any, _: Any) -> dict[str, Any]:
        asked = {"messages": messages, "model": name, "optional_params": parameters}
        return dict(parts.gemini_body(**asked, **fixed))

    def read(body: dict[str, Any], name: str) -> Any:
        call = SimpleNamespace(optional_params={})  # what litellm looks at of its log of a call
        answer = httpx.Response(200)
        return parts.chat._transform_google_generate_content_to_openai_model_response(
            body, parts.response(), name, call, answer
        )

    return ProviderFormat(model, parts.parameters, write, read)
