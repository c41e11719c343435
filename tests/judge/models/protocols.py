"""Providers of the tests, each with its protocol: what it answers, and how it says what is wrong."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.doubles.json_server import Reply, Request

Json = dict[str, Any]
MODEL = "answered-by-this"


def openai_answer(_: Request, text: str, end: str = "stop") -> Json:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_790_000_000,
        "model": MODEL,
        "system_fingerprint": "fp_1",
        "service_tier": "default",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": text, "refusal": None},
                "finish_reason": end,
            }
        ],
        "usage": {
            "prompt_tokens": 120,
            "completion_tokens": 20,
            "total_tokens": 140,
            "prompt_tokens_details": {"cached_tokens": 64},
        },
    }


def openai_error(status: int, message: str, code: str) -> Reply:
    return Reply(status, {"error": {"message": message, "type": code, "code": code}})


def anthropic_answer(request: Request, text: str, end: str = "stop") -> Json:
    ends = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
    block: Json = {"type": "text", "text": text}
    if tools := request.body.get("tools"):
        with contextlib.suppress(ValueError):
            block = {"type": "tool_use", "id": "toolu_1", "name": tools[0]["name"]} | {
                "input": json.loads(text)
            }
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [block],
        "stop_reason": ends[end],
        "stop_sequence": None,
        "usage": {
            "input_tokens": 40,
            "cache_read_input_tokens": 50,
            "cache_creation_input_tokens": 30,
            "output_tokens": 20,
        },
    }


def anthropic_error(status: int, message: str, code: str) -> Reply:
    return Reply(status, {"type": "error", "error": {"type": code, "message": message}})


def gemini_answer(_: Request, text: str, end: str = "stop") -> Json:
    ends = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}
    return {
        "candidates": [
            {
                "content": {"role": "model", "parts": [{"text": text}]},
                "finishReason": ends[end],
                "index": 0,
            }
        ],
        "usageMetadata": {
            "promptTokenCount": 120,
            "cachedContentTokenCount": 64,
            "candidatesTokenCount": 20,
            "totalTokenCount": 140,
        },
        "modelVersion": MODEL,
        "responseId": "r1",
    }


def gemini_error(status: int, message: str, code: str) -> Reply:
    return Reply(status, {"error": {"code": status, "message": message, "status": code}})


def bedrock_answer(request: Request, text: str, end: str = "stop") -> Json:
    ends = {"stop": "end_turn", "length": "max_tokens", "content_filter": "content_filtered"}
    block: Json = {"text": text}
    if tools := request.body.get("toolConfig"):
        try:
            tool = {"toolUseId": "t1", "name": tools["tools"][0]["toolSpec"]["name"]}
            block = {"toolUse": tool | {"input": json.loads(text)}}
        except ValueError:
            pass
    return {
        "output": {"message": {"role": "assistant", "content": [block]}},
        "stopReason": ends[end],
        "usage": {
            "inputTokens": 90,
            "outputTokens": 20,
            "totalTokens": 140,
            "cacheReadInputTokens": 30,
            "cacheWriteInputTokens": 0,
        },
        "metrics": {"latencyMs": 5},
    }


def bedrock_error(status: int, message: str, code: str) -> Reply:
    return Reply(status, {"message": message, "__type": code})


def ollama_answer(_: Request, text: str, end: str = "stop") -> Json:
    ends = {"stop": "stop", "length": "length", "content_filter": "stop"}
    return {
        "model": MODEL,
        "created_at": "2026-09-21T14:13:20Z",
        "message": {"role": "assistant", "content": text},
        "response": text,
        "done": True,
        "done_reason": ends[end],
        "prompt_eval_count": 120,
        "eval_count": 20,
    }


def ollama_error(status: int, message: str, _code: str) -> Reply:
    return Reply(status, {"error": message})


@dataclass(frozen=True)
class Family:
    """A provider: a model of it, its key and the path below the server that its `api_base` names."""

    model: str
    answer: Callable[..., Json] = openai_answer
    error: Callable[[int, str, str], Reply] = openai_error
    base: str = "/v1"
    environment: Mapping[str, str] = field(default_factory=dict)


_AWS = {
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
    "AWS_SECRET_ACCESS_KEY": "secret-of-the-tests",
    "AWS_SESSION_TOKEN": "token-of-the-tests",
    "AWS_REGION_NAME": "eu-west-1",
}
_ANTHROPIC = (anthropic_answer, anthropic_error, "", {"ANTHROPIC_API_KEY": "sk-ant-x"})
_BEDROCK = (bedrock_answer, bedrock_error, "", _AWS)
_OLLAMA = (ollama_answer, ollama_error, "")
_AZURE = (
    openai_answer,
    openai_error,
    "",
    {"AZURE_API_KEY": "az", "AZURE_API_VERSION": "2024-10-21"},
)


def _like_openai(model: str, key: str) -> Family:
    return Family(model, environment={key: "key-of-the-tests"})


FAMILIES = {
    "openai": _like_openai("openai/gpt-4.1", "OPENAI_API_KEY"),
    "openai-reasoning": _like_openai("openai/o3", "OPENAI_API_KEY"),
    "azure": Family("azure/gpt-4.1", *_AZURE),
    "azure-reasoning": Family("azure/o3", *_AZURE),
    "anthropic": Family("anthropic/claude-sonnet-4-5", *_ANTHROPIC),
    "anthropic-older": Family("anthropic/claude-3-haiku-20240307", *_ANTHROPIC),
    "gemini": Family(
        *("gemini/gemini-2.5-flash", gemini_answer, gemini_error),
        *("/v1beta/models/gemini-2.5-flash", {"GEMINI_API_KEY": "g-key"}),
    ),
    "bedrock": Family("bedrock/anthropic.claude-3-5-sonnet-20240620-v1:0", *_BEDROCK),
    "bedrock-nova": Family("bedrock/eu.amazon.nova-lite-v1:0", *_BEDROCK),
    "mistral": _like_openai("mistral/mistral-small-latest", "MISTRAL_API_KEY"),
    "hosted_vllm": Family("hosted_vllm/qwen"),
    "ollama": Family("ollama/llama3.1", *_OLLAMA),
    "ollama_chat": Family("ollama_chat/llama3.1", *_OLLAMA),
    "openrouter": _like_openai("openrouter/anthropic/claude-sonnet-4.5", "OPENROUTER_API_KEY"),
    "groq": _like_openai("groq/llama-3.1-8b-instant", "GROQ_API_KEY"),
    "deepseek": _like_openai("deepseek/deepseek-chat", "DEEPSEEK_API_KEY"),
    "xai": _like_openai("xai/grok-3", "XAI_API_KEY"),
    "together_ai": _like_openai("together_ai/x", "TOGETHERAI_API_KEY"),
    "fireworks_ai": _like_openai("fireworks_ai/x", "FIREWORKS_API_KEY"),
    "perplexity": _like_openai("perplexity/sonar", "PERPLEXITYAI_API_KEY"),
    "cerebras": _like_openai("cerebras/llama3.1-8b", "CEREBRAS_API_KEY"),
    "deepinfra": _like_openai("deepinfra/x", "DEEPINFRA_API_KEY"),
    "nvidia_nim": _like_openai("nvidia_nim/x", "NVIDIA_NIM_API_KEY"),
    "sambanova": _like_openai("sambanova/x", "SAMBANOVA_API_KEY"),
    "lm_studio": _like_openai("lm_studio/x", "LM_STUDIO_API_KEY"),
    "llamafile": _like_openai("llamafile/x", "LLAMAFILE_API_KEY"),
    "litellm_proxy": _like_openai("litellm_proxy/x", "LITELLM_PROXY_API_KEY"),
}
MAIN = (
    *("openai", "openai-reasoning", "azure", "azure-reasoning", "anthropic", "anthropic-older"),
    *("gemini", "bedrock", "bedrock-nova", "mistral", "hosted_vllm", "ollama", "ollama_chat"),
    "openrouter",
)
"""The families of which everything is compared; of the others, answers."""
