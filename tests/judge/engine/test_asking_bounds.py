"""Around each call: a permit, a reservation that is always settled, and the way to stop."""

from __future__ import annotations

import asyncio
import time

import pytest

from assizes.judge.config.judging import LimitsConfig, Price
from assizes.judge.engine.asking import CallControls, ModelCaller
from assizes.judge.engine.attempts import Backoff
from assizes.judge.engine.call_gates import BreakerPolicy, BudgetGate, CircuitBreaker
from assizes.judge.engine.ledger import OpenLedger
from assizes.judge.engine.limits.limits import Limiter
from assizes.judge.errors import ModelError, NotAsked
from assizes.judge.heuristic.answers import HeuristicModel
from assizes.judge.models.model import Completion, ReplayOnlyModel, ScriptedModel, UnusableReply
from assizes.judge.prompts.prompt_texts import most_sent
from assizes.judge.protocol import Ask, Prompt
from assizes.judge.score import Score
from tests.judge.clock import simulated
from tests.judge.engine.levels import (
    CASE,
    LEVEL,
    Asking,
    Reply,
    codes,
    doubts_below_3,
    engine,
    priced,
)

PRICE = Price(input_usd_per_million=1e6, output_usd_per_million=1e6)


class Priced(ScriptedModel):
    """A dollar a token; 10 tokens are sent, 100 can come back."""

    price = PRICE

    def tokens(self, ask, cap=1):
        return 10, 100 * cap


class Book(OpenLedger):
    """A ledger that grants so many calls and records every settlement."""

    def __init__(self, grants: int = 99) -> None:
        super().__init__()
        self.grants = grants
        self.lines: list[object] = []

    def reserve(self, call, *, wait=True):
        if len(self.lines) >= 2 * self.grants:
            raise NotAsked("budget", "all is spent")
        self.lines.append(call)
        return len(self.lines)

    def settle(self, ticket, spent):
        self.lines.append(spent)


def asking(replies, book, **limits):
    return engine(Priced(replies), means={"ledger": book}, **limits)


async def test_each_call_is_reserved_at_its_worst_and_settled_at_what_it_came_to():
    book = Book()
    cut = UnusableReply("truncated_output", "cut", Completion("{", "m", 9, 100, 109.0, 1.0))
    down = ModelError("unavailable", "down")
    busy = ModelError("rate_limited", "busy")

    await asking([cut, down, busy, priced(4)], book).hear(Asking(), CASE)

    reserved, settled = book.lines[::2], book.lines[1::2]
    sent = most_sent(Ask(Prompt("s", "q"), Reply), 10)
    assert [call.worst_usd for call in reserved] == [sent + 100.0, *[sent + 200.0] * 3]
    assert len({call.key for call in reserved}) == 1
    assert {call.model for call in reserved} == {"scripted/queue"}
    assert [(one.code, one.cost_usd) for one in settled] == [
        ("truncated_output", 109.0),
        ("unavailable", None),
        ("rate_limited", 0.0),
        (None, 0.25),
    ]


async def test_the_worst_case_of_a_repair_allows_for_the_complaint():
    book = Book()
    await asking(["{}", priced(4)], book).hear(Asking(), CASE)

    first, repair = (call.worst_usd for call in book.lines[::2])
    assert repair > first


async def test_a_call_whose_price_is_not_known_is_reserved_without_one():
    book = Book()
    model = Priced([priced(4)])
    model.price = None

    await engine(model, means={"ledger": book}).hear(Asking(), CASE)

    assert book.lines[0].worst_usd is None


async def test_a_call_that_is_not_granted_is_not_made():
    model = Priced(["{}", priced(4)])

    heard = await engine(model, means={"ledger": Book(grants=1)}).hear(Asking(), CASE)

    (record,) = heard.asks
    assert record.error == "budget: all is spent"
    assert (record.attempts, len(model.asked), record.reply) == (1, 1, "{}")


async def test_a_reply_that_fitted_counts_although_its_doubts_could_not_be_paid_for():
    model = Priced([priced(1), priced(4)])
    judge = Asking(doubts=doubts_below_3)

    heard = await engine(model, means={"ledger": Book(grants=1)}).hear(judge, CASE)

    assert heard.scores == [Score.of(LEVEL, 1)]
    assert (heard.asks[0].error, codes(heard.asks[0])) == (None, ["doubts"])


