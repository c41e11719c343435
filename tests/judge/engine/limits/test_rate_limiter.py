"""The spacing of calls under a configured limit."""

from __future__ import annotations

from collections import deque
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assizes.judge.engine.limits.rate_limiter import (
    LEASE_AHEAD_S,
    MAX_LAG_S,
    MAX_LATE_S,
    MINUTE_S,
    NEVER,
    USED_SHARE,
    LeaseBlock,
    LeasedRate,
    RateLimiter,
)
from assizes.judge.errors import AssizesError

Event = tuple[float, float]
"""The time of a call, and its cost."""


def most_in(window_s: float, events: list[Event]) -> float:
    """The highest sum of costs in any window of this length."""
    held: deque[Event] = deque()
    total = most = 0.0
    for event in events:
        held.append(event)
        total += event[1]
        while held[0][0] <= event[0] - window_s:
            total -= held.popleft()[1]
        most = max(most, total)
    return most


def driven(pacer: RateLimiter, costs: list[float], delays: list[float]) -> list[Event]:
    """Start calls that always wait, each by a given delay after the time at which it might start."""
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
    events = driven(RateLimiter.of_requests(limit), [1.0] * len(late), late)
    assert most_in(MINUTE_S, events) <= limit


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(1, 4000), delays), min_size=1, max_size=400))
def test_no_minute_holds_more_tokens_than_the_limit(calls):
    events = driven(
        RateLimiter.of_tokens(20_000), [cost for cost, _ in calls], [d for _, d in calls]
    )
    assert most_in(MINUTE_S, events) <= 20_000


@pytest.mark.promised
@pytest.mark.parametrize("limit", [1, 3, 10, 60, 600, 3_000, 30_000])
def test_starts_are_evenly_spaced_from_the_first_one_on(limit):
    events = driven(RateLimiter.of_requests(limit), [1.0] * (limit + 5), [0.0] * (limit + 5))
    gaps = [later - earlier for (earlier, _), (later, _) in pairwise(events)]
    assert events[0][0] == 0.0
    assert [min(gaps), max(gaps)] == pytest.approx([MINUTE_S / limit / USED_SHARE] * 2)


def started_after(pause: float) -> list[float]:
    """When calls start after a pause that interrupts 10 a second, counted from its end."""
    events = driven(RateLimiter.of_requests(600), [1.0] * 400, [0.0] * 100 + [pause] + [0.0] * 299)
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
    assert within(20.0, times) == pytest.approx(200 * USED_SHARE + 20, abs=1)


def test_a_long_pause_is_not_made_up_for():
    assert within(20.0, started_after(30)) == pytest.approx(
        200 * USED_SHARE + 10 * MAX_LAG_S, abs=1
    )


def test_nothing_is_caught_up_from_a_time_when_nobody_waited():
    pacer = RateLimiter.of_requests(600)
    driven(pacer, [1.0] * 5, [0.0] * 5)
    pacer.begin(50.0)
    pacer.take(1, 50.0)
    assert pacer.ready_at(1, 50.0) == pytest.approx(50 + 0.1 / USED_SHARE)


def test_what_a_call_took_takes_the_place_of_its_estimate():
    pacer = RateLimiter.of_tokens(6_000)
    pacer.begin(0.0)
    charge = pacer.take(3_000, 0.0)
    assert pacer.ready_at(100, 0.0) == pytest.approx(30 / USED_SHARE)
    pacer.settle(charge, 1_000)
    assert pacer.ready_at(100, 0.0) == pytest.approx(10 / USED_SHARE)
    pacer.settle(charge, 2_000)
    assert pacer.ready_at(100, 0.0) == pytest.approx(20 / USED_SHARE)
    pacer.settle(charge, 0)
    assert pacer.ready_at(100, 0.0) == pytest.approx(0.0)


