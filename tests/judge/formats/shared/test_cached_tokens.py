"""Tokens that a provider read from its prompt cache or wrote to it: each counts once."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize(
    ("counted", "own", "input_tokens"),
    [
        # OpenAI: the input holds the cached tokens.
        (100, {"prompt_tokens": 100, "completion_tokens": 5}, 100),
        (100, {"input_tokens": 100, "output_tokens": 5}, 100),  # of the API Responses
        (100, None, 100),
        # Anthropic: they stand beside its input, and some releases of MLflow leave them out.
        (20, {"input_tokens": 20, "output_tokens": 5, **CACHED}, 100),
        (100, {"input_tokens": 20, "output_tokens": 5, **CACHED}, 100),
        (20, None, 100),
        (90, {"input_tokens": 90, "output_tokens": 5, **CACHED}, 170),
        # The output is of another call than the one that was counted.
        (100, {"input_tokens": 30, "output_tokens": 4}, 100),
    ],
)
def test_mlflow_counts_cached_tokens_once_whoever_answered(
    counted: int, own: dict[str, int] | None, input_tokens: int
):
    answer = {"role": "assistant", "content": "a", **({"usage": own} if own else {})}
    values = {
        "mlflow.spanType": "CHAT_MODEL",
        "mlflow.spanInputs": {"messages": [{"role": "user", "content": "q"}]},
        "mlflow.spanOutputs": answer,
        "mlflow.chat.tokenUsage": {"input_tokens": counted, "output_tokens": 5, **CACHED},
    }
    attributes = {name: json.dumps(value) for name, value in values.items()}
    trace = {"info": {"trace_id": "t"}, "data": {"spans": [{"attributes": attributes}]}}
    usage = joined("mlflow", trace).transcript.agent_usage()
    assert (usage.input_tokens, usage.output_tokens) == (input_tokens, 5)
