"""From a provider's response to a completion: its text, tokens and cost, and whether it is usable."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from assizes.judge.config.prices import Price, estimated_tokens
from assizes.judge.models.model import ESTIMATED, Completion
from assizes.judge.models.provider_errors import readable
from assizes.judge.privacy.secret_masking import mask_process_secrets


def completion_of(
    response: Any, model: str, price: Price | None, *, batch: bool = False
) -> Completion:
    """Return the completion of a chat-completions response, priced by its metered tokens.

    Tokens and cost are None for a response without usage: client libraries put zeros there, which
    would make the call look free.

    Args:
        response: the response object of litellm or of OpenAI's client.
        model: the model as requested, in case that the response names none.
        price: the price of its tokens; None when it is not known.
        batch: whether the answer came from a batch, at the price of batches.
    """
    choice = _choice(response)
    text = (choice.message.content if choice else None) or ""
    usage: Any = getattr(response, "usage", None)
    sent = written = cost_usd = None
    if usage and usage.total_tokens:
        sent, written = usage.prompt_tokens or 0, usage.completion_tokens or 0
        if price is not None:
            cost_usd = price.cost_usd(sent, written, _cached_tokens(usage, sent), batch=batch)
    return Completion(
        text=mask_process_secrets(text),
        answered_by=response.model or model,
        input_tokens=sent,
        output_tokens=written,
        cost_usd=cost_usd,
        fingerprint=getattr(response, "system_fingerprint", None) or "",
    )


def with_estimates(
    completion: Completion, sent: int, price: Price | None, *, batch: bool = False
) -> Completion:
    """Return a completion with estimated tokens and cost, and a flag, when none were metered.

    Args:
        completion: the completion, with or without metered tokens.
        sent: the estimated tokens of the prompt.
        price: the price of the tokens; None when it is not known.
        batch: whether the answer came from a batch, at the price of batches.
    """
    if completion.input_tokens is not None or completion.output_tokens is not None:
        return completion
    written = estimated_tokens(completion.text)
    return replace(
        completion,
        input_tokens=sent,
        output_tokens=written,
        cost_usd=None if price is None else price.cost_usd(sent, written, batch=batch),
        flags=(*completion.flags, ESTIMATED),
    )


def unusable_reason(response: Any) -> tuple[str, str] | None:
    """Return code and reason when a response has no usable answer, else None."""
    choice = _choice(response)
    if choice is None:
        return "empty", "the answer has no choices"
    message = choice.message
    fields = getattr(message, "provider_specific_fields", None) or {}
    if refusal := fields.get("refusal") or getattr(message, "refusal", None):
        return "refused", readable(str(refusal))
    if choice.finish_reason == "content_filter":
        return "refused", "the provider's content filter stopped the answer"
    if choice.finish_reason == "length":
        return "truncated_output", "cut off at [judge] max_output_tokens"
    if not (message.content or "").strip():
        return "empty", "the answer has no text"
    return None


def _choice(response: Any) -> Any:
    return response.choices[0] if response.choices else None


def _cached_tokens(usage: Any, sent: int) -> int:
    """Return the prompt tokens that the provider read from its cache, at most `sent`."""
    details = getattr(usage, "prompt_tokens_details", None)
    return min(sent, getattr(details, "cached_tokens", None) or 0)