class Waiting(Priced):
    """Answers once its gate opens."""

    def __init__(self, replies):
        super().__init__(replies)
        self.gate = asyncio.Event()
        self.begun = asyncio.Event()

    async def complete(self, ask, *, complaint=None, cap=1):
        self.begun.set()
        await self.gate.wait()
        return await super().complete(ask, complaint=complaint, cap=cap)


async def test_a_call_that_was_cancelled_is_settled_at_an_unknown_cost():
    book, model = Book(), Waiting([])
    hearing = asyncio.create_task(engine(model, means={"ledger": book}).hear(Asking(), CASE))
    await model.begun.wait()

    hearing.cancel()
    await asyncio.wait([hearing])

    assert hearing.cancelled()
    assert [(one.code, one.cost_usd) for one in book.lines[1:]] == [("cancelled", None)]


async def test_no_slot_is_held_during_a_pause():
    model = Priced([ModelError("unavailable", "down"), priced(1), priced(2)])
    one = engine(model, means={"backoff": Backoff(0.5, 0.5)}, max_in_flight=1)
    hearings = [asyncio.create_task(one.hear(Asking([text]), CASE)) for text in ("a", "b")]

    done, _ = await asyncio.wait(hearings, return_when=asyncio.FIRST_COMPLETED)

    assert done == {hearings[1]}
    assert (await hearings[0]).scores == [Score.of(LEVEL, 2)]


@pytest.mark.parametrize("attempts", [1, 4])
async def test_a_completion_that_was_given_is_the_first_attempt(attempts):
    model = Priced([priced(4)])
    unfit = Completion("{}", "m-2025", 100, 20, 0.125, 50.0, flags=("batch",))
    given = Given(unfit)

    heard = await engine(model, means={"batch_replies": given}, max_attempts=attempts).hear(
        Asking(), CASE
    )

    (record,) = heard.asks
    if attempts == 1:
        assert (record.attempts, record.cost_usd, len(model.asked)) == (1, 0.125, 0)
        assert record.error.startswith("schema: ")
    else:
        assert codes(record) == ["schema", None]
        assert (record.error, record.cost_usd, record.flags) == (None, 0.375, ("batch",))
        assert [complaint is None for _, complaint in model.asked] == [False]


class Given(dict):
    """Batch replies that are the same for every key."""

    def __init__(self, came):
        self.came = came

    def get(self, key, default=None):
        return self.came


async def test_a_good_completion_that_was_given_needs_no_call():
    model = Priced([])

    heard = await engine(model, means={"batch_replies": Given(priced(4))}).hear(Asking(), CASE)

    assert heard.scores == [Score.of(LEVEL, 4)]
    assert (heard.asks[0].attempts, heard.asks[0].cost_usd, model.asked) == (1, 0.25, [])


async def test_a_stop_ends_pauses_at_once_and_keeps_calls_in_flight():
    model = Waiting([priced(4)])
    asking = engine(model, means={"backoff": Backoff(60, 60)}, max_in_flight=1, deadline_s=120)
    calling = asyncio.create_task(asking.hear(Asking(["in flight"]), CASE))
    await model.begun.wait()
    waiting = asyncio.create_task(asking.hear(Asking(["waits for the slot"]), CASE))
    await asyncio.sleep(0.01)

    asking.stop("halted", "someone said stop")
    started = time.monotonic()
    stopped = await waiting

    assert time.monotonic() - started < 10
    assert stopped.asks[0].error == "halted: someone said stop"
    model.gate.set()
    assert (await calling).scores == [Score.of(LEVEL, 4)]


async def test_a_stop_wakes_who_pauses_before_the_next_call():
    model = Priced([ModelError("unavailable", "down", retry_after_s=30.0), priced(4)])
    asking = engine(model, deadline_s=120)
    hearing = asyncio.create_task(asking.hear(Asking(), CASE))
    await asyncio.sleep(0.02)

    asking.stop("halted", "someone said stop")
    heard = await asyncio.wait_for(hearing, 20)

    assert (heard.asks[0].error, len(model.asked)) == ("halted: someone said stop", 1)


class Noting(Limiter):
    """Records the estimated tokens of each call."""

    def __init__(self, limits):
        super().__init__(limits)
        self.tokens: list[int] = []

    def admit(self, model, tokens, group="", place=None):
        self.tokens.append(tokens)
        return super().admit(model, tokens, group, place)


