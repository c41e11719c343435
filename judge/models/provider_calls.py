"""What a call to a provider sends beside its messages, and what its response or failure means."""

from __future__ import annotations

import datetime as dt
import json
import logging
import math
import re
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx
from pydantic_core import from_json

from assizes.judge.config.judging import JudgeConfig, Price, ReplyFormat, estimated_tokens
from assizes.judge.errors import ModelError
from assizes.judge.models.model import ESTIMATED, Completion, ProviderUnreachable, is_token_count
from assizes.judge.privacy.secret_masking import mask, mask_process_secrets
from assizes.judge.rows import as_json

log = logging.getLogger(__name__)

MAX_HINT_S: Final = 86_400.0
"""Seconds that a provider's wish for a pause counts at most."""

MAX_DETAIL_CHARS: Final = 200
"""Characters that the readable line of a failure has at most."""

SELF_HOSTED: Final = frozenset(
    {"openai", "custom_openai", "hosted_vllm", "litellm_proxy", "llamafile", "lm_studio"}
)
"""Providers that stand for any server of the OpenAI protocol when an `api_base` is given."""

DEFAULT_TEMPERATURE: Final = 0.2

NEARLY_FULL: Final = 0.7
"""Share (0..1) of a model's context window above which a prompt's tokens are counted, not estimated."""

OTHER_TOKENIZER: Final = 1.25
"""Factor on the context window of other providers' models: OpenAI's tokenizer may count too high."""

# Status -> code, for statuses 4xx; all others of them are `bad_request`.
_CODES: Final = {
    **dict.fromkeys((401, 403), "authentication"),
    **dict.fromkeys((408, 409, 425), "unavailable"),  # request timeout, conflict, too early
    402: "quota",
    404: "not_found",
    413: "context_overflow",
    429: "rate_limited",
}
_SIGNS: Final = {
    "quota": re.compile(
        r"insufficient[_ ](quota|funds|credits?|balance)|exceeded your current quota"
        r"|credit balance is too low",
        re.IGNORECASE,
    ),
    "refused": re.compile(r"content[_ ]?(filter|policy|management)", re.IGNORECASE),
    "context_overflow": re.compile(
        r"context[_ ]?(length|window)|maximum context|prompt is too long"
        r"|input token count.{0,40}exceeds|exceeds? the available context size",
        re.IGNORECASE,
    ),
    "authentication": re.compile(r"API key not valid|invalid api key", re.IGNORECASE),
}
"""Codes, each with the words that providers use for it under a status with several meanings."""

_AMBIGUOUS: Final = frozenset({"bad_request", "rate_limited", "authentication"})
"""Codes of such a status: the provider's words decide."""

_REJECTION: Final = re.compile(
    r"unsupported|not support|unknown|unrecogni[sz]ed|unexpected|not permitted|not allowed"
    r"|unavailable|deprecated|extra (fields|inputs)|only the default|invalid (parameter|schema)",
    re.IGNORECASE,
)
_CLASS_NAMES: Final = re.compile(
    r"^(?:(?:(?:litellm\.)?\w+(?:Error|Exception)|litellm\.Timeout|Timeout Error)\b[\s:-]*)+"
)
_MEMORY_ADDRESS: Final = re.compile(r" ssl:<[^>]*>")
"""An object with its memory address in messages of aiohttp: it would differ in each message."""

_TITLE: Final = re.compile(r"<title>([^<]*)</title>", re.IGNORECASE)

_REJECTION_SIGNS: Final = {
    "temperature": re.compile(r"\btemperature\b", re.IGNORECASE),
    "response_format": re.compile(r"response[_ ]format|json[_ ](schema|object)", re.IGNORECASE),
    "max_tokens": re.compile(r"\bmax_tokens\b"),
}
"""Parameters that a call can do without, and their names in the errors of providers."""

_INVALID_FORMAT: Final = {"response_format": re.compile(r"response_format|json_schema")}
"""The same for servers that only name what they reject; that of llama-cpp-python answers 500."""


