"""The bodies of records of Amazon Bedrock's batches, as litellm writes them.

Claude models are asked in their own format, which Bedrock calls `InvokeModel`: there an answer may be
asked for as the arguments of a tool. All others are asked in the format `Converse`, without tools.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Final

import httpx
from pydantic import BaseModel

from assizes.judge.config.judging import Price
from assizes.judge.errors import ConfigurationError
from assizes.judge.models.provider_format import (
    CallArguments,
    LiteLLMParts,
    ProviderFormat,
    anthropic_format,
)
from assizes.judge.protocol import Ask, Prompt

PartsOf = Callable[[str, str], LiteLLMParts]
"""What litellm has for a provider and a model."""

_ROUTES: Final = ("invoke/", "converse/")  # which litellm takes before the id of a model
_ARN: Final = re.compile(
    r"arn:aws(-[^:]+)?:bedrock:[a-z0-9-]{1,20}:([0-9]{12})?:[a-z-]+/[A-Za-z0-9:._-]+"
)
_ID: Final = re.compile(r"[A-Za-z0-9:._-]+")


@dataclass(frozen=True, slots=True)
class BedrockFormat:
    """How the records of a model's batches are written and read."""

    model_id: str  # for Bedrock: an id, or the ARN of a model or an inference profile
    invocation: str  # Bedrock's word for the format: `InvokeModel` or `Converse`
    bodies: ProviderFormat


class _Routed:
    """A model under a name that leads litellm to one format."""

    def __init__(self, model: CallArguments, name: str) -> None:
        self.name = name
        self.provider: str = model.provider
        self.api_base: str | None = model.api_base
        self.price: Price | None = model.price
        self._model = model

    def sent_request(self, ask: Ask[Any]) -> dict[str, Any]:
        """Return the arguments of a live call."""
        return self._model.sent_request(ask)


class _Probe(BaseModel):
    """Stands for any reply of a judge."""

    finding: str


def bedrock_format(model: CallArguments, parts_of: PartsOf) -> BedrockFormat:
    """The format of a model's batches.

    Raises:
        ConfigurationError: batches of Bedrock cannot ask the model as it is configured.
    """
    bare = model.name.removeprefix(f"{model.provider}/")
    model_id = bare
    for route in _ROUTES:
        model_id = model_id.removeprefix(route)
    if not (_ID.fullmatch(model_id) or _ARN.fullmatch(model_id)):
        raise _refusal(model, "accepted is bedrock/ID, bedrock/invoke/ID or bedrock/converse/ID")
    is_claude = "anthropic.claude" in model_id
    route = f"invoke/{model_id}" if is_claude else bare
    parts = parts_of(model.provider, route)
    wanted = "AmazonAnthropicClaudeConfig" if is_claude else "AmazonConverseConfig"
    if type(parts.chat).__name__ != wanted:  # litellm's, which only its own module may import
        raise _refusal(
            model, "only for Claude from version 3, and models of the Converse interface"
        )
    routed = _Routed(model, f"{model.provider}/{route}")
    if is_claude:
        return BedrockFormat(model_id, "InvokeModel", _claude(routed, parts, model_id))
    bodies = _converse(routed, parts, model_id)
    if "toolConfig" in bodies.body(Ask(Prompt("role", "case"), _Probe)):
        why = 'its replies would be asked for as a tool, which a batch does not take; set reply_format = "words"'
        raise _refusal(model, why)
    return BedrockFormat(model_id, "Converse", bodies)


def _claude(model: CallArguments, parts: LiteLLMParts, model_id: str) -> ProviderFormat:
    bodies = anthropic_format(model, parts)
    read = bodies.read

    def read_with_id(body: dict[str, Any], name: str) -> Any:
        response = read(body, name)
        response.model = model_id  # as live calls name it
        return response

    bodies.read = read_with_id
    return bodies


def _converse(model: CallArguments, parts: LiteLLMParts, model_id: str) -> ProviderFormat:
    def write(_: str, messages: Any, parameters: Any, headers: Any) -> dict[str, Any]:
        rest = {"optional_params": parameters, "litellm_params": {}, "headers": headers}
        body: dict[str, Any] = parts.chat.transform_request(
            model=model_id, messages=messages, **rest
        )
        return body

    def read(body: dict[str, Any], _: str) -> Any:
        answer = httpx.Response(200, json=body)
        log = SimpleNamespace(post_call=lambda **_: None)
        return parts.chat.transform_response(
            **{"model": model_id, "raw_response": answer, "model_response": parts.response()},
            **{"logging_obj": log, "request_data": {}, "messages": [], "optional_params": {}},
            **{"litellm_params": {}, "encoding": None, "json_mode": False},
        )

    return ProviderFormat(model, parts.parameters, write, read)


def _refusal(model: CallArguments, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"[runner] batch: no batches of Amazon Bedrock for {model.name!r}: {why}; or run with "
        "--no-batch"
    )