async def test_the_token_limit_expects_answers_as_long_as_those_before():
    limits = LimitsConfig()
    limiter = Noting(limits)
    bounds = CallControls(limits, limiter, BudgetGate(OpenLedger()), Backoff(0.01, 0.01))
    breaker = CircuitBreaker(BreakerPolicy())
    busy = ModelError("rate_limited", "busy")
    replies = [Completion('{"score": 1}', "m", 10, out, 0.0) for out in (40, 60)]
    questioner = ModelCaller(Priced([replies[0], busy, replies[1], priced(1)]), breaker, bounds)

    for text in "abc":
        await questioner.answer(Ask(Prompt("s", text), Reply), text)

    assert limiter.tokens == [10 + 25, 10 + 40, 10 + 40, 10 + 50]


class Timed(Priced):
    """Records each question with the time at which it was asked."""

    def __init__(self, replies):
        super().__init__(replies)
        self.at: list[tuple[str, float]] = []

    async def complete(self, ask, *, complaint=None, cap=1):
        self.at.append((ask.prompt.user, asyncio.get_running_loop().time()))
        return await super().complete(ask, complaint=complaint, cap=cap)


def test_a_call_that_is_repeated_goes_before_those_never_made():
    model = Timed([ModelError("unavailable", "down"), *[priced(1)] * 10])

    async def main():
        asking = engine(model, requests_per_minute=60)
        return await asyncio.gather(*(asking.hear(Asking([text]), CASE) for text in "abcdefghij"))

    simulated(main())
    assert [text for text, _ in model.at] == list("aabcdefghij")


@pytest.mark.parametrize(
    ("failure", "gap_s"),
    [
        (UnusableReply("refused", "no", Completion("", "m", 10, 0, 10.0)), 1),
        (ModelError("bad_request", "what?"), 0),
        (ModelError("timeout", "late"), 4),
    ],
)
def test_the_token_limit_is_told_what_failed_calls_took(failure, gap_s):
    """A call is expected to take 35 of 600 tokens a minute; the failed call took 10, none, or an
    unknown number."""
    model = Timed([failure, priced(1)])

    async def main():
        asking = engine(model, tokens_per_minute=600, max_attempts=1)
        for text in "ab":
            await asking.hear(Asking([text]), CASE)

    simulated(main())
    (_, first), (_, second) = model.at
    assert second - first == pytest.approx(gap_s, abs=0.6)


def test_whoever_waits_for_a_limit_ends_when_the_breaker_opens_for_good():
    model = Timed([ModelError("quota", "pay first")] * 3)

    async def main():
        asking = engine(model, requests_per_minute=6)
        heard = await asyncio.gather(*(asking.hear(Asking([text]), CASE) for text in "abcdefgh"))
        return heard, asyncio.get_running_loop().time()

    heard, took_s = simulated(main())
    assert [one.asks[0].error.split(":")[0] for one in heard] == ["quota"] * 3 + [
        "circuit_open"
    ] * 5
    assert took_s == pytest.approx(20, abs=1)


@pytest.mark.parametrize("hint_s", [None, 60.0])
def test_a_model_that_refuses_for_its_rate_for_good_is_given_up_after_five_minutes(hint_s):
    busy = ModelError("rate_limited", "daily limit", retry_after_s=hint_s)
    model = Timed([busy] * 1000)

    async def main():
        asking = engine(model, means={"backoff": Backoff()}, deadline_s=600.0)
        heard = await asyncio.gather(*(asking.hear(Asking([str(i)]), CASE) for i in range(100)))
        return [one.asks[0].error for one in heard], asyncio.get_running_loop().time()

    errors, took_s = simulated(main())
    assert 300 <= took_s <= 370
    last = (
        "circuit_open: no call was let through for 300 s, the last with rate_limited: daily limit"
    )
    assert errors.count(last) >= 50


@pytest.mark.parametrize("free", [HeuristicModel(), ReplayOnlyModel(Priced([]))])
async def test_a_model_that_calls_nobody_is_neither_paced_nor_counted_nor_broken(free):
    book = Book(grants=0)
    one = engine(free, means={"ledger": book}, requests_per_minute=1, tokens_per_minute=1)

    async with asyncio.timeout(5):
        heard = await asyncio.gather(*(one.hear(Asking([f"{n}"]), CASE) for n in range(20)))

    codes_seen = {(ask.error or "").split(":")[0] for each in heard for ask in each.asks}
    assert codes_seen == {"no_offline_rule" if isinstance(free, HeuristicModel) else "not_cached"}
    assert (book.lines, one.calls, one.limiter.peak) == ([], 0, 0)
