"""Two ends at the same moment: a stop and a permit, a refusal and a cancellation, two failures."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager

import pytest

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine import call_gates
from assizes.judge.engine.batching import model_mark
from assizes.judge.engine.call_gates import BreakerPolicy, CircuitBreaker
from assizes.judge.engine.ledger import CachedReply, CallSpending, OpenLedger, PlannedCall
from assizes.judge.engine.limits.limits import Limiter
from assizes.judge.engine.limits.rate_limiter import LeaseBlock, LeasedRate
from assizes.judge.errors import AssizesError, LedgerBusy, ModelError, NotAsked
from assizes.judge.models.batch_lines import ProviderBatches
from assizes.judge.models.model import OFFLINE_PROVIDER, Completion, ScriptedModel
from assizes.tasks.spending.reply_cache import FileReplyCache
from tests.judge.clock import simulated
from tests.judge.engine.levels import CASE, Asking, engine, priced


class Shared:
    """One limit of requests that processes share, as this process sees it."""

    def __init__(self) -> None:
        self.leased = LeasedRate(1_000, lambda: None)
        self.wake = lambda: None

    def rate_limits(self, model, wake):
        self.wake = wake
        return self.leased, None


def test_an_ask_whose_shared_limit_cannot_be_had_says_so_and_no_call_is_made():
    shared, model = Shared(), ScriptedModel([priced(4)])
    shared.leased.fail(AssizesError("the file of leases is gone"))

    async def main():
        return await engine(model, means={"leases": shared}).hear(Asking(), CASE)

    (record,) = simulated(main()).asks
    assert record.error == "no_permit: the file of leases is gone"
    assert model.asked == []


def test_who_is_cancelled_while_the_limit_fails_leaves_no_slot_taken():
    async def main():
        shared = Shared()
        limiter = Limiter(LimitsConfig(), shared)

        async def call():
            async with limiter.admit("m", 1):
                raise AssertionError("nobody was let through")

        waiting = asyncio.create_task(call())
        await asyncio.sleep(0)
        shared.leased.fail(AssizesError("gone"))
        shared.wake()
        waiting.cancel()
        await asyncio.wait([waiting])
        return waiting.cancelled(), limiter.in_flight

    assert simulated(main()) == (True, 0)


def test_who_may_start_sooner_is_not_kept_until_the_others_may():
    async def main():
        limiter = Limiter(LimitsConfig(requests_per_minute=6))
        starts, clock = [], asyncio.get_running_loop().time

        async def call(model, after_s):
            await asyncio.sleep(after_s)
            async with limiter.admit(model, 1):
                starts.append((model, clock()))

        plan = [("b", 0), ("a", 2), ("a", 2.5), ("b", 3)]
        await asyncio.gather(*(call(*one) for one in plan))
        return starts

    (first, second, third, fourth) = simulated(main())
    assert [model for model, _ in (first, second, third, fourth)] == ["b", "a", "b", "a"]
    assert third[1] - first[1] == pytest.approx(fourth[1] - second[1], abs=0.5)


def test_what_a_call_left_over_is_used_by_the_next_ones_though_all_units_were_taken():
    leased = LeasedRate(1_000, lambda: None)
    leased.add(LeaseBlock(at=0.0, units=10, rate=10))
    leased.settle(leased.take(10, 0.0), 4)
    leased.add(LeaseBlock(at=1.0, units=10, rate=10))
    leased.take(6, 1.0)
    assert leased.ready_at(1, 1.0) == 1.0
    leased.take(1, 1.0)
    assert leased.ready_at(1, 1.0) == 1.1


def test_a_lower_limit_counts_a_large_call_as_less():
    leased = LeasedRate(1_000, lambda: None)
    leased.add(LeaseBlock(at=0.0, units=50, rate=10))
    leased.counts_at_most(20)
    assert leased.take(1_000, 0.0).cost == 20


def test_the_first_reason_to_give_up_stands():
    breaker = CircuitBreaker(BreakerPolicy(refusals=2))
    for detail in ("no key", "no key", "no such model"):
        breaker.note(ModelError("authentication", detail), probe=False)
    assert breaker.given_up_reason is not None
    assert breaker.given_up_reason.endswith("authentication: no key")


class Stopping(OpenLedger):
    """A ledger that grants a call at the very moment at which all calls are stopped."""

    def __init__(self) -> None:
        super().__init__()
        self.stop = lambda: None
        self.settled: list[CallSpending] = []

    def reserve(self, call, *, wait=True):
        self.stop()
        return 1

    def settle(self, ticket, spent):
        self.settled.append(spent)


async def test_what_was_set_aside_for_a_call_that_was_stopped_is_given_back():
    book, model = Stopping(), ScriptedModel([priced(4)])
    judging = engine(model, means={"ledger": book})
    book.stop = lambda: judging.stop("stopped", "by request")

    (record,) = (await judging.hear(Asking(), CASE)).asks

    assert record.error == "stopped: by request"
    assert book.settled == [CallSpending("stopped", 0.0)]
    assert model.asked == []


def test_stopping_twice_is_stopping_once():
    async def main():
        judging = engine(ScriptedModel([]), means={"leases": Shared()})
        hearing = asyncio.create_task(judging.hear(Asking(), CASE))
        await asyncio.sleep(0.1)
        for why in ("first", "second", "third"):
            judging.stop("stopped", why)
            await asyncio.sleep(0)
        (record,) = (await hearing).asks
        return record.error

    assert simulated(main()).startswith("stopped: ")


class Files:
    """A provider whose batch has ended, with these bytes in its file of answers."""

    model, price = "m", None

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = chunks

    async def batch(self, batch_id):
        class Ended:
            output_file_id, error_file_id = "out", None

        return Ended()

    async def content(self, file_id):
        for chunk in self.chunks:
            yield chunk


async def test_the_last_line_of_a_batch_counts_without_a_newline_behind_it():
    files = Files(b'{"custom_id": "a"}\n{"cust', b'om_id": "b"}')
    assert [key async for key, _ in ProviderBatches(files).results("x")] == ["a", "b"]


class Busy(OpenLedger):
    """A ledger that is busy the first few times."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.granted = 0

    def _wait(self) -> None:
        self.times -= 1
        if self.times >= 0:
            raise LedgerBusy("somebody else writes")

    def reserve(self, call, *, wait=True):
        self._wait()
        self.granted += 1
        return self.granted

    def claim(self, reply_key, ask_id, *, wait=True):
        self._wait()
        return super().claim(reply_key, ask_id)


