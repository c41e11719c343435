"""Tokens that a provider read from its prompt cache or wrote to it: each counts once."""

from __future__ import annotations

from typing import Any

import pytest

from assizes.judge.formats.shared.messages import usage_of
from tests.judge.formats.foreign import joined

CACHED = {"cache_read_input_tokens": 80, "cache_creation_input_tokens": 0}


@pytest.mark.parametrize(
    "used",
    [
        {"prompt_tokens": 100, "completion_tokens": 5, "total_tokens": 105},  # as LiteLLM writes it
        {"input_tokens": 20, "output_tokens": 5},  # as Anthropic writes it
        {"input": 20, "output": 5},  # as Langfuse writes it
    ],
)
def test_cached_tokens_are_added_only_where_the_input_leaves_them_out(used: dict[str, int]):
    usage = usage_of({**used, **CACHED})
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens) == (100, 5)


@pytest.mark.parametrize(
    ("used", "input_tokens"),
    [
        ({"input_tokens": 20, "total_tokens": 105, "input_tokens_cache_read": 80}, 100),
        ({"input_tokens": 20, "input_tokens_cache_read": 70, "input_tokens_cache_write": 10}, 100),
        # Older logs of models of OpenAI: the total shows that the input holds the cached tokens.
        ({"input_tokens": 100, "total_tokens": 105, "input_tokens_cache_read": 80}, 100),
        ({"input_tokens": 100, "total_tokens": 105, "input_tokens_cache_read": None}, 100),
    ],
)
def test_cached_tokens_of_inspect_stand_beside_its_input(used: dict[str, Any], input_tokens: int):
    said = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    sample = {"id": "s", "messages": said, "model_usage": {"m": {**used, "output_tokens": 5}}}
    usage = joined("inspect_ai", {"eval": {"task": "t"}, "sample": sample}).transcript.agent_usage()
    assert (usage.input_tokens, usage.output_tokens) == (input_tokens, 5)
