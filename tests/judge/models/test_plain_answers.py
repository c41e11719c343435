"""Answers that are read without litellm's reader: as litellm reads them, and no others."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from assizes.judge.models.litellm_direct import _plain_answer, _Reader
from assizes.judge.models.litellm_library import UNREADABLE, configure_litellm
from assizes.judge.models.provider_calls import completion_of, unusable_reason
from assizes.judge.models.provider_http import Received
from tests.judge.models.protocols import openai_answer

Json = dict[str, Any]


class OfLitellm(_Reader):
    """A reader that asks litellm for every answer."""

    _reads_plainly = False  # type: ignore[assignment]


def changed(path: str, value: Any) -> bytes:
    """The body of a usual answer in which one member has another value."""
    answer: Json = openai_answer(None, '{"score": 4}')  # type: ignore[arg-type]
    *steps, last = path.split(".") if path else [""]
    place: Any = answer
    for step in steps:
        place = place[int(step) if step.isdecimal() else step]
    if last:
        place[last] = value
    return json.dumps(answer).encode()


def reading(reader: _Reader, body: bytes) -> object:
    """What the engine takes from an answer, and why it cannot use it."""
    request = httpx.Request("POST", "http://127.0.0.1:9/v1/chat/completions")
    try:
        answer = reader.read(Received(200, {}, body, lambda: request), [], {})
    except UNREADABLE as error:
        return str(error)[:20]
    return completion_of(answer, "openai/m", None), unusable_reason(answer)


MESSAGE = "choices.0.message"

PLAIN = [
    ("", None),
    (f"{MESSAGE}.content", ""),
    (f"{MESSAGE}.content", "ünï\u2028 \U0001f600"),
    (f"{MESSAGE}.tool_calls", []),
    (f"{MESSAGE}.annotations", []),
    (f"{MESSAGE}.reasoning_content", None),
    ("choices.0.logprobs", None),
    ("choices.0.stop_reason", None),
    ("prompt_logprobs", None),
    ("system_fingerprint", None),
    ("usage.total_tokens", 0),
    ("usage.prompt_tokens", 2**63),
    ("usage.prompt_tokens", -1),
    ("usage.prompt_tokens_details", None),
    ("usage.prompt_tokens_details", {"cached_tokens": 9999, "audio_tokens": 0}),
    ("usage.completion_tokens_details", {"reasoning_tokens": 7, "audio_tokens": None}),
]
OTHER = [
    (f"{MESSAGE}.content", None),
    (f"{MESSAGE}.content", "<think>so</think>{}"),
    (f"{MESSAGE}.content", [{"type": "text", "text": "{}"}]),
    (f"{MESSAGE}.refusal", "I will not"),
    (f"{MESSAGE}.reasoning_content", "so"),
    (f"{MESSAGE}.tool_calls", [{"id": "1", "type": "function", "function": {"name": "f"}}]),
    (f"{MESSAGE}.provider_specific_fields", {"refusal": "no"}),
    ("choices.0.finish_reason", "length"),
    ("choices.0.finish_reason", "content_filter"),
    ("choices", []),
    ("usage", None),
    ("usage.prompt_cache_hit_tokens", 80),
    ("usage.cache_read_input_tokens", 80),
    ("usage.prompt_tokens_details", {"cached_tokens": 1, "cache_creation_tokens": 30}),
    ("model", None),
    ("error", {"message": "down", "code": 500}),
]


@pytest.fixture(scope="module", autouse=True)
def configured() -> None:
    configure_litellm()


@pytest.mark.parametrize(("path", "value"), PLAIN)
def test_a_usual_answer_is_read_as_litellm_reads_it(path: str, value: Any):
    body = changed(path, value)
    assert _plain_answer(body) is not None
    assert reading(_Reader("openai/m", "openai"), body) == reading(
        OfLitellm("openai/m", "openai"), body
    )


@pytest.mark.parametrize(("path", "value"), OTHER)
def test_any_other_answer_is_left_to_litellm(path: str, value: Any):
    body = changed(path, value)
    assert _plain_answer(body) is None
    assert reading(_Reader("openai/m", "openai"), body) == reading(
        OfLitellm("openai/m", "openai"), body
    )


@pytest.mark.parametrize("body", [b"", b"[]", b'{"id": "1"', b"\xff{}", b'{"choices": [{}]}'])
def test_what_is_no_answer_is_left_to_litellm(body: bytes):
    assert _plain_answer(body) is None


@pytest.mark.parametrize(
    ("provider", "reads_plainly"),
    [
        ("openai", True),
        ("hosted_vllm", True),
        ("anthropic", False),
        ("gemini", False),
        ("bedrock", False),
        ("ollama", False),
    ],
)
def test_only_answers_that_litellm_reads_as_those_of_openai_are_read_so(
    provider: str, reads_plainly: bool
):
    assert _Reader(f"{provider}/m", provider)._reads_plainly is reads_plainly
