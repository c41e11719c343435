"""Ends that meet: a stop with a permit, a refusal with a cancellation, a doom with a doom."""

from __future__ import annotations

import asyncio

from judge.batch_lines import ProviderBatches
from judge.breaker import Breaker, Trip
from judge.config import LimitsConfig
from judge.errors import AssizesError, ModelError
from judge.ledger import OpenLedger, Spent
from judge.limits import Limiter
from judge.pacing import Block, Leased
from judge.scripted import Scripted
from tests.judge.clock import simulated
from tests.judge.levels import CASE, Asking, engine, priced


class Shared:
    """One limit of requests that processes share, as this process sees it."""

    def __init__(self) -> None:
        self.leased = Leased(1_000, lambda: None)
        self.wake = lambda: None

    def paces(self, model, wake):
        self.wake = wake
        return self.leased, None


def test_an_ask_whose_shared_limit_cannot_be_had_says_so_and_no_call_is_made():
    shared, model = Shared(), Scripted([priced(4)])
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
            async with limiter.admitted("m", 1):
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
        starts = []

        async def call(model):
            async with limiter.admitted(model, 1):
                starts.append((model, asyncio.get_running_loop().time()))

        first = [asyncio.create_task(call(model)) for model in "aa"]
        await asyncio.sleep(5)
        other = [asyncio.create_task(call("b")) for _ in range(2)]
        last = asyncio.create_task(call("a"))
        await asyncio.gather(*first, *other, last)
        return starts

    starts = simulated(main())
    assert [model for model, _ in starts] == ["a", "b", "a", "b", "a"]
    assert starts == sorted(starts, key=lambda one: one[1])


def test_what_a_call_left_over_is_used_by_the_next_ones_though_all_units_were_taken():
    leased = Leased(1_000, lambda: None)
    leased.add(Block(at=0.0, units=10, rate=10))
    leased.settle(leased.take(10, 0.0), 4)
    leased.add(Block(at=1.0, units=10, rate=10))
    leased.take(6, 1.0)
    assert leased.ready_at(1, 1.0) == 1.0
    leased.take(1, 1.0)
    assert leased.ready_at(1, 1.0) == 1.1


def test_a_lower_limit_counts_a_large_call_as_less():
    leased = Leased(1_000, lambda: None)
    leased.add(Block(at=0.0, units=50, rate=10))
    leased.counts_at_most(20)
    assert leased.take(1_000, 0.0).cost == 20


def test_the_first_reason_to_give_up_stands():
    breaker = Breaker(Trip(refusals=2))
    for detail in ("no key", "no key", "no such model"):
        breaker.note(ModelError("authentication", detail), probe=False)
    assert breaker.given_up is not None
    assert breaker.given_up.endswith("authentication: no key")


class Stopping(OpenLedger):
    """Grants a call at the very moment at which somebody stops all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.stop = lambda: None
        self.settled: list[Spent] = []

    def reserve(self, call, *, wait=True):
        self.stop()
        return 1

    def settle(self, ticket, spent):
        self.settled.append(spent)


async def test_what_was_set_aside_for_a_call_that_was_stopped_is_given_back():
    book, model = Stopping(), Scripted([priced(4)])
    judging = engine(model, means={"ledger": book})
    book.stop = lambda: judging.stop("stopped", "by request")

    (record,) = (await judging.hear(Asking(), CASE)).asks

    assert record.error == "stopped: by request"
    assert book.settled == [Spent("stopped", 0.0)]
    assert model.asked == []


def test_stopping_twice_is_stopping_once():
    async def main():
        judging = engine(Scripted([]), means={"leases": Shared()})
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
