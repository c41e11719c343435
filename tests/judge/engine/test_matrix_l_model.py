"""Matrix L at the model's seam: what one call comes to, over real HTTP.

L1 (how a hint is read), L2 (which status has which code), L5, L6, L7, L16, L17, L19.
"""

from __future__ import annotations

import asyncio
import json

import pytest

from assizes.judge.config.judging import JudgeConfig, LimitsConfig, Price, estimated_tokens
from assizes.judge.engine.hearings import Engine
from assizes.judge.errors import ModelError
from assizes.judge.model_factory import model_for
from assizes.judge.models.litellm_model import LiteLLM
from assizes.judge.models.model import ProviderUnreachable, UnusableReply
from assizes.judge.prompts.reply import read_reply
from assizes.judge.protocol import Ask, Prompt
from tests.doubles.fixtures import OpenAIServer
from tests.judge.engine.calls import ASK, LIMITS, Reply, completing, config
from tests.judge.engine.levels import CASE, Asking

PRICED = LimitsConfig(
    timeout_s=5,
    prices={"openai/stub-no-usage": Price(input_usd_per_million=2, output_usd_per_million=8)},
)


def asking(text: str) -> Ask[Reply]:
    return Ask(Prompt("You judge.", text), Reply)


def model(server, name: str, limits: LimitsConfig = LIMITS, **rest) -> LiteLLM:
    return LiteLLM(config(server, name, **rest), limits)


async def fault(server, name: str) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await completing(server, name)
    return caught.value


# L1, L2: status, hint and code


@pytest.mark.parametrize(
    ("hint", "least_s", "most_s"),
    [("1", 1, 1), ("0.2", 0.2, 0.2), ("ms", 0.2, 0.2), ("date", 0.1, 1.6), ("far", 86_400, 86_400)],
)
async def test_l1_a_hint_is_in_seconds_from_now(judge_server, hint, least_s, most_s):
    error = await fault(judge_server, f"stub-retry-after-{hint}")

    assert (error.code, error.status) == ("rate_limited", 429)
    assert error.retry_after_s is not None
    assert least_s <= error.retry_after_s <= most_s


@pytest.mark.parametrize("hint", ["-5", "junk"])
async def test_l1_a_hint_that_means_nothing_is_none(judge_server, hint):
    error = await fault(judge_server, f"stub-retry-after-{hint}")

    assert (error.code, error.retry_after_s) == ("rate_limited", None)


@pytest.mark.parametrize(
    ("behaviour", "status", "detail"),
    [
        ("flaky-408", 408, "stub answers 408"),
        ("status-409", 409, "stub answers 409"),
        ("502html", 502, "502 Bad Gateway"),
        ("flaky-529", 529, "stub answers 529"),
        ("error200", None, "The server had an error."),
        ("html200", None, "Unable to get json response"),
        ("cut", None, "Response payload is not completed"),
        ("reset", None, "[Errno 104] Connection reset by peer"),
    ],
)
async def test_l2_a_transient_fault_is_unavailable_whatever_its_class(
    judge_server, behaviour, status, detail
):
    error = await fault(judge_server, f"stub-{behaviour}")

    assert (type(error), error.code, error.status) == (ModelError, "unavailable", status)
    assert error.detail.startswith(detail)
    assert "<html" not in error.detail
    assert judge_server.stats()["requests"] == 1


@pytest.mark.parametrize("provider", ["openai", "hosted_vllm", "groq", "deepseek"])
async def test_l2_a_broken_connection_is_not_tried_again_by_litellm(
    judge_server, monkeypatch, provider
):
    monkeypatch.setenv(f"{provider.upper()}_API_KEY", "gsk-test")
    judge = JudgeConfig(model=f"{provider}/stub-reset", api_base=judge_server.api_base)

    with pytest.raises(ModelError) as caught:
        await model_for(judge, LIMITS).complete(ASK)

    assert not isinstance(caught.value, ProviderUnreachable)
    assert judge_server.stats()["requests"] == 1


async def test_l2_without_tls_on_the_other_side_nothing_was_sent(judge_server):
    address = judge_server.api_base.replace("http:", "https:")

    with pytest.raises(ProviderUnreachable):
        await model(judge_server, "stub", api_base=address).complete(ASK)


async def test_l4_a_cancelled_call_closes_its_connection(judge_server):
    warm = model(judge_server, "stub-hang")

    calling = asyncio.create_task(warm.complete(ASK))
    await _counted(judge_server, "requests")
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    await _counted(judge_server, "disconnects")


async def _counted(server: OpenAIServer, what: str) -> None:
    for _ in range(600):
        if server.stats()[what] == 1:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(server.stats())


