"""Spacing under a limit, and finding out a limit that nobody told."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from judge.config import LimitsConfig
from judge.errors import AssizesError
from judge.limits import Limiter
from judge.pacing import LAG_S, LATE_S, LEAD_S, MINUTE_S, NEVER, USED, Block, Leased, Pacer
from judge.pressure import Pressure
from tests.judge.clock import simulated

Event = tuple[float, float]
"""When, and how much."""


def most_in(window_s: float, events: list[Event]) -> float:
    """The most that happened in any window of this length."""
    held: deque[Event] = deque()
    total = most = 0.0
    for event in events:
        held.append(event)
        total += event[1]
        while held[0][0] <= event[0] - window_s:
            total -= held.popleft()[1]
        most = max(most, total)
    return most


def driven(pacer: Pacer, costs: list[float], delays: list[float]) -> list[Event]:
    """Calls that always wait, each let start so much after it might have."""
    now = 0.0
    events = []
    pacer.begin(now)
    for cost, delay in zip(costs, delays, strict=True):
        now = max(now, pacer.ready_at(cost, now)) + delay
        pacer.take(cost, now)
        events.append((now, cost))
    return events


delays = st.one_of(st.just(0.0), st.floats(0, 0.02), st.floats(0, 90))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400), st.lists(delays, min_size=1, max_size=600))
def test_no_minute_holds_more_requests_than_the_limit_however_late_starts_are(limit, late):
    events = driven(Pacer.of_requests(limit), [1.0] * len(late), late)
    assert most_in(MINUTE_S, events) <= limit


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(1, 4000), delays), min_size=1, max_size=400))
def test_no_minute_holds_more_tokens_than_the_limit(calls):
    events = driven(Pacer.of_tokens(20_000), [cost for cost, _ in calls], [d for _, d in calls])
    assert most_in(MINUTE_S, events) <= 20_000


@pytest.mark.parametrize("limit", [1, 3, 10, 60, 600, 3_000, 30_000])
def test_starts_are_evenly_spaced_from_the_first_one_on(limit):
    events = driven(Pacer.of_requests(limit), [1.0] * (limit + 5), [0.0] * (limit + 5))
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(events)]
    assert events[0][0] == 0.0
    assert [min(gaps), max(gaps)] == pytest.approx([MINUTE_S / limit / USED] * 2)


def started_after(pause: float) -> list[float]:
    """When calls start after a pause that interrupts 10 a second, counted from its end."""
    events = driven(Pacer.of_requests(600), [1.0] * 400, [0.0] * 100 + [pause] + [0.0] * 299)
    back = events[100][0]
    return [at - back for at, _ in events[100:]]


def within(seconds: float, times: list[float]) -> int:
    return sum(1 for at in times if at < seconds)


def test_a_hiccup_is_caught_up_at_once():
    assert within(1.0, started_after(0.0)) == 10
    assert within(1.0, started_after(0.25)) in (12, 13)


def test_what_is_later_than_a_hiccup_is_caught_up_without_a_burst():
    times = started_after(2.0)
    assert within(0.05, times) <= 5
    assert within(1.0, times) <= 16
    assert within(20.0, times) == pytest.approx(200 * USED + 20, abs=1)


def test_a_long_pause_is_not_made_up_for():
    assert within(20.0, started_after(30)) == pytest.approx(200 * USED + 10 * LAG_S, abs=1)


def test_nothing_is_caught_up_from_a_time_when_nobody_waited():
    pacer = Pacer.of_requests(600)
    driven(pacer, [1.0] * 5, [0.0] * 5)
    pacer.begin(50.0)
    pacer.take(1, 50.0)
    assert pacer.ready_at(1, 50.0) == pytest.approx(50 + 0.1 / USED)


def test_what_a_call_took_takes_the_place_of_its_estimate():
    pacer = Pacer.of_tokens(6_000)
    pacer.begin(0.0)
    charge = pacer.take(3_000, 0.0)
    assert pacer.ready_at(100, 0.0) == pytest.approx(30 / USED)
    pacer.settle(charge, 1_000)
    assert pacer.ready_at(100, 0.0) == pytest.approx(10 / USED)
    pacer.settle(charge, 2_000)
    assert pacer.ready_at(100, 0.0) == pytest.approx(20 / USED)
    pacer.settle(charge, 0)
    assert pacer.ready_at(100, 0.0) == pytest.approx(0.0)


def test_a_call_settled_after_its_minute_changes_nothing():
    pacer = Pacer.of_tokens(6_000)
    pacer.begin(0.0)
    late = pacer.take(600, 0.0)
    pacer.ready_at(100, 200.0)
    pacer.settle(late, 6_000)
    pacer.begin(200.0)
    assert pacer.ready_at(5_000, 200.0) <= 200.0


def test_a_call_of_more_than_the_limit_starts_in_an_empty_minute():
    pacer = Pacer.of_tokens(1_000)
    pacer.begin(0.0)
    assert pacer.ready_at(50_000, 0.0) == 0.0
    pacer.take(50_000, 0.0)
    assert pacer.ready_at(1, 0.0) == pytest.approx(60 * 0.99 / USED)


class Wanted:
    """Counts how often more units were asked for."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def test_leased_units_are_used_at_their_times():
    leased = Leased(1_000, wanted := Wanted())
    assert leased.ready_at(1, 0.0) == NEVER
    assert (wanted.times, leased.missing(0.0)) == (1, 1)
    leased.add(Block(at=5.0, units=3, rate=10))
    assert leased.ready_at(1, 0.0) == 5.0
    leased.take(1, 5.0)
    assert leased.ready_at(1, 5.0) == pytest.approx(5.1)
    leased.take(1, 5.1)
    leased.take(1, 5.2)
    assert leased.ready_at(1, 5.2) == NEVER


