"""The litellm seam, over real HTTP against a server that speaks the OpenAI protocol."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time

import pytest
from pydantic import BaseModel, ConfigDict

from judge.case import Expected
from judge.config import JudgeConfig, LimitsConfig
from judge.engine import Engine
from judge.errors import ConfigurationError, ModelError
from judge.evidence import ConversationEvidence, tool_evidence
from judge.families.conversation import ConversationJudge
from judge.llm import Completion, Lexical, UnusableReply, check_model, model_for
from judge.protocol import Ask, Prompt
from judge.reply import parse_reply
from judge.rubric import built_in_rubrics
from tests.builders import agent, case, user
from tests.doubles.fixtures import OpenAIServer, running_openai_server

KEY = "sk-" + "proj-4f9aB7" * 4


class Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")

    justification: str
    score: int
    failure_code: str | None = None


ASK = Ask(Prompt("You judge.", "Was it good?"), Reply)
TEXT = '{"justification": "ok", "score": 4, "failure_code": null}'
LIMITS = LimitsConfig(timeout_s=5)


@pytest.fixture
def server(openai_server: OpenAIServer, monkeypatch) -> OpenAIServer:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    openai_server.reset()
    return openai_server


def config(server: OpenAIServer, model: str = "stub", **rest) -> JudgeConfig:
    return JudgeConfig(**{"model": f"openai/{model}", "api_base": server.api_base} | rest)


def completing(server: OpenAIServer, model: str, **rest):
    return model_for(config(server, model, **rest), LIMITS).complete(ASK)


@pytest.mark.row("000-55", "000-62")
async def test_a_call_is_one_request_for_the_schema_and_is_accounted_for(server):
    completion = await completing(server, "stub", temperature=0.2, max_output_tokens=77)

    assert completion == Completion(
        text=TEXT,
        answered_by="stub",
        input_tokens=6,
        output_tokens=15,
        cost_usd=None,
        latency_ms=completion.latency_ms,
    )
    assert 0 < completion.latency_ms < 5000
    assert server.requests() == [
        {
            "model": "stub",
            "messages": [
                {"role": "system", "content": "You judge."},
                {"role": "user", "content": "Was it good?"},
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
                        "required": ["justification", "score", "failure_code"],
                        "properties": {
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


async def test_a_known_model_has_its_price(server):
    completion = await completing(server, "gpt-4.1")

    # 2 and 8 dollars a million tokens
    assert completion.cost_usd == pytest.approx((6 * 2 + 15 * 8) / 1e6)


@pytest.mark.parametrize("model", ["stub-no-usage", "gpt-4.1-no-usage"])
async def test_missing_usage_is_not_known_rather_than_free(server, model):
    completion = await completing(server, model)

    assert completion == Completion(TEXT, model, latency_ms=completion.latency_ms)


@pytest.mark.row("000-37", "000-38")
@pytest.mark.parametrize(
    ("given", "name", "called"),
    [
        ({"model": "gpt-4o"}, "gpt-4o", "gpt-4o"),
        ({"model": "openai/m"}, "openai/m", "m"),
        ({"provider": "openai", "model": "m"}, "openai/m", "m"),
    ],
)
async def test_litellm_is_called_with_the_model_and_the_provider_as_given(
    server, given, name, called
):
    model = model_for(JudgeConfig(api_base=server.api_base, **given), LIMITS)

    await model.complete(ASK)

    assert (model.name, model.provider) == (name, "openai")
    assert server.stats()["models"] == {called: 1}


@pytest.mark.row("000-37")
def test_without_a_model_the_offline_judge_answers():
    model = model_for(JudgeConfig(), LIMITS)

    assert isinstance(model, Lexical)
    assert (model.name, model.provider, model.cache_key) == ("offline/lexical", "offline", None)
    check_model(JudgeConfig())


async def test_the_offline_judge_answers_for_nothing():
    one = case(user("hello"), agent("hi"))
    judge = ConversationJudge(built_in_rubrics()[:2])
    evidence = ConversationEvidence(one, tool_evidence(one), judge.weighted)

    completion = await Lexical().complete(Ask(Prompt("", ""), Reply, evidence))

    assert completion == Completion(completion.text, "offline/lexical", cost_usd=0.0)


async def test_no_temperature_is_sent_when_none_is_chosen(server):
    await completing(server, "stub", temperature=None)

    assert "temperature" not in server.requests()[0]


async def test_a_re_ask_carries_the_problem_and_not_the_answer(server):
    model = model_for(config(server), LIMITS)

    await model.complete(ASK, complaint="score: Field required")

    _, said = server.requests()[0]["messages"]
    assert said["content"] == (
        "Was it good?\n\n"
        "Your previous answer to this could not be used: score: Field required\n"
        "Answer again, in full, with one JSON object that fits the schema."
    )


@pytest.mark.parametrize(
    ("model", "key", "response_format"),
    [
        ("groq/llama-3.3-70b-versatile", "GROQ_API_KEY", {"type": "json_object"}),
        ("volcengine/doubao", "VOLCENGINE_API_KEY", None),
    ],
)
async def test_a_model_without_schemas_is_told_the_schema_in_words(
    server, monkeypatch, model, key, response_format
):
    monkeypatch.setenv(key, "gsk-test")

    completion = await model_for(
        JudgeConfig(model=model, api_base=server.api_base), LIMITS
    ).complete(ASK)

    assert parse_reply(completion.text, Reply) == Reply(justification="ok", score=4)
    (request,) = server.requests()
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
    server, model, code, detail
):
    with pytest.raises(ModelError) as caught:
        await completing(server, model)

    assert (type(caught.value), caught.value.code) == (ModelError, code)
    assert caught.value.detail.startswith(detail)
    assert server.stats()["requests"] == 1


async def test_a_server_that_is_not_there_is_unavailable(server):
    model = model_for(config(server, api_base="http://127.0.0.1:9/v1"), LIMITS)

    with pytest.raises(ModelError) as caught:
        await model.complete(ASK)

    assert caught.value.code == "unavailable"


async def test_a_wrong_key_is_an_authentication_failure_that_does_not_repeat_the_key(server):
    with pytest.raises(ModelError) as caught:
        await completing(server, "stub-status-401")

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
    from judge.litellm_model import model_error

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
async def test_an_answer_that_cannot_be_used_keeps_its_tokens(server, model, code, detail):
    with pytest.raises(UnusableReply) as caught:
        await completing(server, model)

    assert (caught.value.code, caught.value.detail) == (code, detail)
    assert caught.value.completion.answered_by == model
    assert caught.value.completion.input_tokens == 6


def hearing(server: OpenAIServer, model: str, *, timeout_s: float = 5.0, statements=()):
    judge = ConversationJudge(built_in_rubrics()[:3])
    one = case(user("hello"), agent("hi"), expected=Expected(outcomes=statements))
    asking = Engine(
        model_for(config(server, model), LIMITS), None, max_in_flight=8, timeout_s=timeout_s
    )
    return asking.hear(judge, one)


STATEMENTS = ("It greets.", "It says:\n1. yes\n2. no", "1. odd <data: x> </data>")


@pytest.mark.parametrize("statements", [(), STATEMENTS])
async def test_a_conversation_is_judged_with_one_request(server, statements):
    heard = await hearing(server, "stub", statements=statements)

    (record,) = heard.asks
    assert (record.error, record.attempts, server.stats()["requests"]) == (None, 1, 1)
    found = {(s.metric, s.part): (s.status, s.raw) for s in heard.scores}
    headlines = {(m.name, ""): ("scored", 4.0) for m in heard.judge.metrics[:3]}
    parts = {("expected_outcomes", f"outcome:{i}"): ("scored", 1.0) for i in range(3)}
    outcomes = {("expected_outcomes", ""): ("scored", 1.0)} | parts
    none = {("expected_outcomes", ""): ("skipped", None)}
    assert found == headlines | (outcomes if statements else none)


@pytest.mark.row("002-54")
async def test_a_fenced_reply_costs_no_second_request(server):
    heard = await hearing(server, "stub-fenced")

    assert (heard.asks[0].error, server.stats()["requests"]) == (None, 1)


@pytest.mark.row("000-57")
async def test_an_invalid_reply_is_asked_for_once_more_with_the_problem(server):
    heard = await hearing(server, "stub-invalid-once")

    assert (heard.asks[0].error, heard.asks[0].attempts) == (None, 2)
    first, second = (request["messages"][1]["content"] for request in server.requests())
    complaint = "could not be used: not json: Expecting value at character 0"
    assert second.startswith(first)
    assert complaint in second
    assert "could not be used" not in first


@pytest.mark.row("000-57")
async def test_a_second_invalid_reply_fails_every_metric_and_is_kept(server):
    heard = await hearing(server, "stub-invalid")

    assert server.stats()["requests"] == 2
    assert {score.status for score in heard.scores} == {"failed"}
    reason = "invalid_reply: not json: Expecting value at character 0"
    assert (heard.asks[0].error, heard.asks[0].reply) == (reason, "not json")


async def test_a_hanging_call_is_cut_within_a_second(server):
    started = time.monotonic()

    heard = await hearing(server, "stub-slow", timeout_s=0.3)

    assert time.monotonic() - started < 1.3
    assert heard.asks[0].error == "timeout: no answer within 0.3 s"


async def test_litellm_itself_never_waits_longer_than_the_limit(server):
    model = model_for(config(server, "stub-slow"), LimitsConfig(timeout_s=0.3))

    with pytest.raises(ModelError, match="timeout: "):
        await asyncio.wait_for(model.complete(ASK), 5)

    assert server.stats()["requests"] == 1


async def test_calls_in_flight_share_the_slots_over_http(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    judge = ConversationJudge(built_in_rubrics()[:1])
    with running_openai_server("--latency", "0.05") as server:
        model = model_for(config(server), LIMITS)
        asking = Engine(model, None, max_in_flight=4, timeout_s=5)
        cases = [case(user(f"hello {i}"), agent("hi"), case_id=f"c{i}") for i in range(12)]

        heard = await asyncio.gather(*(asking.hear(judge, one) for one in cases))

        assert [one.asks[0].error for one in heard] == [None] * 12
        assert server.stats() == {"requests": 12, "models": {"stub": 12}, "peak": 4}


@pytest.mark.parametrize(
    "other",
    [
        {"model": "openai/other"},
        {"temperature": 0.3},
        {"temperature": None},
        {"max_output_tokens": 99},
        {"api_base": "http://127.0.0.1:1/v1"},
        {"api_base": None},
    ],
)
def test_whatever_can_change_an_answer_changes_the_cache_key(server, other):
    given = {"model": "openai/stub", "api_base": server.api_base}

    def key(**fields):
        return model_for(JudgeConfig(**given | fields), LIMITS).cache_key

    assert key() == key()
    assert key(**other) != key()


def test_how_fast_a_model_is_pressed_does_not_change_the_cache_key(server):
    keys = {model_for(config(server), limits).cache_key for limits in (LIMITS, LimitsConfig())}

    assert len(keys) == 1


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({"model": "openai/gpt-4.1"}, ["OPENAI_API_KEY"]),
        ({"model": "gpt-4.1"}, ["OPENAI_API_KEY"]),
        ({"provider": "anthropic", "model": "claude-sonnet-4-5"}, ["ANTHROPIC_API_KEY"]),
        ({"model": "azure/x"}, ["AZURE_API_BASE", "AZURE_API_VERSION", "AZURE_API_KEY"]),
    ],
)
def test_a_missing_key_is_named_before_any_call(given, missing, monkeypatch):
    for name in (*missing, "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(ConfigurationError) as caught:
        check_model(JudgeConfig(**given))

    model = JudgeConfig(**given).model_id
    assert str(caught.value) == (
        f"[judge] model {model!r}: set {' and '.join(missing)} in the environment"
    )


def test_a_missing_key_for_an_endpoint_of_ones_own_may_be_any(server, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")

    with pytest.raises(ConfigurationError, match="any value if the endpoint asks for no key"):
        check_model(config(server))


@pytest.mark.parametrize("use", [check_model, lambda given: model_for(given, LIMITS)])
def test_a_model_whose_provider_is_unknown_is_refused(use):
    with pytest.raises(ConfigurationError) as caught:
        use(JudgeConfig(model="foo"))

    assert str(caught.value) == (
        "[judge] model 'foo': litellm does not know its provider; "
        "write provider/model, e.g. openai/gpt-4.1"
    )


def test_a_temperature_the_model_does_not_take_is_refused_before_any_call(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    check_model(JudgeConfig(model="openai/o3", temperature=1))

    with pytest.raises(ConfigurationError, match=r"^.judge. model 'openai/o3', temperature 0.2: "):
        check_model(JudgeConfig(model="openai/o3"))


def test_a_model_that_can_be_called_is_checked_without_a_call(server):
    check_model(config(server))

    assert server.stats()["requests"] == 0


def test_litellm_is_imported_only_for_a_model_that_needs_it_and_fetches_no_prices():
    program = (
        "import sys; from judge.llm import check_model, model_for;"
        "from judge.config import JudgeConfig, LimitsConfig;"
        "check_model(JudgeConfig()); model_for(JudgeConfig(), LimitsConfig());"
        "print('litellm' in sys.modules);"
        "import judge.litellm_model, litellm, os;"
        "print(os.environ['LITELLM_LOCAL_MODEL_COST_MAP'], litellm.telemetry, litellm.drop_params)"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith("LITELLM")}
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=clean,
    )
    assert (ran.stdout.split(), ran.stderr) == (["False", "True", "False", "False"], "")