async def test_a_ledger_that_others_write_to_is_waited_for_and_no_call_is_lost():
    book, model = Busy(3), ScriptedModel([priced(4)])
    heard = await engine(model, means={"ledger": book}).hear(Asking(), CASE)
    assert [score.raw for score in heard.scores] == [4]
    assert book.granted == 1


class Full(OpenLedger):
    """A ledger that grants one call and fails to settle it."""

    def __init__(self) -> None:
        super().__init__()
        self.reserved = 0

    def reserve(self, call, *, wait=True):
        if self.reserved:
            raise NotAsked("budget", "spent")
        self.reserved += 1
        return 1

    def settle(self, ticket, spent, key=None):
        raise LedgerBusy("the disk is full")


async def test_nobody_waits_for_a_call_that_could_not_be_settled():
    one = call_gates.BudgetGate(Full())
    ticket = await one.reserve(PlannedCall("a", "m", 1.0))
    waiting = asyncio.create_task(one.reserve(PlannedCall("b", "m", 1.0)))
    await asyncio.sleep(0)
    with pytest.raises(LedgerBusy, match="the disk is full"):
        one.settle(ticket, CallSpending(None, 0.0))
    async with asyncio.timeout(5):
        with pytest.raises(NotAsked, match="spent"):
            await waiting