def test_units_are_wanted_ahead_of_the_last_ones():
    leased = Leased(1_000, wanted := Wanted())
    leased.add(Block(at=0.0, units=20, rate=10))
    leased.ready_at(1, 0.0)
    assert (wanted.times, leased.missing(0.0)) == (0, -1)
    assert leased.ready_at(1, 2 - LEAD_S + 0.01) < NEVER
    assert (wanted.times, leased.missing(2 - LEAD_S + 0.01)) == (1, 0)


def test_units_that_were_not_used_in_time_are_lost():
    leased = Leased(1_000, Wanted())
    leased.add(Block(at=0.0, units=10, rate=10))
    assert leased.ready_at(1, 0.5) == pytest.approx(0.5 - LATE_S)
    assert leased.ready_at(8, 0.5) == pytest.approx(0.5 - LATE_S)
    assert leased.ready_at(9, 0.5) == NEVER
    assert leased.ready_at(1, 5.0) == NEVER


def test_a_call_that_took_more_than_its_units_has_the_next_ones_wait():
    leased = Leased(1_000, Wanted())
    leased.add(Block(at=0.0, units=100, rate=100))
    charge = leased.take(10, 0.0)
    leased.settle(charge, 60)
    assert leased.ready_at(41, 0.1) == NEVER
    assert leased.missing(0.1) == pytest.approx(1)
    leased.take(20, 0.1)
    assert leased.ready_at(1, 0.1) == pytest.approx(0.8)


def test_units_saved_are_used_by_the_next_calls_but_never_for_a_burst():
    leased = Leased(1_000, Wanted())
    leased.add(Block(at=0.0, units=100, rate=100))
    leased.settle(leased.take(10, 0.0), 0)
    leased.take(10, 0.1)
    assert leased.ready_at(1, 0.1) == pytest.approx(0.1)
    leased.settle(leased.take(80, 0.1), 0)
    for _ in range(int(LATE_S * 100)):
        assert leased.ready_at(1, 0.9) <= 0.9
        leased.take(1, 0.9)
    leased.take(10, 0.9)
    assert leased.ready_at(1, 0.9) == NEVER


