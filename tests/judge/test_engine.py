"""The engine: what is asked, how often, at what price, and what is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from judge.engine import AskRecord, Engine
from judge.errors import ModelError
from judge.llm import Completion, UnusableReply
from judge.protocol import Ask, NoReply, Prompt, ask, ask_each
from judge.score import Metric, Scale, Score
from judge.scripted import Scripted
from tasks.replies import FileReplies
from tests.builders import agent, case, user

LEVEL = Metric("level", scale=Scale.SCORED)
CASE = case(user("hello"), agent("hi"))


class Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")

    score: int


class Asking:
    """Asks rounds of questions, each given by its text; scores the sum of the replies."""

    name = "asking"
    version = "1"
    metrics = (LEVEL,)

    def __init__(self, *rounds: Sequence[str], doubts: Any = None) -> None:
        self.rounds = rounds or (["q"],)
        self.doubts = doubts

    def missing(self, case):
        return None

    def judge(self, case):
        total = 0
        for texts in self.rounds:
            asks = [Ask(Prompt("s", text), Reply, doubts=self.doubts) for text in texts]
            for reply in (yield from ask_each(asks)):
                if isinstance(reply, NoReply):
                    return [Score.failed("level", reply.reason, reply.code, raw=reply.raw)]
                total += reply.score
        return [Score.of(LEVEL, total)]


def engine(model, cache=None, *, max_in_flight=8, timeout_s=5.0):
    return Engine(model, cache, max_in_flight=max_in_flight, timeout_s=timeout_s)


def priced(score: int, cost_usd: float | None = 0.25) -> Completion:
    return Completion(json.dumps({"score": score}), "m-2025", 100, 20, cost_usd, latency_ms=50.0)


HASH = Ask(Prompt("s", "q"), Reply).prompt_hash()
PAID = AskRecord(
    judge="asking",
    round=0,
    index=0,
    model="scripted/queue",
    provider="scripted",
    answered_by="m-2025",
    prompt_hash=HASH,
    cached=False,
    attempts=1,
    input_tokens=100,
    output_tokens=20,
    cost_usd=0.25,
    latency_ms=50.0,
    error=None,
    reply='{"score": 4}',
)


def but(record: AskRecord, **fields: Any) -> AskRecord:
    return AskRecord(**{name: getattr(record, name) for name in record.__slots__} | fields)


def doubts_below_3(reply: Reply) -> str | None:
    return "score is too low" if reply.score < 3 else None


@pytest.mark.row("000-62")
async def test_every_ask_leaves_a_record_of_who_answered_what_at_which_price():
    scripted = engine(Scripted([priced(4)]))
    judge = Asking()

    heard = await scripted.hear(judge, CASE)

    assert heard.judge is judge
    assert heard.scores == [Score.of(LEVEL, 4)]
    assert heard.asks == [PAID]
    assert (scripted.calls, scripted.cost_usd) == (1, 0.25)


async def test_rounds_and_places_are_counted_from_0_and_answers_keep_their_places():
    def answer(one: Ask[Any]) -> dict[str, int]:
        return {"score": int(one.prompt.user)}

    scripted = engine(Scripted([answer] * 3))

    heard = await scripted.hear(Asking(["1", "2"], ["0"]), CASE)

    assert heard.scores == [Score.of(LEVEL, 3)]
    assert [(a.round, a.index, a.reply) for a in heard.asks] == [
        (0, 0, '{"score": 1}'),
        (0, 1, '{"score": 2}'),
        (1, 0, '{"score": 0}'),
    ]


@pytest.mark.row("000-57")
async def test_not_json_twice_is_no_reply_and_the_raw_text_is_kept():
    model = Scripted(["not json", Completion("not json either", "m", 1, 2, 0.5, 3.0)])

    heard = await engine(model).hear(Asking(), CASE)

    reason = "not json: Expecting value at character 0"
    assert heard.scores == [
        Score.failed("level", reason, "invalid_reply", raw="not json either"),
    ]
    assert heard.asks == [
        but(
            PAID,
            answered_by="m",
            attempts=2,
            input_tokens=11,
            output_tokens=7,
            cost_usd=0.5,
            latency_ms=4.0,
            error=f"invalid_reply: {reason}",
            reply="not json either",
        )
    ]


@pytest.mark.row("000-55", "000-56")
@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ("{}", "score: Field required"),
        ('{"score": 4, "mood": 1}', "mood: Extra inputs are not permitted"),
    ],
)
async def test_a_reply_that_does_not_fit_is_asked_for_once_more_with_the_problem(wrong, complaint):
    model = Scripted([wrong, priced(4)])
    asking = engine(model)

    heard = await asking.hear(Asking(), CASE)

    assert [said for _, said in model.asked] == [None, complaint]
    assert heard.scores == [Score.of(LEVEL, 4)]
    assert heard.asks == [
        but(PAID, attempts=2, input_tokens=110, output_tokens=25, latency_ms=51.0)
    ]
    assert asking.calls == 2


@pytest.mark.row("000-56")
async def test_what_is_still_missing_after_the_re_ask_is_named_in_the_failure():
    heard = await engine(Scripted(["{}", "{}", priced(4)])).hear(Asking(), CASE)

    assert heard.scores == [
        Score.failed("level", "score: Field required", "invalid_reply", raw="{}")
    ]
    assert heard.asks[0].attempts == 2


@pytest.mark.parametrize(
    ("replies", "score", "attempts"),
    [
        ([{"score": 4}], 4, 1),
        ([{"score": 1}, {"score": 5}], 5, 2),
        ([{"score": 1}, {"score": 2}, {"score": 5}], 2, 2),
        ([{"score": 1}, "not json", {"score": 5}], 1, 2),
        ([{"score": 1}, ModelError("timeout", "late"), {"score": 5}], 1, 2),
    ],
)
async def test_doubts_are_put_once_and_a_reply_that_fitted_is_never_lost(replies, score, attempts):
    model = Scripted(replies)

    heard = await engine(model).hear(Asking(doubts=doubts_below_3), CASE)

    complaints = [None, "score is too low"][:attempts]
    assert [said for _, said in model.asked] == complaints
    assert heard.scores == [Score.of(LEVEL, score)]
    assert (heard.asks[0].attempts, heard.asks[0].error) == (attempts, None)
    assert heard.asks[0].reply == json.dumps({"score": score})


@pytest.mark.parametrize("replies", [["{}", priced(4, None)], [priced(1, None), priced(4)]])
async def test_a_price_unknown_for_one_attempt_is_unknown_for_the_ask(replies):
    asking = engine(Scripted(replies))

    heard = await asking.hear(Asking(doubts=doubts_below_3), CASE)

    assert (heard.asks[0].attempts, heard.asks[0].cost_usd) == (2, None)


async def test_a_model_error_is_not_asked_again_and_its_cost_is_not_known():
    model = Scripted([ModelError("rate_limited", "slow down"), priced(4)])

    heard = await engine(model).hear(Asking(), CASE)

    assert heard.scores == [Score.failed("level", "slow down", "rate_limited", raw="")]
    latency_ms = heard.asks[0].latency_ms
    assert 0 <= latency_ms < 1000
    assert heard.asks == [
        but(
            PAID,
            answered_by=None,
            input_tokens=None,
            output_tokens=None,
            cost_usd=None,
            latency_ms=latency_ms,
            error="rate_limited: slow down",
            reply=None,
        )
    ]


async def test_an_unusable_answer_was_paid_for_all_the_same():
    cut = UnusableReply("truncated_output", "cut off", priced(4))
    asking = engine(Scripted([cut]))

    heard = await asking.hear(Asking(), CASE)

    assert heard.asks == [but(PAID, error="truncated_output: cut off")]
    assert asking.cost_usd == 0.25


async def test_a_failed_ask_leaves_the_others_of_its_round_alone():
    class Lenient(Asking):
        def judge(self, case):
            replies = yield from ask_each([Ask(Prompt("s", t), Reply) for t in "abc"])
            return [Score.of(LEVEL, sum(isinstance(reply, Reply) for reply in replies))]

    model = Scripted([{"score": 1}, ModelError("refused", "no"), {"score": 1}])

    heard = await engine(model).hear(Lenient(), CASE)

    assert heard.scores == [Score.of(LEVEL, 2)]
    assert [record.error for record in heard.asks] == [None, "refused: no", None]


async def test_an_exception_nobody_meant_to_raise_passes_through():
    def bug(one: Ask[Any]) -> str:
        return {}["missing"]

    with pytest.raises(KeyError, match="missing"):
        await engine(Scripted([bug])).hear(Asking(), CASE)


async def test_lone_surrogates_never_reach_the_rows():
    heard = await engine(Scripted(["\ud800", "x\udfff"])).hear(Asking(), CASE)

    assert heard.asks[0].reply == "x\ufffd"
    heard.asks[0].reply.encode()


class Gated(Scripted):
    """Answers only when the gate is opened; counts who waits."""

    def __init__(self, replies, cache_key="gated"):
        super().__init__(replies, cache_key)
        self.gate = asyncio.Event()
        self.waiting = 0

    async def complete(self, ask, *, complaint=None):
        self.waiting += 1
        await self.gate.wait()
        self.waiting -= 1
        return await super().complete(ask, complaint=complaint)


async def settled() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def hears(asking: Engine, count: int) -> list[Any]:
    return [asking.hear(Asking(), CASE) for _ in range(count)]


async def test_one_slot_pool_holds_for_all_hearings_together():
    model = Gated([{"score": 1}] * 12)
    asking = engine(model, max_in_flight=5)
    hearings = [
        asyncio.create_task(asking.hear(Asking([f"{i}-{j}" for j in range(3)]), CASE))
        for i in range(4)
    ]
    await settled()

    assert model.waiting == 5
    model.gate.set()
    heard = await asyncio.gather(*hearings)

    assert [one.scores for one in heard] == [[Score.of(LEVEL, 3)]] * 4
    assert (asking.slots.peak, asking.slots.in_flight, asking.calls) == (5, 0, 12)


async def test_identical_asks_in_flight_are_answered_once():
    model = Gated([priced(4)])
    asking = engine(model)
    hearings = asyncio.gather(*hears(asking, 3))
    await settled()
    model.gate.set()

    heard = await hearings

    shared = but(PAID, cached=True, attempts=0, cost_usd=0.0)
    assert [one.asks for one in heard] == [[PAID], [shared], [shared]]
    assert [one.scores for one in heard] == [[Score.of(LEVEL, 4)]] * 3
    assert asking.calls == 1


async def test_a_failure_in_flight_is_shared_but_not_called_cached():
    model = Gated([ModelError("refused", "no")])
    hearings = asyncio.gather(*hears(engine(model), 2))
    await settled()
    model.gate.set()

    first, second = await hearings

    assert [first.asks[0].error, second.asks[0].error] == ["refused: no"] * 2
    assert [first.asks[0].attempts, second.asks[0].attempts] == [1, 0]
    assert not second.asks[0].cached


async def test_when_the_asking_hearing_is_cancelled_another_asks_in_its_place():
    model = Gated([priced(4)])
    first, second = map(asyncio.create_task, hears(engine(model), 2))
    await settled()

    first.cancel()
    await settled()
    model.gate.set()

    assert (await second).asks == [PAID]
    assert first.cancelled()


async def test_a_cancelled_follower_leaves_the_asking_hearing_alone():
    model = Gated([priced(4)])
    first, second = map(asyncio.create_task, hears(engine(model), 2))
    await settled()

    second.cancel()
    await settled()
    model.gate.set()

    assert (await first).asks == [PAID]


async def test_a_call_is_cut_at_its_deadline():
    asking = engine(Gated([]), timeout_s=0.05)

    heard = await asyncio.wait_for(asking.hear(Asking(), CASE), 1)

    assert heard.scores == [Score.failed("level", "no answer within 0.05 s", "timeout", raw="")]
    assert heard.asks[0].error == "timeout: no answer within 0.05 s"
    assert heard.asks[0].latency_ms >= 50
    assert asking.slots.in_flight == 0


async def test_waiting_for_a_slot_does_not_count_against_the_deadline():
    async def slowly(asking, text):
        return await asking.hear(Asking([text]), CASE)

    class Slow(Scripted):
        async def complete(self, ask, *, complaint=None):
            await asyncio.sleep(0.2)
            return await super().complete(ask, complaint=complaint)

    asking = engine(Slow([{"score": 1}] * 4), max_in_flight=1, timeout_s=0.5)

    heard = await asyncio.gather(*(slowly(asking, str(i)) for i in range(4)))

    assert [one.asks[0].error for one in heard] == [None] * 4


async def test_a_reply_paid_for_once_is_used_by_later_engines(tmp_path):
    cache = FileReplies(str(tmp_path))
    await engine(Scripted([priced(4)]), cache).hear(Asking(), CASE)
    later = engine(Scripted([]), cache)

    heard = await later.hear(Asking(), CASE)

    assert heard.scores == [Score.of(LEVEL, 4)]
    assert heard.asks == [but(PAID, cached=True, attempts=0, cost_usd=0.0)]
    assert (later.calls, later.cost_usd) == (0, 0.0)


async def test_the_tokens_of_a_cached_reply_are_those_of_all_its_attempts(tmp_path):
    cache = FileReplies(str(tmp_path))
    paid = await engine(Scripted(["{}", priced(4)]), cache).hear(Asking(), CASE)
    kept = await engine(Scripted([]), cache).hear(Asking(), CASE)

    assert kept.asks == [but(paid.asks[0], cached=True, attempts=0, cost_usd=0.0)]


async def test_doubts_are_not_raised_again_about_a_cached_reply(tmp_path):
    cache = FileReplies(str(tmp_path))
    judge = Asking(doubts=doubts_below_3)
    await engine(Scripted([{"score": 1}, {"score": 2}]), cache).hear(judge, CASE)

    heard = await engine(Scripted([]), cache).hear(judge, CASE)

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
    cache = FileReplies(str(tmp_path))
    await engine(Scripted(replies), cache).hear(Asking(doubts=doubts), CASE)
    later = engine(Scripted([{"score": 5}]), cache)

    assert (await later.hear(Asking(doubts=doubts), CASE)).scores == [Score.of(LEVEL, 5)]
    assert later.calls == 1


async def test_a_cached_text_that_no_longer_fits_is_a_miss(tmp_path):
    cache = FileReplies(str(tmp_path))
    await engine(Scripted([priced(4)]), cache).hear(Asking(), CASE)
    (entry,) = tmp_path.rglob("*.json")
    entry.write_text(json.dumps({"text": "{}", "answered_by": "m"}))

    heard = await engine(Scripted([priced(3)]), cache).hear(Asking(), CASE)

    assert heard.asks == [but(PAID, reply='{"score": 3}')]
    assert json.loads(entry.read_text())["text"] == '{"score": 3}'


@pytest.mark.parametrize(
    ("cache_key", "user_text"),
    [("another model", "q"), ("scripted", "another question"), (None, "q")],
)
async def test_another_model_another_prompt_or_no_cache_key_is_asked_anew(
    tmp_path, cache_key, user_text
):
    cache = FileReplies(str(tmp_path))
    await engine(Scripted([priced(4)]), cache).hear(Asking(), CASE)
    later = engine(Scripted([priced(5)], cache_key), cache)

    assert (await later.hear(Asking([user_text]), CASE)).scores == [Score.of(LEVEL, 5)]


async def test_a_judge_that_does_not_ask_costs_nothing():
    asking = engine(Scripted([]))

    heard = await asking.hear(Asking([]), CASE)

    assert (heard.scores, heard.asks, asking.calls) == ([Score.of(LEVEL, 0)], [], 0)


async def test_one_question_in_a_line_raises_inside_the_judge_when_no_reply_comes():
    class OneQuestion(Asking):
        def judge(self, case):
            reply = yield from ask(Prompt("s", "q"), Reply)
            return [Score.of(LEVEL, reply.score)]

    model = Scripted([{"score": 2}, ModelError("refused", "no")])
    asking = engine(model)

    assert (await asking.hear(OneQuestion(), CASE)).scores == [Score.of(LEVEL, 2)]
    failed = await asking.hear(OneQuestion(), CASE)
    assert failed.scores == [Score.failed("level", "no", "refused")]
