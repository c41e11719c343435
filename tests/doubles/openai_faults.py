"""Every fault of the judge model by name: what it answers in place of the right answer."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from email.utils import formatdate
from functools import lru_cache

import orjson

from tests.doubles.openai_answer import Answer, Delivery, completed, completion, error, good, html
from tests.doubles.openai_question import Question
from tests.doubles.openai_texts import TEXT_FAULTS

Fault = Callable[[Question], Answer]

FAR = 4102444799  # the last second of 2099
PARAMETERS = re.compile(r"(status|hang|retry-after)-(.+)")


def _text(name: str) -> Fault:
    return lambda q: completion(completed(q, TEXT_FAULTS[name](q)))


def _status(status: int, headers: Mapping[str, str] | None = None) -> Fault:
    return lambda q: error(status, f"stub answers {status}", headers=headers)


def _delivered(delivery: Delivery) -> Fault:
    def fault(question: Question) -> Answer:
        whole = good(question)
        return Answer(whole.body, delivery=delivery, output_tokens=whole.output_tokens)

    return fault


def _without(key: str) -> Fault:
    return lambda q: completion({k: v for k, v in completed(q, q.text).items() if k != key})


def _named_status(status: int) -> Fault:
    """`status-401` repeats the key, as providers do; `status-429` asks for a second of patience."""
    if status == 401:
        return _wrong_key
    return _status(status, {"Retry-After": "1"} if status == 429 else None)


def _wrong_key(question: Question) -> Answer:
    key = question.authorization.removeprefix("Bearer ")
    return error(401, f"Incorrect API key provided: {key}. Header was Authorization: Bearer {key}")


def _retry_after(value: str) -> Fault:
    """429 with a hint: seconds as given, or `date`, `far`, `ms`, `junk`."""

    def fault(question: Question) -> Answer:
        name, hint = "Retry-After", value
        if value == "date":
            # Dates have whole seconds: this one is 0.5 to 1.5 s ahead.
            hint = formatdate(math.ceil(time.time() + 0.5), usegmt=True)
        elif value == "far":
            hint = formatdate(FAR, usegmt=True)
        elif value == "ms":
            name, hint = "retry-after-ms", "200"
        return error(429, "Rate limit reached.", "rate_limit_exceeded", {name: hint})

    return fault


def _unsupported(parameter: str, said: str, kind: str | None = None, status: int = 400) -> Fault:
    """A refusal while the request holds a parameter (of this `type`), as providers word it."""

    def fault(question: Question) -> Answer:
        held = question.body.get(parameter)
        if held is None or (kind is not None and held["type"] != kind):
            return good(question)
        told = {"type": "invalid_request_error", "code": "unsupported_parameter"}
        body = {"message": said, "param": parameter, **told} if status == 400 else {"message": said}
        return Answer(orjson.dumps({"error": body}), status)

    return fault


LLAMA_CPP = (  # as the server of llama-cpp-python words it, with status 500
    "1 validation error:\n  {'type': 'literal_error', 'loc': ('body', 'response_format', 'type'), "
    "'msg': \"Input should be 'text' or 'json_object'\", 'input': 'json_schema'}"
)

UNSUPPORTED: Mapping[str, Fault] = {
    "unsupported-temperature": _unsupported(
        "temperature", "Unsupported parameter: 'temperature' is not supported with this model."
    ),
    "unsupported-max-tokens": _unsupported(
        "max_tokens",
        "Unsupported parameter: 'max_tokens' is not supported with this model. "
        "Use 'max_completion_tokens' instead.",
    ),
    "unsupported-schema": _unsupported(
        "response_format",
        "Invalid parameter: 'response_format' of type 'json_schema' is not supported.",
        "json_schema",
    ),
    "unsupported-schema-500": _unsupported("response_format", LLAMA_CPP, "json_schema", 500),
    "unsupported-schema-422": _unsupported("response_format", LLAMA_CPP, "json_schema", 422),
    "unsupported-format": _unsupported(
        "response_format", "This response_format type is unavailable now"
    ),
}


def _error200(question: Question) -> Answer:
    return Answer(error(200, "The server had an error.", "server_error").body)


QUOTA = "You exceeded your current quota, please check your plan and billing details."
CONTEXT = "This model's maximum context length is 8192 tokens."
POLICY = "The response was filtered due to the prompt triggering content_filter."
BAD_PARAMETER = "Invalid value in request."

FAULTS: Mapping[str, Fault] = {
    **{name: _text(name) for name in TEXT_FAULTS},
    **{str(status): _status(status) for status in (408, 429, 500, 503, 529)},
    "quota": lambda q: error(429, QUOTA, "insufficient_quota", {"Retry-After": "1"}),
    "context": lambda q: error(400, CONTEXT, "context_length_exceeded"),
    "policy": lambda q: error(400, POLICY, "content_filter"),
    "badparam": lambda q: error(400, BAD_PARAMETER, "invalid_request_error"),
    **UNSUPPORTED,
    "502html": lambda q: html(502, "502 Bad Gateway"),
    "html200": lambda q: html(200, "Sign in to continue"),
    "error200": _error200,
    "reset": lambda q: Answer(delivery="reset"),
    "cut": _delivered("cut"),
    "drip": _delivered("drip"),
    "stall": _delivered("stall"),
    "hang": lambda q: Answer(delivery="hang"),
    "refuse": lambda q: completion(completed(q, None, refusal="I will not judge this.")),
    "filtered": lambda q: completion(completed(q, q.text[:5], "content_filter")),
    "truncated": lambda q: completion(completed(q, q.text[: len(q.text) // 2], "length")),
    "empty": lambda q: completion(completed(q, None)),
    "no-choices": lambda q: completion({**completed(q, q.text), "choices": []}),
    "no-usage": _without("usage"),
    "model-b": lambda q: good(q, model="stub-b-2026"),
    "fp-a": lambda q: good(q, system_fingerprint="fp_a"),
    "fp-b": lambda q: good(q, system_fingerprint="fp_b"),
}


@lru_cache(maxsize=1024)
def fault(name: str) -> Fault:
    """The fault of this name: one of `FAULTS`, `status-NNN`, `hang-SECONDS`, `retry-after-VALUE`."""
    parameters = PARAMETERS.fullmatch(name)
    if not parameters:
        return FAULTS[name]
    kind, value = parameters.groups()
    if kind == "status":
        return _named_status(int(value))
    if kind == "hang":
        return lambda q: Answer(delivery="hang", wait_s=float(value))
    return _retry_after(value)