@dataclass(slots=True, eq=False)
class Parameters:
    """The parameters of one model's calls.

    A parameter that the model rejects is changed in all later calls: the temperature is left out,
    `max_tokens` becomes `max_completion_tokens`, and the response format becomes less strict.
    """

    mode: ReplyFormat
    cap: int  # usual limit of an answer's tokens
    temperature: float | None  # `None`: the parameter is left out
    dropped: tuple[str, ...] = ()  # names of rejected parameters
    cap_name: str = "max_tokens"  # OpenAI's reasoning models take another name

    def of(self, json_schema_format: str, cap: int) -> dict[str, Any]:
        """Return the parameters of a call, whose strictest response format is given as JSON text.

        `cap` is a factor on the usual limit of the answer's tokens.
        """
        parameters: dict[str, Any] = {self.cap_name: self.cap * cap}
        if self.temperature is not None:
            parameters["temperature"] = self.temperature
        if self.mode == "json_schema":
            # Parsed anew for each call: litellm changes the object for some providers.
            parameters["response_format"] = from_json(json_schema_format)
        elif self.mode == "json_object":
            parameters["response_format"] = {"type": "json_object"}
        return parameters

    def drop_rejected(self, error: Exception, sent: Mapping[str, Any]) -> str | None:
        """Change the parameter that the provider rejected, for all later calls, and return its name.

        `sent` is what the failed call sent; the answer is `None` when the failure names nothing
        of it that a call can do without.
        """
        text, status = str(error), getattr(error, "status_code", None)
        signs = _INVALID_FORMAT if status in (422, 500) else {}
        if status in (400, 422) and _REJECTION.search(text):
            signs = _REJECTION_SIGNS
        places = {  # parameter -> where the text first names it
            name: match.start()
            for name, sign in signs.items()
            if name in sent and (match := sign.search(text))
        }
        name = min(places, key=places.__getitem__, default=None)  # the one that is named first
        if name is None:
            return None
        if name == "temperature":
            self.temperature = None
        elif name == "max_tokens":
            self.cap_name = "max_completion_tokens"
        elif sent[name]["type"] == self.mode:  # else a parallel call has changed the mode already
            self.mode = "json_object" if self.mode == "json_schema" else "words"
        if name not in self.dropped:
            self.dropped += (name,)
        return name


def cache_key(config: JudgeConfig, provider: str, **settings: object) -> str:
    """Return everything besides the prompt that decides an answer, as a text."""
    return as_json(
        {
            "model": config.model_id,
            "provider": provider,
            "max_output_tokens": config.max_output_tokens,
            "api_base": config.api_base,
            **settings,
        }
    )


def completion_of(
    response: Any, model: str, price: Price | None, *, batch: bool = False
) -> Completion:
    """Return the completion of a chat-completions response, priced by its metered tokens.

    The response is an object of litellm or of OpenAI's client; `model`, the model as requested,
    stands in for a response that names none. `batch`: the answer came at the price of batches.
    Tokens and cost are None for a response without usage, or with numbers that no call has.
    """
    choice = response.choices[0] if response.choices else None
    usage: Any = getattr(response, "usage", None)
    sent = written = cost_usd = None
    cached: int | None = None
    to_cache: int | None = None
    # Without usage client libraries put zeros there, which would make the call look free.
    if usage and usage.total_tokens:
        sent, written = usage.prompt_tokens or 0, usage.completion_tokens or 0
        if not (is_token_count(sent) and is_token_count(written)):
            log.warning(
                "%s reports %.40r tokens in and %.40r out, which no call has; its tokens and cost are "
                "estimated",
                *(model, sent, written),
            )
            sent = written = None
        else:
            cached, to_cache = _cache_tokens(usage, sent)
            if price is not None:
                cost_usd = price.cost_usd(sent, written, cached or 0, to_cache or 0, batch=batch)
    return Completion(
        # A proxy may echo a header; what is masked here is in no row, cache or later prompt.
        text=mask_process_secrets((choice.message.content if choice else None) or ""),
        answered_by=response.model or model,
        input_tokens=sent,
        output_tokens=written,
        cost_usd=cost_usd,
        fingerprint=getattr(response, "system_fingerprint", None) or "",
        cached_tokens=cached,
        cache_write_tokens=to_cache,
    )


def _cache_tokens(usage: Any, sent: int) -> tuple[int | None, int | None]:
    """Return the tokens of a prompt that its provider read from, and put into, its prompt cache."""
    details = getattr(usage, "prompt_tokens_details", None)
    read: Any = getattr(details, "cached_tokens", None)
    to_cache: Any = getattr(details, "cache_creation_tokens", None)
    # Bounded: a server that counts otherwise would make the cost negative.
    read = min(sent, read) if is_token_count(read) else None
    to_cache = min(sent - (read or 0), to_cache) if is_token_count(to_cache) else None
    return read, to_cache


