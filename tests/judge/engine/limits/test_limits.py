"""Slots, queues and permits: which call may start, and when."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.limits.limits import MAX_PLACES_OVERTAKEN, Limiter, Permit
from assizes.judge.engine.limits.rate_limiter import USED_SHARE, LeaseBlock, LeasedRate, RateLimit
from assizes.judge.errors import ConfigurationError
from tests.judge.clock import simulated


def limiter(slots: int = 64, **limits: int) -> Limiter:
    return Limiter(LimitsConfig(max_in_flight=slots, **limits))


@dataclass
class Calls:
    """The start times of calls that all take the same time."""

    limiter: Limiter
    latency_s: float = 1.0
    starts: list[tuple[float, str]] = field(default_factory=list)
    permits: list[Permit] = field(default_factory=list)

    async def call(self, model: str = "a", tokens: int = 0, group: str = "") -> None:
        async with self.limiter.admit(model, tokens, group) as permit:
            self.starts.append((asyncio.get_running_loop().time(), group or model))
            self.permits.append(permit)
            await asyncio.sleep(self.latency_s)

    async def all(self, count: int, *args: Any) -> list[float]:
        await asyncio.gather(*(self.call(*args) for _ in range(count)))
        return [at for at, _ in self.starts]


def test_no_more_calls_are_in_flight_than_slots_whatever_the_model():
    async def main() -> tuple[list[float], int, int]:
        calls = Calls(limiter(3))
        await asyncio.gather(*(calls.call(model) for model in "ababababa"))
        return [at for at, _ in calls.starts], calls.limiter.peak, calls.limiter.in_flight

    times, peak, in_flight = simulated(main())
    assert [int(at) for at in times] == [0] * 3 + [1] * 3 + [2] * 3
    assert (peak, in_flight) == (3, 0)


def test_a_minute_of_requests_starts_evenly_and_without_a_burst():
    times = simulated(Calls(limiter(requests_per_minute=600)).all(100))
    assert times[0] == 0.0
    assert times[-1] == pytest.approx(99 * 0.1 / USED_SHARE)
    assert max(b - a for a, b in pairwise(times)) < 0.11


def test_each_model_has_limits_of_its_own():
    async def main() -> list[tuple[float, str]]:
        calls = Calls(limiter(requests_per_minute=60))
        await asyncio.gather(*(calls.call(model) for model in "aabb"))
        return calls.starts

    assert simulated(main()) == [
        (0.0, "a"),
        (0.0, "b"),
        (pytest.approx(1 / USED_SHARE), "a"),
        (pytest.approx(1 / USED_SHARE), "b"),
    ]


def test_a_model_that_waits_for_its_limit_holds_no_slot():
    async def main() -> list[tuple[float, str]]:
        calls = Calls(limiter(1, requests_per_minute=30))
        slow = asyncio.gather(calls.call("a"), calls.call("a"))
        await asyncio.sleep(0.5)
        await asyncio.gather(slow, calls.call("b"))
        return calls.starts

    assert [who for _, who in simulated(main())] == ["a", "b", "a"]


def test_tokens_are_charged_as_estimated_until_it_is_known_what_a_call_took():
    async def main(known: Callable[[Permit], None]) -> float:
        calls = Calls(limiter(tokens_per_minute=6_000), latency_s=0.0)
        await calls.call("a", 600)
        known(calls.permits[0])
        await calls.call("a", 600)
        return calls.starts[1][0]

    second = 1 / USED_SHARE
    assert simulated(main(lambda permit: None)) == pytest.approx(6 * second)
    assert simulated(main(lambda permit: permit.settle(None))) == pytest.approx(6 * second)
    assert simulated(main(lambda permit: permit.settle(100))) == pytest.approx(second)
    assert simulated(main(lambda permit: permit.settle(1_200))) == pytest.approx(12 * second)


def test_a_permit_that_is_not_used_leaves_its_place_to_the_next():
    async def main() -> float:
        calls = Calls(limiter(requests_per_minute=6), latency_s=0.0)
        await calls.call()
        calls.permits[0].cancel()
        await calls.call()
        return calls.starts[1][0]

    assert simulated(main()) == pytest.approx(0.0)


def test_who_comes_first_starts_first():
    async def main() -> list[str]:
        calls = Calls(limiter(2, requests_per_minute=600))
        tasks = []
        for number in range(30):
            tasks.append(asyncio.create_task(calls.call(group=f"{number}")))
            await asyncio.sleep(0.01)
        await asyncio.gather(*tasks)
        return [group for _, group in calls.starts]

    assert simulated(main()) == [str(number) for number in range(30)]


def changes(names: list[str]) -> int:
    return sum(1 for a, b in pairwise(names) if a != b)


async def started(groups: list[str]) -> list[str]:
    """The order in which calls start that all came at the same time, in this order."""
    calls = Calls(limiter(1))
    await asyncio.gather(*(calls.call(group=group) for group in groups))
    return [group for _, group in calls.starts]


def test_calls_of_a_group_follow_one_another():
    came = ["safety", "tone", "facts"] * 20
    order = simulated(started(came))
    assert sorted(order) == sorted(came)
    assert changes(came) == 59
    assert changes(order) == 2


def test_nobody_is_overtaken_by_more_than_a_few():
    came = ["rare"] + ["common"] * 300 + ["rare"] * 2
    order = simulated(started(["common", *came]))
    assert order.index("rare") <= MAX_PLACES_OVERTAKEN + 1
    # The two last calls came too long after the oldest one to follow their own group.
    assert order[-2:] == ["rare", "rare"]


@pytest.mark.parametrize("seed", range(5))
def test_each_is_overtaken_by_at_most_so_many_whatever_the_groups(seed: int):
    import random

    came = [f"{random.Random(f'{seed}{n}').choice('abcdefg')}" for n in range(500)]

    async def main() -> list[int]:
        order: list[int] = []
        one = limiter(1)

        async def call(number: int) -> None:
            async with one.admit("m", 0, came[number]):
                order.append(number)
                await asyncio.sleep(1)

        await asyncio.gather(*(call(number) for number in range(len(came))))
        return order

    order = simulated(main())
    overtaken = [
        sum(1 for other in order[:place] if other > number) for place, number in enumerate(order)
    ]
    assert max(overtaken) <= MAX_PLACES_OVERTAKEN
    assert changes([came[number] for number in order]) < changes(came) / 3


def test_who_is_cancelled_in_line_is_not_missed():
    async def main() -> tuple[list[str], int]:
        calls = Calls(limiter(1, requests_per_minute=60))
        tasks = [asyncio.create_task(calls.call(group=name)) for name in "abcd"]
        await asyncio.sleep(0.5)
        tasks[1].cancel()
        tasks[2].cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(one) for one in ended[1:3]] == [asyncio.CancelledError] * 2
        return [f"{group}{at:.1f}" for at, group in calls.starts], calls.limiter.in_flight

    assert simulated(main()) == (["a0.0", "d1.0"], 0)


def test_who_is_cancelled_when_the_turn_has_just_come_gives_slot_and_place_back():
    async def main() -> tuple[list[tuple[float, str]], int]:
        calls = Calls(limiter(1, requests_per_minute=60), latency_s=0.0)
        async with calls.limiter.admit("a", 0):
            first = asyncio.create_task(calls.call("a", 0, "first"))
            second = asyncio.create_task(calls.call("a", 0, "second"))
            await asyncio.sleep(2)
        # The first call is admitted now, but its task has not run yet.
        assert calls.limiter.in_flight == 1
        first.cancel()
        await asyncio.gather(first, second, return_exceptions=True)
        return calls.starts, calls.limiter.in_flight

    assert simulated(main()) == ([(2.0, "second")], 0)


def test_all_waiting_is_called_off_and_the_next_one_starts_as_if_they_had_never_come():
    async def main() -> tuple[float, int]:
        calls = Calls(limiter(4, requests_per_minute=60))
        tasks = [asyncio.create_task(calls.call()) for _ in range(50)]
        await asyncio.sleep(0.2)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(1.5)
        before = asyncio.get_running_loop().time()
        await calls.call()
        return calls.starts[-1][0] - before, calls.limiter.in_flight

    assert simulated(main()) == (0.0, 0)


def test_ten_thousand_who_wait_share_one_timer():
    async def main() -> tuple[int, int, float, int]:
        one = limiter(10_000, requests_per_minute=2)
        loop = asyncio.get_running_loop()
        tasks = [asyncio.create_task(Calls(one).call()) for _ in range(10_000)]
        await asyncio.sleep(0)
        began = loop.time()
        await asyncio.sleep(0)
        timers, in_flight = len(loop._scheduled), one.in_flight
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return timers, in_flight, loop.time() - began, one.in_flight

    # A loop of its own: another test's leftover connections have timers too.
    timers, in_flight, duration_s, in_flight_after = asyncio.run(main())

    # One timer of the limiter, one of the call that sleeps in its slot.
    assert timers <= 2
    assert (in_flight, in_flight_after) == (1, 0)
    assert duration_s < 60


def test_a_refusal_holds_its_model_and_no_other():
    async def main() -> list[tuple[float, str]]:
        calls = Calls(limiter(4), latency_s=0.1)
        await calls.call("a")
        calls.permits[0].report_refusal(5.0)
        await asyncio.gather(calls.call("a"), calls.call("b"), calls.call("a"))
        return calls.starts

    starts = simulated(main())
    assert starts[1] == (0.1, "b")
    assert [at for at, who in starts if who == "a"][1] == pytest.approx(5.1)


def test_a_refusal_paces_a_model_that_has_no_limit_below_what_was_let_through():
    async def main() -> list[float]:
        calls = Calls(limiter(10), latency_s=0.1)
        await calls.all(100)
        calls.permits[-1].report_refusal(0.0)
        await calls.all(20)
        return [at for at, _ in calls.starts[100:]]

    times = simulated(main())
    # 99 calls in a little more than a second, and 0.95 of that rate.
    assert times[-1] - times[0] == pytest.approx(19 / (0.95 * 99), rel=0.2)


def test_permits_that_are_not_used_are_no_calls_that_the_provider_let_through():
    async def main() -> list[float]:
        calls = Calls(limiter(10), latency_s=0.1)
        await calls.all(100)
        for permit in calls.permits[:-1]:
            permit.cancel()
        calls.permits[-1].report_refusal(0.0)
        await calls.all(3)
        return [at for at, _ in calls.starts[100:]]

    times = simulated(main())
    # Nothing is known about the rate: a call a second at first, which doubles in a second.
    assert times[-1] - times[0] > 1


class Block60:
    """Leases that give the first 60 requests at 10 a second, then say that the limit is gone."""

    def __init__(self) -> None:
        self.left = 6

    def rate_limits(
        self, model: str, wake: Callable[[], None]
    ) -> tuple[RateLimit | None, RateLimit | None]:
        loop = asyncio.get_running_loop()

        def give() -> None:
            if self.left:
                leased.add(LeaseBlock(at=loop.time(), units=10, rate=10))
                self.left -= 1
            else:
                leased.fail(ConfigurationError("the limit is gone"))
            wake()

        leased = LeasedRate(600, lambda: loop.call_later(0.05, give) and None)
        return leased, None


def test_a_shared_limit_is_kept_beside_the_slots_and_its_end_reaches_whoever_waits():
    async def main() -> tuple[list[Any], Limiter]:
        one = Limiter(LimitsConfig(max_in_flight=5), Block60())
        calls = Calls(one, latency_s=0.01)
        return await asyncio.gather(*(calls.call() for _ in range(99)), return_exceptions=True), one

    ended, one = simulated(main())
    failed = [outcome for outcome in ended if outcome is not None]
    assert 39 <= len(failed) < 99
    assert {type(outcome) for outcome in failed} == {ConfigurationError}
    assert (one.in_flight, one.peak) == (0, 1)


def test_the_end_of_a_shared_limit_is_not_told_to_who_was_cancelled_just_before():
    leased = LeasedRate(600, lambda: None)

    class Leases:
        def rate_limits(
            self, model: str, wake: Callable[[], None]
        ) -> tuple[RateLimit | None, RateLimit | None]:
            self.wake = wake
            return leased, None

    async def main() -> list[Any]:
        leases = Leases()
        one = Limiter(LimitsConfig(max_in_flight=5), leases)
        waiting = [asyncio.ensure_future(Calls(one).call()) for _ in range(3)]
        await asyncio.sleep(0.1)
        waiting[1].cancel()
        leased.fail(ConfigurationError("the limit is gone"))
        leases.wake()
        return await asyncio.gather(*waiting, return_exceptions=True)

    kinds = [type(outcome) for outcome in simulated(main())]
    assert kinds == [ConfigurationError, asyncio.CancelledError, ConfigurationError]


def test_a_call_that_fails_gives_its_slot_back():
    async def fails(one: Limiter) -> None:
        async with one.admit("a", 0):
            raise ConnectionResetError

    async def main() -> int:
        one = limiter(1)
        for _ in range(3):
            with pytest.raises(ConnectionResetError):
                await fails(one)
        return one.in_flight

    coroutine: Coroutine[Any, Any, int] = main()
    assert simulated(coroutine) == 0


def test_who_had_a_permit_before_goes_before_all_who_had_none_eldest_first():
    async def main() -> list[str]:
        one, order = limiter(1), []

        async def call(name: str, group: str, place: int | None = None) -> int:
            async with one.admit("a", 0, group, place) as permit:
                order.append(name)
                await asyncio.sleep(1)
            return permit.place

        first, second = [await call(name, "g") for name in ("first", "second")]
        fresh = [call(f"fresh {i}", "gh"[i % 2]) for i in range(3)]
        await asyncio.gather(*fresh, call("second", "h", second), call("first", "h", first))
        assert one.in_flight == 0
        return order[2:]

    # The first call that is no retry found the slot free; its group goes on before later groups.
    assert simulated(main()) == ["fresh 0", "first", "second", "fresh 2", "fresh 1"]


def test_who_waits_again_can_be_cancelled_and_come_again():
    async def main() -> tuple[float, int]:
        one = limiter(1)
        async with one.admit("a", 0) as first:
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(1), one.admit("a", 0, "", first.place):
                        pass
        async with one.admit("a", 0, "", first.place) as again:
            assert again.place == first.place
        return asyncio.get_running_loop().time(), one.in_flight

    assert simulated(main()) == (2.0, 0)
