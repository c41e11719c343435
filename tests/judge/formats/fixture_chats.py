"""Fixtures of messages: of OpenAI and of Anthropic."""

from __future__ import annotations

from tests.judge.formats.fixture_texts import ANSWER, ASK, POLICY, SCHEMA, lines, whole

COMPLETION = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1795246704,
    "model": "m1",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": ANSWER},
        }
    ],
    "usage": {"prompt_tokens": 90, "completion_tokens": 12, "total_tokens": 102},
}
CUSTOM = {
    "messages": [
        {"role": "user", "content": "Sum it."},
        {
            "role": "assistant",
            "content": None,
            "refusal": None,
            "tool_calls": [
                {"id": "x1", "type": "custom", "custom": {"name": "code", "input": "1+1"}}
            ],
        },
        {"role": "tool", "tool_call_id": "x1", "content": "2"},
        {"role": "assistant", "content": None, "refusal": "I will not say."},
    ]
}
ANTHROPIC = [
    {"role": "user", "content": ASK},
    {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Look it up.", "signature": "s"},
            {"type": "text", "text": "Checking."},
            {"type": "tool_use", "id": "tu_1", "name": "find_order", "input": {"order_id": 77}},
        ],
    },
    {
        "role": "user",
        "content": [
            {
                "type": "tool_result",
                "tool_use_id": "tu_1",
                "is_error": True,
                "content": [{"type": "text", "text": "late"}],
            },
            {"type": "text", "text": "Hurry."},
        ],
    },
]


def openai_chat() -> None:
    """Messages that the library's own types take, with a completion it parsed."""
    from openai.types.chat import ChatCompletion, ChatCompletionMessageParam
    from pydantic import TypeAdapter

    messages = [
        {"role": "developer", "content": POLICY},
        {"role": "user", "content": [{"type": "text", "text": ASK}, _picture()]},
        _openai_call("call_a1", '{"order_id": 77}'),
        {"role": "tool", "tool_call_id": "call_a1", "content": '{"state":"late"}'},
    ]
    adapter = TypeAdapter(list[ChatCompletionMessageParam])
    adapter.validate_python(messages)
    completion = ChatCompletion.model_validate(COMPLETION)
    tools = [{"type": "function", "function": {"name": "find_order", "parameters": SCHEMA}}]
    record = {"messages": messages, "tools": tools, "model": "m1"}
    done = completion.model_dump(mode="json")
    adapter.validate_python(CUSTOM["messages"])
    lines("openai_chat.jsonl", [{"id": "c-1", **record, "response": done}, CUSTOM])
    first = {"model": "m1", "messages": messages[:2], "tools": tools}
    called = {**done, "choices": [{"index": 0, "message": messages[2]}]}
    lines(
        "openai_logs.jsonl",
        [
            {"request": first, "response": called, "created_at": "2026-11-20T01:00:00Z"},
            {"request": record, "response": done, "created_at": "2026-11-20T01:00:02Z"},
            {
                "request": {"model": "m1", "messages": [{"role": "user", "content": "Hi"}]},
                "response": done,
            },
        ],
    )


def _picture() -> dict[str, object]:
    return {"type": "image_url", "image_url": {"url": "https://example.com/rose.png"}}


def _openai_call(name: str, arguments: str) -> dict[str, object]:
    function = {"name": "find_order", "arguments": arguments}
    call = {"id": name, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def anthropic_messages() -> None:
    """Messages that the library's own types take, with a response it parsed."""
    from anthropic.types import Message, MessageParam
    from pydantic import TypeAdapter

    TypeAdapter(list[MessageParam]).validate_python(ANTHROPIC)
    answer = Message.model_validate(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-x",
            "content": [{"type": "text", "text": ANSWER}],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 90,
                "output_tokens": 12,
                "cache_read_input_tokens": 10,
                "cache_creation_input_tokens": 0,
            },
        }
    )
    record = {
        "id": "a-1",
        "system": [{"type": "text", "text": POLICY}],
        "messages": ANTHROPIC,
        "tools": [{"name": "find_order", "input_schema": SCHEMA}],
        "response": answer.model_dump(mode="json"),
    }
    whole("anthropic.json", record)
