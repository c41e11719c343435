"""The litellm seam, over real HTTP against a server that speaks the OpenAI protocol."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from dataclasses import replace

import pytest
from pydantic import create_model

from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.errors import ModelError
from assizes.judge.model_factory import model_for
from assizes.judge.models.model import Completion, ProviderUnreachable, UnusableReply
from assizes.judge.models.provider_calls import model_error
from assizes.judge.prompts.reply import read_reply
from tests.doubles.fixtures import ROOT
from tests.judge.engine.calls import ASK, LIMITS, Reply, completing, config

TEXT = f'{{"reply_id": "{ASK.reply_id}", "justification": "ok", "score": 4, "failure_code": null}}'
TOLD = (
    f"Was it good?\n\nFirst key of your JSON: reply_id, with this value.\nReply id: {ASK.reply_id}"
)


@pytest.mark.row("000-55", "000-62")
async def test_a_call_is_one_request_for_the_schema_and_is_accounted_for(judge_server):
    completion = await completing(judge_server, "stub", temperature=0.2, max_output_tokens=77)

    stats = judge_server.stats()
    assert completion == Completion(
        text=TEXT,
        answered_by="stub",
        input_tokens=stats["input_tokens"],
        output_tokens=stats["output_tokens"],
        cost_usd=None,
        latency_ms=completion.latency_ms,
        reply_id=ASK.reply_id,
        by_schema=True,
    )
    assert 0 < completion.latency_ms < 5000
    assert judge_server.requests() == [
        {
            "model": "stub",
            "messages": [
                {"role": "system", "content": "You judge."},
                {"role": "user", "content": TOLD},
            ],
            "temperature": 0.2,
            "max_tokens": 77,
            "response_format": {
                "type": "json_schema",
                "json_schema": {
                    "name": "Reply",
                    "strict": True,
                    "schema": {
                        "title": "Reply",
                        "type": "object",
                        "additionalProperties": False,
                        "required": ["reply_id", "justification", "score", "failure_code"],
                        "properties": {
                            "reply_id": {"type": "string"},
                            "justification": {"title": "Justification", "type": "string"},
                            "score": {"title": "Score", "type": "integer"},
                            "failure_code": {
                                "title": "Failure Code",
                                "anyOf": [{"type": "string"}, {"type": "null"}],
                            },
                        },
                    },
                },
            },
        }
    ]


async def test_a_known_model_is_priced_by_the_pinned_list(judge_server):
    completion = await completing(judge_server, "gpt-4.1")

    stats = judge_server.stats()
    assert stats["input_tokens"] > 0 < stats["output_tokens"]
    # 2 and 8 dollars a million tokens
    usd = (stats["input_tokens"] * 2 + stats["output_tokens"] * 8) / 1e6
    assert completion.cost_usd == pytest.approx(usd)


async def test_the_default_temperature_is_sent_where_the_model_takes_one(judge_server):
    await completing(judge_server, "stub")
    await completing(judge_server, "o3")

    assert [request.get("temperature") for request in judge_server.requests()] == [0.2, None]


async def test_a_re_ask_carries_the_problem_and_not_the_answer(judge_server):
    model = model_for(config(judge_server), LIMITS)

    await model.complete(ASK, complaint="score: Field required")

    _, said = judge_server.requests()[0]["messages"]
    assert said["content"] == (
        f"{TOLD}\n\n"
        "Your previous answer to this could not be used:\n"
        f"<data: Problem>\nscore: Field required\n</data {ASK.reply_id}>\n"
        "Answer again, in full, with one JSON object that fits the schema.\n\n"
        f"Reply id: {ASK.reply_id}"
    )


def test_a_schema_is_named_in_the_letters_that_openai_allows(judge_server):
    reply = create_model("Réponse_de-2[é]", __base__=Reply)

    request = model_for(config(judge_server), LIMITS).request(replace(ASK, reply=reply))

    assert request["response_format"]["json_schema"]["name"] == "R_ponse_de-2___"


@pytest.mark.parametrize(
    ("model", "key", "response_format"),
    [
        ("groq/llama-3.3-70b-versatile", "GROQ_API_KEY", {"type": "json_object"}),
        ("volcengine/doubao", "VOLCENGINE_API_KEY", None),
    ],
)
async def test_a_model_without_schemas_is_told_the_schema_in_words(
    judge_server, monkeypatch, model, key, response_format
):
    monkeypatch.setenv(key, "gsk-test")

    completion = await model_for(
        JudgeConfig(model=model, api_base=judge_server.api_base), LIMITS
    ).complete(ASK)

    assert read_reply(ASK, completion.text, completion.reply_id).reply == Reply(
        justification="ok", score=4
    )
    (request,) = judge_server.requests()
    assert request.get("response_format") == response_format
    assert request["messages"][0]["content"].startswith(
        "You judge.\n\nAnswer with one JSON object and nothing else. "
        'It fits this JSON Schema:\n{"additionalProperties": false,'
    )


@pytest.mark.parametrize(
    ("model", "code", "detail"),
    [
        ("stub-status-400", "bad_request", "stub answers 400"),
        ("stub-status-403", "authentication", "stub answers 403"),
        ("stub-status-404", "not_found", "stub answers 404"),
        ("stub-status-413", "context_overflow", "stub answers 413"),
        ("stub-status-422", "bad_request", "stub answers 422"),
        ("stub-status-429", "rate_limited", "stub answers 429"),
        ("stub-status-500", "unavailable", "stub answers 500"),
        ("stub-status-503", "unavailable", "stub answers 503"),
        ("stub-status-529", "unavailable", "stub answers 529"),
        ("stub-quota", "quota", "You exceeded your current quota, please check"),
        ("stub-context", "context_overflow", "This model's maximum context length"),
        ("stub-policy", "refused", "The response was filtered due to"),
    ],
)
async def test_a_failure_has_the_code_of_its_status_or_words_after_one_request(
    judge_server, model, code, detail
):
    with pytest.raises(ModelError) as caught:
        await completing(judge_server, model)

    assert (type(caught.value), caught.value.code) == (ModelError, code)
    assert caught.value.detail.startswith(detail)
    assert judge_server.stats()["requests"] == 1


async def test_a_server_that_is_not_there_is_unavailable_and_was_never_reached(judge_server):
    model = model_for(config(judge_server, api_base="http://127.0.0.1:9/v1"), LIMITS)

    with pytest.raises(ProviderUnreachable) as caught:
        await model.complete(ASK)

    assert caught.value.code == "unavailable"


async def test_a_wrong_key_is_an_authentication_failure_that_does_not_repeat_the_key(judge_server):
    with pytest.raises(ModelError) as caught:
        await completing(judge_server, "stub-status-401")

    assert (caught.value.code, caught.value.detail) == (
        "authentication",
        "Incorrect API key provided: sk-***. Header was Authorization: Bearer ***",
    )


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("invalid key sk-ant-REDACTED, retry", "invalid key sk-***, retry"),
        ("key AIzaSyD-abcdefghijklmnopqrstuvwxyz0", "key AIza***"),
        ('{"authorization": "Bearer abc.def-123"}', '{"authorization": "Bearer ***"}'),
        ("api_key=0123456789abcdef0123456789abcdef;", "api_key=***;"),
        ('"token": "QWxhZGRpbjpvcGVuIHNlc2FtZQ=="', '"token": "***"'),
        ("at https://user:pass@host/v1", "at https://***@host/v1"),
        ("model anthropic/claude-3-5-sonnet-20240620 not found",) * 2,
        ("a\n  b", "a b"),
        ("litellm.NotFoundError: NotFoundError: OpenAIException - no such model", "no such model"),
        ("x" * 300, "x" * 200),
    ],
)
def test_what_a_provider_says_is_cut_and_never_holds_a_key(said, shown):
    assert model_error(ValueError(said)).detail == shown


@pytest.mark.parametrize(
    ("model", "code", "detail"),
    [
        ("stub-empty", "empty", "the answer has no text"),
        ("stub-no-choices", "empty", "the answer has no choices"),
        ("stub-truncated", "truncated_output", "cut off at [judge] max_output_tokens"),
        ("stub-filtered", "refused", "the provider's content filter stopped the answer"),
        ("stub-refuse", "refused", "I will not judge this."),
    ],
)
async def test_an_answer_that_cannot_be_used_keeps_its_tokens(judge_server, model, code, detail):
    with pytest.raises(UnusableReply) as caught:
        await completing(judge_server, model)

    assert (caught.value.code, caught.value.detail) == (code, detail)
    assert caught.value.completion.answered_by == model
    assert caught.value.completion.input_tokens == judge_server.stats()["input_tokens"]


async def test_litellm_itself_never_waits_longer_than_the_limit(judge_server):
    model = model_for(config(judge_server, "stub-slow"), LimitsConfig(timeout_s=0.3))

    with pytest.raises(ModelError, match="timeout: "):
        await asyncio.wait_for(model.complete(ASK), 5)

    assert judge_server.stats()["requests"] == 1


@pytest.mark.full
def test_closed_connections_leave_no_warning_and_later_calls_open_new_ones(judge_server):
    program = (
        "import asyncio, sys\n"
        "from assizes.judge.config.judging import JudgeConfig\n"
        "from assizes.judge.config.judging import LimitsConfig\n"
        "from assizes.judge.engine.hearings import Engine\n"
        "from assizes.judge.model_factory import model_for\n"
        "from tests.judge.engine.calls import ASK\n"
        "model = model_for(JudgeConfig(model='openai/stub', api_base=sys.argv[1]), LimitsConfig())\n"
        "engine = Engine(model, LimitsConfig(max_in_flight=1, timeout_s=5))\n"
        "async def run():\n"
        "    for _ in range(2):\n"
        "        await asyncio.gather(*(model.complete(ASK) for _ in range(3)))\n"
        "        await engine.aclose()\n"
        "asyncio.run(run())\n"
        "asyncio.run(run())\n"
    )
    command = [sys.executable, "-X", "dev", "-W", "always::ResourceWarning", "-c", program]
    ran = subprocess.run(
        [*command, judge_server.api_base], capture_output=True, text=True, check=True, cwd=ROOT
    )

    assert "ResourceWarning" not in ran.stderr
    assert judge_server.stats()["requests"] == 12
