"""A model without a configured limit: the rate is found from the provider's refusals."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.limits.adaptive_rate import AdaptiveRate
from assizes.judge.engine.limits.limits import Limiter
from tests.judge.clock import simulated

pytestmark = pytest.mark.promised  # takes seconds, too many for `make quick`

# A limit that is not configured


@dataclass
class Windowed:
    """A provider that refuses calls beyond a number in any sliding window."""

    limit: int
    window_s: float
    hints: bool = True
    held: deque[float] = field(default_factory=deque)

    def refusal(self, now: float) -> float | None:
        """Seconds until a call would be let through; `None` when it is let through now."""
        while self.held and self.held[0] <= now - self.window_s:
            self.held.popleft()
        if len(self.held) >= self.limit:
            return self.held[0] + self.window_s - now
        self.held.append(now)
        return None

    def could(self, seconds: float) -> float:
        return self.limit * seconds / self.window_s


@dataclass
class Counted(Windowed):
    """A provider that counts calls from 0 at the beginning of each window."""

    number: int = -1

    def refusal(self, now: float) -> float | None:
        number = int(now // self.window_s)
        if number != self.number:
            self.number = number
            self.held.clear()
        if len(self.held) >= self.limit:
            return (number + 1) * self.window_s - now
        self.held.append(now)
        return None


@dataclass
class Bucket:
    """A provider with a token bucket: it refills at a rate up to a size, and each call takes one."""

    rate: float
    size: float
    hints: bool = True
    level: float | None = None
    at: float = 0.0

    def refusal(self, now: float) -> float | None:
        level = self.size if self.level is None else self.level
        self.level = min(self.size, level + (now - self.at) * self.rate)
        self.at = now
        if self.level < 1:
            return (1 - self.level) / self.rate
        self.level -= 1
        return None

    def could(self, seconds: float) -> float:
        return self.rate * seconds


@dataclass
class Run:
    """The result of asking as fast as the limiter allows."""

    use: float
    refused: int
    answered: int
    most_tries: int


async def pressed(server: Windowed | Bucket, latency_s: float, seconds: float, slots: int) -> Run:
    """Ask with three times as many callers as slots; each caller asks again when it was refused."""
    loop, chance = asyncio.get_running_loop(), random.Random(7)
    limiter = Limiter(LimitsConfig(max_in_flight=slots))
    run = Run(0.0, 0, 0, 0)

    async def ask() -> None:
        for tries in range(1, 100):
            async with limiter.admit("model", 0) as permit:
                await asyncio.sleep(chance.random() * 0.01)
                wait_s = server.refusal(loop.time())
                if wait_s is None:
                    await asyncio.sleep(latency_s * chance.lognormvariate(0, 0.5))
                    run.answered += 1
                    run.most_tries = max(run.most_tries, tries)
                    return
                await asyncio.sleep(0.01)
                run.refused += 1
                permit.report_refusal(wait_s if server.hints else None)

    async def caller() -> None:
        while loop.time() < seconds:
            await ask()

    await asyncio.gather(*(caller() for _ in range(3 * slots)))
    run.use = run.answered / server.could(loop.time())
    return run


@pytest.mark.parametrize("latency_s", [0.3, 3.0])
@pytest.mark.parametrize(
    "server",
    [
        lambda limit: Windowed(limit, 60),
        lambda limit: Windowed(limit // 10, 6),
        lambda limit: Counted(limit, 60),
        lambda limit: Bucket(limit / 60, limit),
        lambda limit: Bucket(limit / 60, limit / 60),
        lambda limit: Bucket(limit / 60, limit / 60, hints=False),
    ],
    ids=["window", "short window", "counted", "bucket", "small bucket", "no hints"],
)
@pytest.mark.parametrize("limit", [600, 3000])
def test_an_unknown_limit_is_used_and_hardly_ever_exceeded(
    limit: int, server: Callable[[int], Windowed | Bucket], latency_s: float
):
    slots = max(64, int(limit / 60 * latency_s * 2))
    run = simulated(pressed(server(limit), latency_s, 150, slots))

    assert run.use >= 0.9
    assert run.refused <= 0.1 * run.answered
    assert run.most_tries <= 4


@pytest.mark.parametrize("limit", [30, 60])
def test_a_small_unknown_limit_is_used_too(limit: int):
    run = simulated(pressed(Windowed(limit, 60), 1.0, 600, 16))
    assert run.use >= 0.9
    assert run.refused <= 0.1 * run.answered


def test_a_window_without_hints_is_waited_out_by_trying_now_and_then():
    run = simulated(pressed(Windowed(3000, 60, hints=False), 0.3, 150, 64))
    assert run.use >= 0.8
    assert run.refused <= 0.1 * run.answered


def test_all_starts_wait_for_as_long_as_a_refusal_says():
    pressure = AdaptiveRate()
    spell = pressure.take(0.0)
    pressure.note_refusal(spell, 0.0, 0.1, 7.0)
    assert pressure.ready_at() == pytest.approx(7.1)
    pressure.note_refusal(spell, 0.0, 0.2, 2.0)
    assert pressure.ready_at() == pytest.approx(7.1)


def test_no_refusal_is_waited_for_longer_than_a_minute():
    pressure = AdaptiveRate()
    pressure.note_refusal(pressure.take(0.0), 0.0, 0.0, 1e9)
    assert pressure.ready_at() == 60.0
    pressure.note_refusal(pressure.take(60.0), 60.0, 61.0, -5.0)
    assert pressure.ready_at() == 61.0


def test_holds_without_hints_grow_while_nothing_is_let_through():
    pressure = AdaptiveRate()
    now, holds = 0.0, []
    for _ in range(7):
        spell = pressure.take(now)
        pressure.note_refusal(spell, now, now, None)
        holds.append(pressure.ready_at() - now)
        now = pressure.ready_at()
    assert holds == [0.5, 1, 2, 4, 8, 8, 8]


def test_the_pace_grows_again_and_faster_when_refusals_are_long_past():
    pressure = AdaptiveRate()
    for start in range(100):
        spell = pressure.take(start / 10)
    assert pressure.rate(10.0) is None
    pressure.note_refusal(spell, 9.9, 9.9, 0.1)
    pressure.take(10.0)
    first = pressure.rate(10.0)
    assert first == pytest.approx(9.9 * 0.95)
    assert pressure.rate(15.0) == pytest.approx(first * 1.05)
    assert pressure.rate(100.0) > 10 * first


def test_a_pace_found_out_from_refusals_never_falls_below_a_call_in_ten_seconds():
    pressure = AdaptiveRate()
    now, rates = 0.0, []
    for turn in range(60):
        now = max(now, pressure.ready_at())
        spell = pressure.take(now)
        rates.append(pressure.rate(now))
        if turn % 3 == 0:  # the refusal comes after the next start, as from a slow provider
            pressure.note_refusal(spell, now, now + 1, None)
    assert min(rate for rate in rates if rate is not None) >= 0.1
    assert now < 60 * 20
