"""The meaning of a provider's failure: its code, its HTTP status, and one readable line.

Failures are classified by HTTP status and by the provider's own words, not by the exception class of
the client library: the same fault has different classes with different providers.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, Final

import aiohttp
import httpx

from assizes.judge.errors import ModelError
from assizes.judge.models.model import ProviderUnreachable
from assizes.judge.privacy.secret_masking import mask

MAX_DETAIL_CHARS: Final = 200
"""Characters that the readable line of a failure has at most."""

_CODES: Final = {
    401: "authentication",
    402: "quota",
    403: "authentication",
    404: "not_found",
    408: "unavailable",
    409: "unavailable",
    413: "context_overflow",
    425: "unavailable",
    429: "rate_limited",
}
_SIGNS: Final = (
    (
        "quota",
        re.compile(
            r"insufficient[_ ](quota|funds|credits?|balance)|exceeded your current quota"
            r"|credit balance is too low",
            re.IGNORECASE,
        ),
    ),
    ("refused", re.compile(r"content[_ ]?(filter|policy|management)", re.IGNORECASE)),
    (
        "context_overflow",
        re.compile(
            r"context[_ ]?(length|window)|maximum context|prompt is too long"
            r"|input token count.{0,40}exceeds",
            re.IGNORECASE,
        ),
    ),
    ("authentication", re.compile(r"API key not valid|invalid api key", re.IGNORECASE)),
)
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


def model_error(error: Exception) -> ModelError:
    """Return a provider's failure as a `ModelError`, whose code comes from status and words."""
    causes = list(_causes(error))
    detail = readable(str(error)) or type(error).__name__
    if any(_never_connected(cause) for cause in causes):
        return ProviderUnreachable(detail)
    status = _status(error, causes)
    code = _code(error, status)
    if code in _AMBIGUOUS:
        text = str(error)
        code = next((name for name, sign in _SIGNS if sign.search(text)), code)
    return ModelError(code, detail, retry_after_s=_retry_after_s(error), status=status)


def rejected_parameter(error: Exception, sent: Mapping[str, re.Pattern[str]]) -> str | None:
    """Return the parameter for which a provider rejected a request; None when it names none.

    Args:
        error: the provider's failure.
        sent: the optional parameters of the request, each with a pattern of its names in failures.
    """
    text = str(error)
    if getattr(error, "status_code", None) not in (400, 422) or not _REJECTION.search(text):
        return None
    matches = {name: sign.search(text) for name, sign in sent.items()}
    named = {name: match.start() for name, match in matches.items() if match}
    return min(named, key=named.__getitem__, default=None)


def retry_after_s(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Return the seconds for which a provider asks not to be called; None without a valid hint.

    Args:
        headers: the headers of the provider's answer; `retry-after-ms` wins over `retry-after`,
            which holds seconds or a date.
        now: seconds since 1970; None: the time of the system's clock.
    """
    headers_by_name = {name.lower(): value for name, value in headers.items()}
    if (hint_ms := _seconds(headers_by_name.get("retry-after-ms"))) is not None:
        return hint_ms / 1000
    hint = headers_by_name.get("retry-after")
    if (hint_s := _seconds(hint)) is not None or hint is None:
        return hint_s
    try:
        at = parsedate_to_datetime(hint).timestamp()
    except (ValueError, OverflowError):
        return None
    left_s = at - (time.time() if now is None else now)
    return left_s if left_s >= 0 else None


def readable(text: str) -> str:
    """Return a provider's text as one line: without secrets, class names and JSON around it.

    The line is cut after 200 characters (`MAX_DETAIL_CHARS`).
    """
    line = _message(_MEMORY_ADDRESS.sub("", _CLASS_NAMES.sub("", " ".join(text.split()))))
    return mask(line)[:MAX_DETAIL_CHARS]


def _message(text: str) -> str:
    """Return the message of a JSON error object or the title of a web page, else the text itself."""
    if title := _TITLE.search(text):
        return text[: text.index("<")] + title[1].strip()
    if not text.startswith("{"):
        return text
    body: Any = None
    with suppress(ValueError, RecursionError):
        body, _ = json.JSONDecoder().raw_decode(text)
    for _ in range(2):  # {"error": {"message": ...}}, {"error": "..."}, {"message": ...}
        if isinstance(body, dict):
            body = body.get("error") or body.get("message") or body.get("detail")
    return " ".join(body.split()) if isinstance(body, str) and body.strip() else text


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, its cause, the cause of that, and so on."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _never_connected(error: BaseException) -> bool:
    """Whether no connection was made, so that nothing can have been sent.

    With aiohttp as transport, httpx raises `ConnectError` also for a connection that broke after
    the request was sent. Then only aiohttp's own error shows which of the two happened.
    """
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return True
    by_aiohttp = isinstance(error.__cause__ or error.__context__, aiohttp.ClientError | OSError)
    return isinstance(error, httpx.ConnectError | httpx.ConnectTimeout) and not by_aiohttp


def _status(error: Exception, causes: list[BaseException]) -> int | None:
    """Return the HTTP status of the provider's answer; None without an answer or a status of error.

    Client libraries invent a status for failures without an answer; such a status is ignored.
    """
    status = getattr(error, "status_code", None)
    answered = getattr(error, "litellm_response_headers", None) is not None or any(
        isinstance(cause, httpx.HTTPStatusError) for cause in causes
    )
    return status if answered and isinstance(status, int) and status >= 400 else None


def _code(error: Exception, status: int | None) -> str:
    if status is None:
        status = getattr(error, "status_code", None)
        if status == 408:  # litellm's status for a timeout on our side
            return "timeout"
    if not isinstance(status, int) or status < 400 or status >= 500:
        return "unavailable"
    return _CODES.get(status, "bad_request")


def _retry_after_s(error: Exception) -> float | None:
    answer = getattr(error, "response", None)
    for headers in (
        getattr(error, "litellm_response_headers", None),
        getattr(answer, "headers", None),
    ):
        if isinstance(headers, Mapping) and (hint_s := retry_after_s(headers)) is not None:
            return hint_s
    return None


def _seconds(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None
