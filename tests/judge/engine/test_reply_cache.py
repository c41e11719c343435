"""Cached replies, queries, and the closing of an engine."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.hearings import Engine, EngineDependencies
from assizes.judge.errors import ModelError
from assizes.judge.heuristic.answers import HeuristicModel
from assizes.judge.models.model import Completion, ScriptedModel, UnusableReply
from assizes.judge.protocol import NoReply, Query, QueryResult, SqlTable, look_up
from assizes.judge.score import Score
from assizes.tasks.spending.reply_cache import FileReplyCache
from tests.judge.engine.engine_models import Gated, settled
from tests.judge.engine.levels import CASE, LEVEL, PAID, Asking, but, doubts_below_3, engine, priced


async def test_a_reply_paid_for_once_is_used_by_later_engines(tmp_path):
    cache = FileReplyCache(str(tmp_path))
    await engine(ScriptedModel([priced(4)]), cache).hear(Asking(), CASE)
    later = engine(ScriptedModel([]), cache)

    heard = await later.hear(Asking(), CASE)

    assert heard.scores == [Score.of(LEVEL, 4)]
    assert heard.asks == [but(PAID, cached=True, attempts=0, cost_usd=0.0, cost_source="free")]
    assert (later.calls, later.cost_usd) == (0, 0.0)


async def test_the_tokens_of_a_cached_reply_are_those_of_all_its_attempts(tmp_path):
    cache = FileReplyCache(str(tmp_path))
    paid = await engine(ScriptedModel(["{}", priced(4)]), cache).hear(Asking(), CASE)
    kept = await engine(ScriptedModel([]), cache).hear(Asking(), CASE)

    free = {"cached": True, "attempts": 0, "cost_usd": 0.0, "cost_source": "free"}
    assert kept.asks == [but(paid.asks[0], **free, waited_ms=0.0, trail=None)]


async def test_doubts_are_not_raised_again_about_a_cached_reply(tmp_path):
    cache = FileReplyCache(str(tmp_path))
    judge = Asking(doubts=doubts_below_3)
    await engine(ScriptedModel([{"score": 1}, {"score": 2}]), cache).hear(judge, CASE)

    heard = await engine(ScriptedModel([]), cache).hear(judge, CASE)

    assert heard.scores == [Score.of(LEVEL, 2)]


@pytest.mark.parametrize(
    ("replies", "doubts"),
    [
        (["not json", "not json"], None),
        ([ModelError("refused", "no")], None),
        ([UnusableReply("truncated_output", "cut", priced(4))], None),
        ([{"score": 1}, ModelError("timeout", "late")], doubts_below_3),
    ],
)
async def test_failures_and_doubts_that_were_not_cleared_up_are_not_kept(tmp_path, replies, doubts):
    cache = FileReplyCache(str(tmp_path))
    await engine(ScriptedModel(replies), cache).hear(Asking(doubts=doubts), CASE)
    later = engine(ScriptedModel([{"score": 5}]), cache)

    assert (await later.hear(Asking(doubts=doubts), CASE)).scores == [Score.of(LEVEL, 5)]
    assert later.calls == 1


async def test_a_cached_text_that_no_longer_fits_is_a_miss(tmp_path):
    cache = FileReplyCache(str(tmp_path))
    await engine(ScriptedModel([priced(4)]), cache).hear(Asking(), CASE)
    (entry,) = tmp_path.rglob("*.json")
    entry.write_text(json.dumps({"completion": {"text": "{}", "answered_by": "m"}}))

    heard = await engine(ScriptedModel([priced(3)]), cache).hear(Asking(), CASE)

    assert heard.asks == [but(PAID, reply='{"score": 3}')]
    assert json.loads(entry.read_text().partition(" ")[2])["completion"]["text"] == '{"score": 3}'


@pytest.mark.parametrize(
    ("cache_key", "user_text"),
    [("another model", "q"), ("scripted", "another question"), (None, "q")],
)
async def test_another_model_another_prompt_or_no_cache_key_is_asked_anew(
    tmp_path, cache_key, user_text
):
    cache = FileReplyCache(str(tmp_path))
    await engine(ScriptedModel([priced(4)]), cache).hear(Asking(), CASE)
    later = engine(ScriptedModel([priced(5)], cache_key), cache)

    assert (await later.hear(Asking([user_text]), CASE)).scores == [Score.of(LEVEL, 5)]


async def test_a_judge_that_does_not_ask_costs_nothing():
    asking = engine(ScriptedModel([]))

    heard = await asking.hear(Asking([]), CASE)

    assert (heard.scores, heard.asks, asking.calls) == ([Score.of(LEVEL, 0)], [], 0)


@pytest.mark.parametrize("model", [ScriptedModel([]), HeuristicModel()])
async def test_models_without_connections_are_closed_all_the_same(model):
    await engine(model).aclose()


class LookingUp(Asking):
    """A judge that runs a query and scores its result."""

    def judge(self, case):
        found = yield from look_up(Query("orders.db", ("select 1",)))
        if isinstance(found, NoReply):
            return [Score.failed("level", found.reason, found.code)]
        return [Score.of(LEVEL, found.tables[0].row_count)]


class OneRow:
    async def look_up(self, query: Query) -> QueryResult:
        return QueryResult(tuple(SqlTable(one, row_count=1) for one in query.statements))


async def test_queries_go_to_the_clerk_and_leave_no_record_of_an_ask():
    asking = Engine(
        ScriptedModel([]), LimitsConfig(max_in_flight=1), EngineDependencies(sql_runner=OneRow())
    )

    heard = await asking.hear(LookingUp(), CASE)

    assert (heard.scores, heard.asks) == ([Score.of(LEVEL, 1)], [])


async def test_a_query_without_a_clerk_is_a_no_reply():
    heard = await engine(ScriptedModel([])).hear(LookingUp(), CASE)

    assert [(one.status, one.details) for one in heard.scores] == [
        ("failed", {"error": "no_sql_runner"})
    ]


async def test_once_it_closes_no_model_is_asked_any_more():
    model = Gated([{"score": 1}, {"score": 2}])
    asking = engine(model, max_in_flight=1)
    hearings = [asyncio.create_task(asking.hear(Asking([text]), CASE)) for text in ("a", "b")]
    await settled()

    await asking.aclose()
    model.gate.set()
    first, second = await asyncio.gather(*hearings)

    assert first.scores == [Score.of(LEVEL, 1)]
    assert second.asks[0].error == "closing: the run is ending, no model is asked any more"
    assert (second.asks[0].cost_usd, len(model.asked)) == (0.0, 1)


async def test_an_answer_that_came_is_kept_although_its_hearing_was_cancelled():
    class Slow:
        def __init__(self):
            self.kept = []
            self.begun = asyncio.Event()

        async def get(self, key):
            return None

        async def store(self, key, kept):
            self.begun.set()
            await asyncio.sleep(0.05)
            self.kept.append(kept.completion)

    cache = Slow()
    asking = engine(ScriptedModel([priced(4)], "scripted"), cache)
    hearing = asyncio.create_task(asking.hear(Asking(), CASE))
    await cache.begun.wait()

    hearing.cancel()
    await asking.aclose()

    assert hearing.cancelled()
    assert cache.kept == [priced(4)]


@pytest.mark.parametrize(
    ("cost_usd", "flags", "source"),
    [
        (0.25, (), "priced"),
        (0.25, ("tokens_estimated",), "estimated"),
        (None, ("tokens_estimated",), "unknown"),
        (0.0, (), "free"),
    ],
)
async def test_rows_say_where_a_cost_comes_from_and_which_system_answered(cost_usd, flags, source):
    came = replace(priced(4), cost_usd=cost_usd, flags=flags, fingerprint="fp_1")

    heard = await engine(ScriptedModel([came])).hear(Asking(), CASE)

    (record,) = heard.asks
    assert (record.cost_usd, record.cost_source) == (cost_usd, source)
    assert (record.fingerprint, record.flags) == ("fp_1", flags)


async def test_what_was_done_to_get_and_to_read_a_reply_is_told_once_also_when_it_is_kept(tmp_path):
    cache = FileReplyCache(str(tmp_path))
    fenced = Completion('Sure: ```json\n{"score": 4}\n```', "m", 1, 1, 0.1, flags=("dropped:x",))
    first = await engine(ScriptedModel([fenced]), cache).hear(Asking(), CASE)

    later = await engine(ScriptedModel([]), cache).hear(Asking(), CASE)

    assert first.asks[0].flags == ("dropped:x", "repaired")
    assert later.asks[0].flags == ("dropped:x", "repaired")


async def test_a_model_is_silent_until_it_answers_if_only_to_refuse():
    down = ModelError("unavailable", "down")
    asking = engine(ScriptedModel([down, ModelError("refused", "no")]), max_attempts=1)
    assert asking.silent_models == frozenset()

    await asking.hear(Asking(), CASE)
    assert asking.silent_models == {"scripted/queue"}

    await asking.hear(Asking(), CASE)
    assert asking.silent_models == frozenset()


async def test_what_was_called_for_twice_is_charged_twice_although_nothing_is_kept():
    model = ScriptedModel([priced(4), priced(4)])
    model.cache_key = "kept nowhere"
    asking = engine(model)

    heard = [
        await asking.hear(Asking(), CASE.model_copy(update={"repetition": number}))
        for number in (1, 2)
    ]

    (first,), (second,) = (one.asks for one in heard)
    assert [(one.cost_usd, one.cached, one.attempts) for one in (first, second)] == [
        (0.25, False, 1)
    ] * 2
    assert asking.cost_usd == 0.5


async def test_when_one_call_raises_its_siblings_are_not_left_running():
    class Mixed(ScriptedModel):
        ended = False

        async def complete(self, ask, *, complaint=None, cap=1):
            if ask.prompt.user == "bug":
                raise KeyError("missing")
            await asyncio.sleep(0.05)
            self.ended = True
            return priced(4)

    model = Mixed([])
    with pytest.raises(KeyError, match="missing"):
        await engine(model).hear(Asking(["bug", "fine"]), CASE)
    assert model.ended