async def test_a_provider_that_litellm_describes_nowhere_goes_by_the_sdk(judge_server, monkeypatch):
    monkeypatch.setenv("EXPERIMENTAL_OPENAI_BASE_LLM_HTTP_HANDLER", "true")
    monkeypatch.setenv("XINFERENCE_API_KEY", "sk-test")
    judge = JudgeConfig(model="xinference/stub", api_base=judge_server.api_base)

    completion = await model_for(judge, LIMITS).complete(ASK)

    assert read_reply(ASK, completion.text, completion.reply_id).reply.score == 4


# L5: parameters that are not taken


@pytest.mark.parametrize(
    ("behaviour", "name", "before", "after"),
    [
        ("temperature", "temperature", 0.2, None),
        ("max-tokens", "max_tokens", 4096, None),
        ("schema", "response_format", "json_schema", "json_object"),
    ],
)
async def test_l5_a_parameter_that_is_not_taken_is_left_out_of_all_later_calls(
    judge_server, behaviour, name, before, after
):
    asked = model(judge_server, f"stub-unsupported-{behaviour}")

    with pytest.raises(ModelError) as caught:
        await asked.complete(ASK)
    completions = [await asked.complete(ASK), await asked.complete(asking("Was it good again?"))]

    assert (caught.value.code, caught.value.status) == ("unsupported_parameter", 400)
    assert caught.value.detail.startswith(f"the model does not take {name}: ")
    assert [one.flags for one in completions] == [(f"dropped:{name}",)] * 2
    sent = [request.get(name) for request in judge_server.requests()]
    kinds = [one["type"] if isinstance(one, dict) else one for one in sent]
    assert kinds == [before, after, after]


@pytest.mark.parametrize("status", [500, 422])
async def test_l5_a_server_that_turns_the_schema_away_by_another_status_is_asked_less_strictly(
    judge_server, status
):
    asked = model(judge_server, f"stub-unsupported-schema-{status}")

    with pytest.raises(ModelError) as caught:
        await asked.complete(ASK)
    completion = await asked.complete(ASK)

    assert (caught.value.code, caught.value.status) == ("unsupported_parameter", status)
    assert completion.flags == ("dropped:response_format",)
    kinds = [request["response_format"]["type"] for request in judge_server.requests()]
    assert kinds == ["json_schema", "json_object"]


async def test_l5_such_a_server_opens_no_circuit_and_every_case_is_judged(judge_server):
    asked = model(judge_server, "stub-unsupported-schema-500")
    engine = Engine(asked, LimitsConfig(max_in_flight=1))

    hearings = [await engine.hear(Asking(), CASE) for _ in range(3)]

    assert [heard.scores[0].status for heard in hearings] == ["scored"] * 3
    assert [heard.asks[0].attempts for heard in hearings] == [2, 1, 1]
    assert len(judge_server.requests()) == 4


async def test_l5_an_outage_that_names_no_parameter_changes_none(judge_server):
    asked = model(judge_server, "stub-status-500")

    with pytest.raises(ModelError) as caught:
        await asked.complete(ASK)

    assert caught.value.code == "unavailable"
    assert asked.request(ASK)["response_format"]["type"] == "json_schema"


@pytest.mark.parametrize("mode", ["json_schema", "json_object", "words"])
async def test_l5_the_configuration_can_say_beforehand_how_replies_are_asked_for(
    judge_server, mode
):
    asked = model(judge_server, "stub", reply_format=mode)

    completion = await asked.complete(ASK)

    (request,) = judge_server.requests()
    assert request.get("response_format", {}).get("type", "words") == mode
    assert completion.by_schema == (mode == "json_schema")
    assert ("JSON Schema" in request["messages"][0]["content"]) == (mode != "json_schema")
    assert read_reply(ASK, completion.text, completion.reply_id).reply.score == 4


async def test_l5_the_cap_goes_on_under_its_new_name(judge_server):
    asked = model(judge_server, "stub-unsupported-max-tokens", max_output_tokens=77)

    with pytest.raises(ModelError):
        await asked.complete(ASK)
    await asked.complete(ASK, cap=2)

    assert judge_server.requests()[1]["max_completion_tokens"] == 154


async def test_l5_a_model_that_takes_no_format_at_all_is_told_in_words(judge_server):
    asked = model(judge_server, "stub-unsupported-format")

    codes = []
    for _ in range(2):
        with pytest.raises(ModelError) as caught:
            await asked.complete(ASK)
        codes.append(caught.value.code)
    completion = await asked.complete(ASK)

    assert codes == ["unsupported_parameter"] * 2
    assert completion.flags == ("dropped:response_format",)
    last = judge_server.requests()[-1]
    assert "response_format" not in last
    assert "It fits this JSON Schema:" in last["messages"][0]["content"]
    assert read_reply(ASK, completion.text, completion.reply_id).flags == ()