def test_a_shared_limit_that_cannot_be_had_is_an_error_not_no_limit():
    leased = Leased(1_000, Wanted())
    leased.add(Block(at=0.0, units=100, rate=100))
    leased.fail(AssizesError("the limit is gone"))
    with pytest.raises(AssizesError, match="the limit is gone"):
        leased.ready_at(1, 0.0)


# A limit that nobody told


@dataclass
class Windowed:
    """Refuses what exceeds so many in any window."""

    limit: int
    window_s: float
    hints: bool = True
    held: deque[float] = field(default_factory=deque)

    def refusal(self, now: float) -> float | None:
        """In how many seconds it would be let through; null: it is, now."""
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
    """Counts anew at the beginning of each window."""

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
    """Refills at a rate, holds so many, and takes one for each call."""

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
    """What asking as fast as allowed came to."""

    use: float
    refused: int
    answered: int
    most_tries: int


async def pressed(server: Windowed | Bucket, latency_s: float, seconds: float, slots: int) -> Run:
    """Three times as many callers as slots, each putting its ask again when it was refused."""
    loop, chance = asyncio.get_running_loop(), random.Random(7)
    limiter = Limiter(LimitsConfig(max_in_flight=slots))
    run = Run(0.0, 0, 0, 0)

    async def ask() -> None:
        for tries in range(1, 100):
            async with limiter.admitted("model", 0) as permit:
                await asyncio.sleep(chance.random() * 0.01)
                wait_s = server.refusal(loop.time())
                if wait_s is None:
                    await asyncio.sleep(latency_s * chance.lognormvariate(0, 0.5))
                    run.answered += 1
                    run.most_tries = max(run.most_tries, tries)
                    return
                await asyncio.sleep(0.01)
                run.refused += 1
                permit.refused(wait_s if server.hints else None)

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
    pressure = Pressure()
    spell = pressure.take(0.0)
    pressure.refused(spell, 0.0, 0.1, 7.0)
    assert pressure.ready_at() == pytest.approx(7.1)
    pressure.refused(spell, 0.0, 0.2, 2.0)
    assert pressure.ready_at() == pytest.approx(7.1)


def test_no_refusal_is_waited_for_longer_than_a_minute():
    pressure = Pressure()
    pressure.refused(pressure.take(0.0), 0.0, 0.0, 1e9)
    assert pressure.ready_at() == 60.0
    pressure.refused(pressure.take(60.0), 60.0, 61.0, -5.0)
    assert pressure.ready_at() == 61.0


def test_holds_without_hints_grow_while_nothing_is_let_through():
    pressure = Pressure()
    now, holds = 0.0, []
    for _ in range(7):
        spell = pressure.take(now)
        pressure.refused(spell, now, now, None)
        holds.append(pressure.ready_at() - now)
        now = pressure.ready_at()
    assert holds == [0.5, 1, 2, 4, 8, 8, 8]


def test_the_pace_grows_again_and_faster_when_refusals_are_long_past():
    pressure = Pressure()
    for start in range(100):
        spell = pressure.take(start / 10)
    assert pressure.rate(10.0) is None
    pressure.refused(spell, 9.9, 9.9, 0.1)
    pressure.take(10.0)
    first = pressure.rate(10.0)
    assert first == pytest.approx(9.9 * 0.95)
    assert pressure.rate(15.0) == pytest.approx(first * 1.05)
    assert pressure.rate(100.0) > 10 * first


def test_a_pace_found_out_from_refusals_never_falls_below_a_call_in_ten_seconds():
    pressure = Pressure()
    now, rates = 0.0, []
    for turn in range(60):
        now = max(now, pressure.ready_at())
        spell = pressure.take(now)
        rates.append(pressure.rate(now))
        if turn % 3 == 0:  # the refusal comes after the next start, as from a slow provider
            pressure.refused(spell, now, now + 1, None)
    assert min(rate for rate in rates if rate is not None) >= 0.1
    assert now < 60 * 20
