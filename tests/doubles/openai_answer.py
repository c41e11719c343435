"""What the judge model sends back: a chat completion, an error, or something worse."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import orjson

from tests.doubles.openai_filler import Json
from tests.doubles.openai_question import Question

Delivery = Literal["whole", "drip", "stall", "cut", "reset", "hang"]
"""How the bytes go out: at once, one by one, half of them and then nothing, half of them and then
the end of the connection, none and the connection is reset, none at all."""

HTML = "<html><head><title>{0}</title></head><body><h1>{0}</h1><hr>nginx</body></html>"


@dataclass(frozen=True)
class Answer:
    """One HTTP answer.

    Attributes:
        wait_s: how long the connection of `hang` and `stall` stays open without a word.
        output_tokens: what a completion is billed for; None: this is none.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    delivery: Delivery = "whole"
    wait_s: float = 600.0
    output_tokens: int | None = None


def completed(
    question: Question, content: str | None, finish: str = "stop", **message: Any
) -> Json:
    """A chat completion with this content."""
    out = len(content or "") // 4 + 1
    usage = {"prompt_tokens": question.input_tokens, "completion_tokens": out}
    return {
        "id": "chatcmpl-stub",
        "object": "chat.completion",
        "service_tier": "default",
        "created": 0,
        "model": question.model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, **message},
                "finish_reason": finish,
            }
        ],
        "usage": {**usage, "total_tokens": question.input_tokens + out},
    }


def completion(body: Json) -> Answer:
    """A completion as answer."""
    out = (body.get("usage") or {}).get("completion_tokens", 0)
    return Answer(as_bytes(body), output_tokens=out)


def good(question: Question, **rest: Any) -> Answer:
    """The right answer, with other facts about the model where given."""
    return completion({**completed(question, question.text), **rest})


def error(
    status: int, message: str, code: str = "error", headers: Mapping[str, str] | None = None
) -> Answer:
    """An error object as the protocol has them."""
    body = {"error": {"message": message, "type": code, "param": None, "code": code}}
    return Answer(orjson.dumps(body), status, headers or {})


def html(status: int, title: str) -> Answer:
    """What a proxy says in the model's place."""
    return Answer(HTML.format(title).encode(), status, content_type="text/html")


def as_bytes(body: Json) -> bytes:
    try:
        return orjson.dumps(body)
    except (TypeError, ValueError):  # a lone surrogate in what was echoed
        return json.dumps(body).encode()