async def test_a_ledger_that_is_never_free_is_an_error_and_a_paid_reply_is_then_charged(
    monkeypatch,
):
    monkeypatch.setattr(call_gates, "MAX_BUSY_S", 0.02)
    waiting = call_gates.BudgetGate(Busy(10**6))
    with pytest.raises(LedgerBusy, match="somebody else writes"):
        await waiting.reserve(PlannedCall("key", "m", 1.0))
    assert await waiting.claim("key", "place") is True
    free = call_gates.BudgetGate(Busy(0))
    assert (await free.claim("key", "a"), await free.claim("key", "b")) == (True, False)


class Narrow(OpenLedger):
    """A ledger with budget for one call at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.open = 0

    def reserve(self, call, *, wait=True):
        if self.open:
            raise NotAsked("budget", "all is spent")
        self.open += 1
        return 1

    def settle(self, ticket, spent):
        self.open -= 1


class Slow(ScriptedModel):
    """A model whose calls take a moment."""

    latency_s = 0.01

    async def complete(self, ask, *, complaint=None, cap=1):
        await asyncio.sleep(self.latency_s)
        return await super().complete(ask, complaint=complaint, cap=cap)


async def test_a_call_that_does_not_fit_beside_another_follows_it():
    model = Slow([priced(2), priced(1)])
    heard = await engine(model, means={"ledger": Narrow()}).hear(Asking(["a", "b"]), CASE)
    assert [score.raw for score in heard.scores] == [3]


def test_who_is_cancelled_while_the_budget_is_waited_for_gives_the_permit_back():
    async def main():
        model = Slow([priced(1), priced(2)])
        model.latency_s = 15.5
        means = {"ledger": Narrow()}
        judging = engine(model, means=means, requests_per_minute=6, timeout_s=100)
        first = asyncio.create_task(judging.hear(Asking(["a"]), CASE))
        second = asyncio.create_task(judging.hear(Asking(["b"]), CASE))
        await asyncio.sleep(15)  # the second has its permit since 10 s, the budget is in use
        second.cancel()
        await asyncio.wait([second])
        await asyncio.gather(first, judging.hear(Asking(["c"]), CASE))
        return asyncio.get_running_loop().time()

    assert simulated(main()) == pytest.approx(31, abs=0.1)


class Offline(ScriptedModel):
    """A model that calls no provider, and so has no limit and no deadline."""

    provider = OFFLINE_PROVIDER


async def test_a_model_that_calls_nobody_is_asked_again_without_a_clock():
    model = Offline(["{}", '{"score": 4}'])
    heard = await engine(model, deadline_s=10).hear(Asking(), CASE)
    assert [score.raw for score in heard.scores] == [4]
    assert len(model.asked) == 2


class OneAtATime:
    """Locks for which a process waits while `meanwhile` happens in another process."""

    def __init__(self, meanwhile) -> None:
        self.meanwhile = meanwhile

    @asynccontextmanager
    async def lock(self, key):
        await self.meanwhile(key)
        yield


@pytest.mark.parametrize("came", [True, False])
async def test_a_reply_that_another_process_got_in_the_meantime_is_not_asked_for(tmp_path, came):
    cache, model = FileReplyCache(str(tmp_path)), ScriptedModel([priced(2)])

    async def meanwhile(key):
        if came:
            await cache.store(key, CachedReply(Completion('{"score": 4}', "m", reply_id=None)))

    heard = await engine(model, cache, {"request_locks": OneAtATime(meanwhile)}).hear(
        Asking(), CASE
    )
    assert [score.raw for score in heard.scores] == [4 if came else 2]
    assert len(model.asked) == (0 if came else 1)


def test_models_of_other_parameters_have_other_marks():
    marks = {model_mark(ScriptedModel([], key)) for key in ("a", "b", None)}
    assert sorted(map(len, marks)) == [12, 12, 12]