def test_a_call_settled_after_its_minute_changes_nothing():
    pacer = RateLimiter.of_tokens(6_000)
    pacer.begin(0.0)
    late = pacer.take(600, 0.0)
    pacer.ready_at(100, 200.0)
    pacer.settle(late, 6_000)
    pacer.begin(200.0)
    assert pacer.ready_at(5_000, 200.0) <= 200.0


def test_a_call_of_more_than_the_limit_starts_in_an_empty_minute():
    pacer = RateLimiter.of_tokens(1_000)
    pacer.begin(0.0)
    assert pacer.ready_at(50_000, 0.0) == 0.0
    pacer.take(50_000, 0.0)
    assert pacer.ready_at(1, 0.0) == pytest.approx(60 * 0.99 / USED_SHARE)


class Wanted:
    """Counts how often the limiter asked for more units."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> None:
        self.times += 1


def test_leased_units_are_used_at_their_times():
    leased = LeasedRate(1_000, wanted := Wanted())
    assert leased.ready_at(1, 0.0) == NEVER
    assert (wanted.times, leased.missing_units(0.0)) == (1, 1)
    leased.add(LeaseBlock(at=5.0, units=3, rate=10))
    assert leased.ready_at(1, 0.0) == 5.0
    leased.take(1, 5.0)
    assert leased.ready_at(1, 5.0) == pytest.approx(5.1)
    leased.take(1, 5.1)
    leased.take(1, 5.2)
    assert leased.ready_at(1, 5.2) == NEVER


def test_units_are_wanted_ahead_of_the_last_ones():
    leased = LeasedRate(1_000, wanted := Wanted())
    leased.add(LeaseBlock(at=0.0, units=20, rate=10))
    leased.ready_at(1, 0.0)
    assert (wanted.times, leased.missing_units(0.0)) == (0, -1)
    assert leased.ready_at(1, 2 - LEASE_AHEAD_S + 0.01) < NEVER
    assert (wanted.times, leased.missing_units(2 - LEASE_AHEAD_S + 0.01)) == (1, 0)


def test_units_that_were_not_used_in_time_are_lost():
    leased = LeasedRate(1_000, Wanted())
    leased.add(LeaseBlock(at=0.0, units=10, rate=10))
    assert leased.ready_at(1, 0.5) == pytest.approx(0.5 - MAX_LATE_S)
    assert leased.ready_at(8, 0.5) == pytest.approx(0.5 - MAX_LATE_S)
    assert leased.ready_at(9, 0.5) == NEVER
    assert leased.ready_at(1, 5.0) == NEVER


def test_a_call_that_took_more_than_its_units_has_the_next_ones_wait():
    leased = LeasedRate(1_000, Wanted())
    leased.add(LeaseBlock(at=0.0, units=100, rate=100))
    charge = leased.take(10, 0.0)
    leased.settle(charge, 60)
    assert leased.ready_at(41, 0.1) == NEVER
    assert leased.missing_units(0.1) == pytest.approx(1)
    leased.take(20, 0.1)
    assert leased.ready_at(1, 0.1) == pytest.approx(0.8)


def test_units_saved_are_used_by_the_next_calls_but_never_for_a_burst():
    leased = LeasedRate(1_000, Wanted())
    leased.add(LeaseBlock(at=0.0, units=100, rate=100))
    leased.settle(leased.take(10, 0.0), 0)
    leased.take(10, 0.1)
    assert leased.ready_at(1, 0.1) == pytest.approx(0.1)
    leased.settle(leased.take(80, 0.1), 0)
    for _ in range(int(MAX_LATE_S * 100)):
        assert leased.ready_at(1, 0.9) <= 0.9
        leased.take(1, 0.9)
    leased.take(10, 0.9)
    assert leased.ready_at(1, 0.9) == NEVER


def test_a_shared_limit_that_cannot_be_had_is_an_error_not_no_limit():
    leased = LeasedRate(1_000, Wanted())
    leased.add(LeaseBlock(at=0.0, units=100, rate=100))
    leased.fail(AssizesError("the limit is gone"))
    with pytest.raises(AssizesError, match="the limit is gone"):
        leased.ready_at(1, 0.0)