async def test_l5_calls_that_were_under_way_with_the_parameter_can_all_be_repeated(judge_server):
    asked = model(judge_server, "stub-unsupported-schema")
    asks = [asking(f"Was answer {n} good?") for n in range(8)]

    first = await asyncio.gather(*(asked.complete(one) for one in asks), return_exceptions=True)
    second = await asyncio.gather(*(asked.complete(one) for one in asks))

    assert {getattr(one, "code", None) for one in first} == {"unsupported_parameter"}
    assert {one.flags for one in second} == {("dropped:response_format",)}
    assert judge_server.requests()[-1]["response_format"] == {"type": "json_object"}


async def test_l5_a_bad_request_that_names_no_parameter_is_final(judge_server):
    error = await fault(judge_server, "stub-badparam")

    assert (error.code, error.status) == ("bad_request", 400)


# L6: the window


async def test_l6_a_prompt_that_cannot_fit_is_turned_away_without_a_request(judge_server):
    text = "The agent answered again, and the user was content. " * 1000

    with pytest.raises(ModelError) as caught:
        await model(judge_server, "gpt-4").complete(asking(text))

    assert (caught.value.code, caught.value.status) == ("context_overflow", None)
    assert caught.value.detail.endswith(" tokens, the model takes 8192")
    assert judge_server.stats()["requests"] == 0


async def test_l6_a_prompt_that_looks_too_long_but_fits_is_put(judge_server):
    text = '""""""""' * 1400  # estimated at far more tokens than the tokenizer makes of it
    asked = model(judge_server, "gpt-4")

    completion = await asked.complete(asking(text))

    assert asked.tokens(asking(text))[0] > 0.7 * 8192
    assert completion.reply_id is not None


async def test_l6_nobody_guesses_the_window_of_an_unknown_model(judge_server):
    await model(judge_server, "stub").complete(asking("x " * 200_000))

    assert judge_server.stats()["requests"] == 1


async def test_l6_what_the_provider_turns_away_for_its_length_is_told_apart(judge_server):
    error = await fault(judge_server, "stub-context")

    assert (error.code, error.status) == ("context_overflow", 400)


# L7: content filters and refusals


async def test_l7_a_filter_that_answers_400_is_a_refusal(judge_server):
    error = await fault(judge_server, "stub-policy")

    assert (error.code, error.status) == ("refused", 400)


@pytest.mark.parametrize("behaviour", ["filtered", "refuse"])
async def test_l7_a_refusal_that_was_paid_for_is_accounted_for(judge_server, behaviour):
    error = await fault(judge_server, f"stub-{behaviour}")

    assert isinstance(error, UnusableReply)
    assert error.code == "refused"
    assert error.completion.output_tokens is not None


# L16: missing usage, unknown price


async def test_l16_tokens_that_were_not_metered_are_estimated_and_priced(judge_server):
    asked = model(judge_server, "stub-no-usage", PRICED)
    sent, _ = asked.tokens(ASK)

    completion = await asked.complete(ASK)

    assert completion.flags == ("tokens_estimated",)
    assert completion.input_tokens == sent
    assert completion.output_tokens == estimated_tokens(completion.text) > 10
    assert completion.cost_usd == pytest.approx((sent * 2 + completion.output_tokens * 8) / 1e6)


async def test_l16_without_a_price_the_cost_is_not_known_rather_than_nothing(judge_server):
    completion = await completing(judge_server, "stub-no-usage")

    assert completion.cost_usd is None
    assert completion.input_tokens


async def test_l16_estimates_follow_what_the_provider_meters(judge_server):
    asked = model(judge_server, "stub")
    text = json.dumps([{"tool": "search", "id": n, "found": True} for n in range(500)])

    before, _ = asked.tokens(asking(text))
    metered = [(await asked.complete(asking(f"{n} {text}"))).input_tokens or 0 for n in range(12)]
    after, _ = asked.tokens(asking(text))

    assert abs(before / metered[0] - 1) > 0.3
    assert after == pytest.approx(metered[0], rel=0.1)


# L17: another model than was asked for


async def test_l17_who_answered_and_on_what_system_is_recorded(judge_server):
    other = await completing(judge_server, "stub-model-b")
    system = await completing(judge_server, "stub-fp-a")

    assert (other.answered_by, other.fingerprint) == ("stub-b-2026", "")
    assert (system.answered_by, system.fingerprint) == ("stub-fp-a", "fp_a")


# L19: what a text may hold


async def test_l19_a_prompt_with_a_lone_surrogate_is_put_all_the_same(judge_server):
    completion = await model(judge_server, "stub").complete(asking("broken \ud800 emoji \x00"))

    assert completion.text.startswith('{"reply_id": ')


async def test_l19_a_megabyte_comes_through_whole(judge_server):
    completion = await completing(judge_server, "stub-huge")

    assert len(completion.text) > 1_000_000