def with_estimates(
    completion: Completion, sent: int, price: Price | None, *, batch: bool = False
) -> Completion:
    """Return a completion with estimated tokens and cost, and a flag, when none were metered.

    `sent` is the estimate of the prompt's tokens; `batch`: the answer came at the price of batches.
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
    if not response.choices:
        return "empty", "the answer has no choices"
    choice = response.choices[0]
    message = choice.message
    fields = getattr(message, "provider_specific_fields", None) or {}  # where litellm puts it
    if refusal := fields.get("refusal") or getattr(message, "refusal", None):
        return "refused", readable(str(refusal))
    if choice.finish_reason == "content_filter":
        return "refused", "the provider's content filter stopped the answer"
    if choice.finish_reason == "length":
        return "truncated_output", "cut off at [judge] max_output_tokens"
    if not (message.content or "").strip():
        return "empty", "the answer has no text"
    return None


def model_error(error: Exception) -> ModelError:
    """Return a provider's failure as a `ModelError`, whose code comes from status and words."""
    # Not from the exception's class: the same fault has different classes with different providers.
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    text = str(error)
    detail = readable(text) or type(error).__name__
    if any(_never_connected(cause) for cause in causes):
        return ProviderUnreachable(detail)
    # Client libraries invent a status for failures without an answer; such a status is ignored.
    of_litellm = getattr(error, "litellm_response_headers", None)
    of_response = getattr(getattr(error, "response", None), "headers", None)
    by_status = any(isinstance(cause, httpx.HTTPStatusError) for cause in causes)
    answered = by_status or of_litellm is not None
    named = getattr(error, "status_code", None)
    status = named if answered and isinstance(named, int) and named >= 400 else None
    if status is None and named == 408:  # litellm's status for a timeout on our side
        code = "timeout"
    elif not isinstance(named, int) or not 400 <= named < 500:
        code = "unavailable"
    else:
        code = _CODES.get(named, "bad_request")
    if code in _AMBIGUOUS:
        # Some providers say 429 for a spent account, 400 for a wrong key.
        code = next((name for name, sign in _SIGNS.items() if sign.search(text)), code)
    hints = (retry_after_s(each) for each in (of_litellm, of_response) if isinstance(each, Mapping))
    hint_s = next((hint for hint in hints if hint is not None), None)
    return ModelError(code, detail, retry_after_s=hint_s, status=status)


def _never_connected(error: BaseException) -> bool:
    """Whether no connection was made, so that nothing can have been sent."""
    # Imported here, as it is slow to import, and a plan makes no calls.
    import aiohttp

    # With aiohttp as transport, httpx raises `ConnectError` also for a connection that broke after
    # the request was sent. Then only aiohttp's own error shows which of the two happened.
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return True
    by_aiohttp = isinstance(error.__cause__ or error.__context__, aiohttp.ClientError | OSError)
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) and not by_aiohttp


def retry_after_s(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds for which a provider asks not to be called; None without a valid hint.

    `retry-after-ms` wins over `retry-after`, which holds seconds or a date. `now` is in seconds
    since 1970; None stands for the time of the system's clock.
    """
    headers_by_name = {name.lower(): value for name, value in headers.items()}
    if (hint_ms := _seconds(headers_by_name.get("retry-after-ms"))) is not None:
        return min(hint_ms / 1000, MAX_HINT_S)
    hint = headers_by_name.get("retry-after")
    if (hint_s := _seconds(hint)) is not None or hint is None:
        return None if hint_s is None else min(hint_s, MAX_HINT_S)
    try:
        date = parsedate_to_datetime(hint)
        # Without a zone, or with -0000, it has none: dates of HTTP are in UTC.
        at = (date if date.tzinfo else date.replace(tzinfo=dt.UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    left_s = at - (time.time() if now is None else now)
    return (
        min(left_s, MAX_HINT_S) if left_s >= 0 else None
    )  # in the past: the clocks differ, so it says nothing


def _seconds(text: str | None) -> float | None:
    try:  # float also reads nan and inf, which are no wait
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def readable(text: str) -> str:
    """Return a provider's text as one line of at most 200 characters, with secrets masked."""
    line = _message(_MEMORY_ADDRESS.sub("", _CLASS_NAMES.sub("", " ".join(text.split()))))
    return mask(line)[:MAX_DETAIL_CHARS]


def _message(text: str) -> str:
    """Return the message of a JSON error object or the title of a web page, else the text itself."""
    if title := _TITLE.search(text):  # the error page of a proxy
        return text[: text.index("<")] + title[1].strip()
    if not text.startswith("{"):
        return text
    body: Any = None
    with suppress(ValueError, RecursionError):  # cut JSON, or brackets nested on purpose
        body, _ = json.JSONDecoder().raw_decode(text)
    for _ in range(2):  # {"error": {"message": ...}}, {"error": "..."}, {"message": ...}
        if isinstance(body, dict):
            body = body.get("error") or body.get("message") or body.get("detail")
    return " ".join(body.split()) if isinstance(body, str) and body.strip() else text
