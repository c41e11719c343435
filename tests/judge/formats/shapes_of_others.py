"""Whole records of other formats, in shapes that no fixture file has, to be spoilt by tests."""

from __future__ import annotations

from typing import Any


def _kv(**values: Any) -> list[dict[str, Any]]:
    return [{"key": key.replace("__", "."), "value": value} for key, value in values.items()]


_ASKED = {"role": "user", "parts": [{"type": "text", "content": "Hi"}]}
_ANSWERED = {
    "role": "assistant",
    "parts": [
        {"type": "tool_call", "id": "c", "name": "f", "arguments": {"a": 1}},
        {"type": "tool_call_response", "id": "c", "response": "ok"},
        {"type": "reasoning", "content": "hm"},
    ],
}
_SAID = {
    "kvlistValue": {"values": _kv(role={"stringValue": "user"}, content={"stringValue": "Hi"})}
}
OTLP = {
    "traceId": "t",
    "spanId": "s",
    "startTimeUnixNano": "1760000000000000000",
    "endTimeUnixNano": 1760000001000000000,
    "status": {"code": 1},
    "attributes": _kv(
        gen_ai__operation__name={"stringValue": "chat"},
        gen_ai__usage__input_tokens={"intValue": "7"},
        gen_ai__input__messages={"arrayValue": {"values": [_SAID]}},
        gen_ai__output__messages={"stringValue": '[{"role": "assistant", "content": "Hello"}]'},
    ),
    "events": [
        {
            "name": "gen_ai.evaluation.result",
            "attributes": _kv(
                gen_ai__evaluation__name={"stringValue": "ok"},
                gen_ai__evaluation__score__value={"doubleValue": 0.5},
            ),
        }
    ],
}
COLLECTED = {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {}, "spans": [OTLP]}]}]}
PLAIN_SPAN = {
    "context": {"trace_id": "t", "span_id": "s"},
    "start_time": "2026-11-20T01:00:00Z",
    "status": {"status_code": "OK"},
    "attributes": {
        "gen_ai.operation.name": "chat",
        "gen_ai.input.messages": [_ASKED],
        "gen_ai.output.messages": [_ANSWERED],
        "gen_ai.system_instructions": [{"type": "text", "content": "Be brief."}],
        "gen_ai.tool.definitions": [{"name": "f", "parameters": {}}],
        "gen_ai.conversation.compacted": True,
    },
    "events": [
        {
            "name": "gen_ai.evaluation.result",
            "attributes": {"gen_ai.evaluation.name": "ok", "gen_ai.evaluation.score.value": 0.5},
        }
    ],
}
OLDER_SPAN = {
    "trace_id": "t",
    "span_id": "s",
    "attributes": {"gen_ai.operation.name": "chat"},
    "events": [
        {"name": "gen_ai.user.message", "attributes": {"content": "Hi"}},
        {"name": "gen_ai.choice", "body": {"message": {"role": "assistant", "content": "Yo"}}},
    ],
}
TRACE = {
    "id": "t",
    "sessionId": "s",
    "timestamp": "2026-11-20T01:00:00Z",
    "tags": ["a"],
    "input": "Hi",
    "output": "Hello",
    "observations": [
        {
            "id": "o",
            "type": "GENERATION",
            "input": [{"type": "human", "content": "Hi"}],
            "output": {
                "type": "ai",
                "content": "",
                "tool_calls": [{"id": "c", "name": "f", "args": {"a": 1}}],
                "additional_kwargs": {"tool_calls": [{"function": {"name": "f"}}]},
            },
            "usageDetails": {"input": 3, "output": 4},
            "totalCost": 0.5,
            "startTime": "2026-11-20T01:00:00Z",
        },
        {"id": "r", "type": "RETRIEVER", "output": {"documents": [{"document": {"id": "d"}}]}},
    ],
    "scores": [{"id": "x", "name": "good", "value": 1, "source": "ANNOTATION", "dataType": "N"}],
}
LOGGED = {
    "conversation_id": "c",
    "latency_ms": 120,
    "created_at": 1760000000,
    "ended_at": "2026-11-20T01:00:00Z",
    "request": {
        "model": "m",
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    },
    "response": {
        "body": {
            "choices": [{"message": {"role": "assistant", "content": "Yo"}}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2},
        }
    },
}
WHOLE: list[tuple[str, Any]] = [
    ("otel", COLLECTED),
    ("otel", PLAIN_SPAN),
    ("otel", OLDER_SPAN),
    ("langfuse", TRACE),
    ("openai_logs", LOGGED),
]
