"""Hearings over real HTTP: from a case to its scores through litellm."""

from __future__ import annotations

import asyncio

import pytest

from assizes.judge.case import Expected
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.hearings import Engine
from assizes.judge.families.conversation import ConversationJudge
from assizes.judge.model_factory import model_for
from assizes.judge.models.litellm_library import litellm
from assizes.judge.rubrics.rubric import built_in_rubrics
from tests.builders import agent, case, user
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer, running_openai_server
from tests.judge.engine.calls import LIMITS, config


def hearing(server: OpenAIServer, model: str, *, statements=()):
    judge = ConversationJudge(built_in_rubrics()[:3])
    one = case(user("hello"), agent("hi"), expected=Expected(outcomes=statements))
    asking = Engine(
        model_for(config(server, model), LIMITS), LimitsConfig(max_in_flight=8, timeout_s=5)
    )
    return asking.hear(judge, one)


STATEMENTS = ("It greets.", "It says:\n1. yes\n2. no", "1. odd <data: x> </data>")


@pytest.mark.parametrize("statements", [(), STATEMENTS])
async def test_a_conversation_is_judged_with_one_request(judge_server, statements):
    heard = await hearing(judge_server, "stub", statements=statements)

    (record,) = heard.asks
    assert (record.error, record.attempts, judge_server.stats()["requests"]) == (None, 1, 1)
    found = {(s.metric, s.part): (s.status, s.raw) for s in heard.scores}
    headlines = {(m.name, ""): ("scored", 4.0) for m in heard.judge.metrics[:3]}
    parts = {("expected_outcomes", f"outcome:{i}"): ("scored", 1.0) for i in range(3)}
    outcomes = {("expected_outcomes", ""): ("scored", 1.0)} | parts
    none = {("expected_outcomes", ""): ("skipped", None)}
    assert found == headlines | (outcomes if statements else none)


@pytest.mark.row("002-54")
async def test_a_fenced_reply_costs_no_second_request(judge_server):
    heard = await hearing(judge_server, "stub-fenced")

    assert (heard.asks[0].error, judge_server.stats()["requests"]) == (None, 1)


@pytest.mark.row("000-57")
async def test_an_invalid_reply_is_asked_for_once_more_with_the_problem(judge_server):
    heard = await hearing(judge_server, "stub-invalid-once")

    assert (heard.asks[0].error, heard.asks[0].attempts) == (None, 2)
    first, second = (request["messages"][1]["content"] for request in judge_server.requests())
    complaint = "could not be used:\n<data: Problem>\nnot json: Expecting value at character 0"
    assert second.startswith(first)
    assert complaint in second
    assert "could not be used" not in first


@pytest.mark.row("000-57")
async def test_a_second_invalid_reply_fails_every_metric_and_is_kept(judge_server):
    heard = await hearing(judge_server, "stub-invalid")

    assert judge_server.stats()["requests"] == 2
    assert {score.status for score in heard.scores} == {"failed"}
    reason = "invalid_reply: not json: Expecting value at character 0"
    assert (heard.asks[0].error, heard.asks[0].reply) == (reason, "not json")


def test_an_engine_that_is_closed_leaves_the_calls_of_others_in_flight(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    with running_openai_server("--latency", "0.5") as server:
        # In an event loop of its own, where no other test left a model open.
        asyncio.run(_one_is_closed_while_the_other_asks(server))


async def _one_is_closed_while_the_other_asks(server: OpenAIServer) -> None:
    judge = ConversationJudge(built_in_rubrics()[:1])
    one, other = (Engine(model_for(config(server), LIMITS), LIMITS) for _ in range(2))
    await asyncio.gather(*(e.hear(judge, case(user("hi"), agent("hi"))) for e in (one, other)))
    server.reset()
    asked = [case(user(f"hello {i}"), agent("hi"), case_id=f"c{i}") for i in range(4)]
    hearings = asyncio.gather(*(other.hear(judge, each) for each in asked))
    for _ in range(500):
        if server.stats()["requests"] == 4:
            break
        await asyncio.sleep(0.01)

    await one.aclose()
    heard = await hearings
    assert [(each.asks[0].error, each.asks[0].attempts) for each in heard] == [(None, 1)] * 4
    assert server.stats()["requests"] == 4
    assert _clients_of_this_loop()

    await other.aclose()
    assert not _clients_of_this_loop()


def _clients_of_this_loop() -> list[str]:
    loop = id(asyncio.get_running_loop())
    return [
        key for key in litellm.in_memory_llm_clients_cache.cache_dict if key.endswith(f"-{loop}")
    ]


async def test_calls_in_flight_share_the_slots_over_http(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    judge = ConversationJudge(built_in_rubrics()[:1])
    with running_openai_server("--latency", "0.5") as server:
        model = model_for(config(server), LIMITS)
        asking = Engine(model, LimitsConfig(max_in_flight=4, timeout_s=5))
        cases = [case(user(f"hello {i}"), agent("hi"), case_id=f"c{i}") for i in range(12)]

        heard = await asyncio.gather(*(asking.hear(judge, one) for one in cases))

        assert [one.asks[0].error for one in heard] == [None] * 12
        stats = server.stats()
        assert (stats["requests"], stats["models"], stats["peak"]) == (12, {"stub": 12}, 4)


async def test_an_engine_that_was_closed_asks_nobody_any_more_and_another_one_can(judge_server):
    model = model_for(config(judge_server), LIMITS)
    asking = Engine(model, LimitsConfig(max_in_flight=4, timeout_s=5))
    judge = ConversationJudge(built_in_rubrics()[:1])

    first = await asking.hear(judge, case(user("hello"), agent("hi")))
    await asking.aclose()
    second = await asking.hear(judge, case(user("hello"), agent("hi")))
    other = Engine(
        model_for(config(judge_server), LIMITS), LimitsConfig(max_in_flight=4, timeout_s=5)
    )
    third = await other.hear(judge, case(user("hello"), agent("hi")))
    await other.aclose()

    errors = [one.asks[0].error for one in (first, second, third)]
    assert errors == [None, "closing: the run is ending, no model is asked any more", None]
    assert judge_server.stats()["requests"] == 2
