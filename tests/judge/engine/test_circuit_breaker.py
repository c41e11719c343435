"""The circuit breaker: what opens it, for how long, and what closes it again."""

from __future__ import annotations

import asyncio

import pytest

from assizes.judge.engine.call_gates import BreakerPolicy, CircuitBreaker
from assizes.judge.errors import ModelError, NotAsked
from assizes.judge.models.model import ScriptedModel, UnusableReply
from tests.judge.engine.levels import CASE, Asking, engine, priced

DOWN = ModelError("unavailable", "no route")
BUSY = ModelError("rate_limited", "slow down")
NO_MONEY = ModelError("quota", "pay first")
SERVED: list[ModelError | None] = [
    None,
    ModelError("refused", "no"),
    ModelError("bad_request", "what?"),
    UnusableReply("empty", "nothing", priced(1)),
]


class Clock:
    """A clock whose seconds pass only when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def breaker(**trip) -> tuple[CircuitBreaker, Clock]:
    clock = Clock()
    return CircuitBreaker(BreakerPolicy(**trip), clock), clock


async def call(one: CircuitBreaker, failure: ModelError | None) -> bool:
    """Make one call and return whether it was a probe."""
    with await asyncio.wait_for(one.wait_for_pass(), 20) as turn:
        turn.note(failure)
    return turn.probe


async def is_held(one: CircuitBreaker) -> bool:
    """Whether a new call would have to wait."""
    waiting = asyncio.create_task(one.wait_for_pass())
    await asyncio.sleep(0.001)
    held = not waiting.done()
    if held:
        waiting.cancel()
    else:
        with waiting.result():
            pass
    return held


@pytest.mark.parametrize("code", ["quota", "authentication", "not_found"])
async def test_three_calls_in_a_row_that_all_others_would_fail_like_end_all_asking(code):
    one, clock = breaker()
    for _ in range(3):
        await call(one, ModelError(code, "said"))
    clock.now += 1000

    with pytest.raises(NotAsked, match=rf"circuit_open: 3 calls in a row .* {code}: said"):
        await one.wait_for_pass()


@pytest.mark.parametrize("between", SERVED)
async def test_an_answer_between_starts_the_count_anew(between):
    one, _ = breaker(failures=3)
    for failure in (NO_MONEY, NO_MONEY, between, NO_MONEY, NO_MONEY, DOWN, DOWN):
        await call(one, failure)
    assert one.is_closed


async def test_a_rate_limit_between_does_not_hide_that_the_quota_is_spent():
    one, _ = breaker()
    for failure in (NO_MONEY, BUSY, NO_MONEY, BUSY, NO_MONEY):
        await call(one, failure)
    assert not one.is_closed


async def test_rate_limits_do_not_open_it_however_many():
    one, clock = breaker(failures=2)
    for _ in range(50):
        clock.now += 5.9
        await call(one, BUSY)
    assert one.is_closed


@pytest.mark.parametrize("between", SERVED)
async def test_nothing_but_rate_limits_for_five_minutes_opens_it_for_good(between):
    one, clock = breaker()
    for failure in (BUSY, BUSY, between, BUSY, BUSY, DOWN, BUSY):
        await call(one, failure)
        clock.now += 75
    assert one.is_closed

    await call(one, BUSY)

    assert one.given_up_reason == (
        "no call was let through for 300 s, the last with rate_limited: slow down"
    )
    with pytest.raises(NotAsked, match="circuit_open: no call was let through"):
        await one.wait_for_pass()


async def test_rate_limits_far_apart_do_not_open_it():
    one, clock = breaker()
    for _ in range(10):
        await call(one, BUSY)
        clock.now += 151
    assert one.is_closed


async def test_to_be_left_alone_for_longer_than_five_minutes_is_a_refusal_for_good():
    one, _ = breaker()
    for hint_s in (301.0, 300.0, 301.0, 3600.0):
        assert one.is_closed
        await call(one, ModelError("rate_limited", "daily limit", retry_after_s=hint_s))
    assert one.given_up_reason == "3 calls in a row failed, the last with rate_limited: daily limit"


@pytest.mark.parametrize("code", ["unavailable", "timeout"])
async def test_calls_in_a_row_without_an_answer_open_it_for_a_cool_down(code):
    one, clock = breaker(failures=3, cool_down_s=5.0)
    for _ in range(2):
        await call(one, ModelError(code, "said"))
    assert not await is_held(one)
    await call(one, ModelError(code, "said"))
    assert await is_held(one)

    clock.now += 4.9
    assert await is_held(one)
    clock.now += 0.2
    assert await call(one, None) is True
    assert await call(one, None) is False


async def test_one_probe_at_a_time_goes_through():
    one, clock = breaker(failures=1, cool_down_s=1.0)
    await call(one, DOWN)
    clock.now += 2
    with await one.wait_for_pass() as probe:
        assert probe.probe
        assert await is_held(one)
    # The probe was given back without a call: the next one may try.
    assert not await is_held(one)


async def test_cool_downs_double_up_to_the_longest_and_after_five_probes_it_is_over():
    one, clock = breaker(failures=1, cool_down_s=1.0, longest_s=6.0)
    await call(one, DOWN)
    for cool_down_s in (1, 2, 4, 6, 6):
        clock.now += cool_down_s - 0.01
        assert await is_held(one)
        clock.now += 0.02
        assert await call(one, DOWN) is True

    with pytest.raises(NotAsked, match="circuit_open: 6 calls in a row .* unavailable: no route"):
        await one.wait_for_pass()


async def test_whoever_waits_goes_on_when_a_call_that_began_before_is_answered():
    one, _ = breaker(failures=1)
    early = await one.wait_for_pass()
    await call(one, DOWN)
    waiting = [asyncio.create_task(one.wait_for_pass()) for _ in range(3)]
    await asyncio.sleep(0.001)
    assert not early.is_valid

    early.note(None)

    turns = await asyncio.wait_for(asyncio.gather(*waiting), 20)
    assert [turn.probe for turn in turns] == [False] * 3


async def test_whoever_waits_is_told_when_it_is_over():
    one, clock = breaker(failures=1, probes=1)
    await call(one, DOWN)
    waiting = asyncio.create_task(one.wait_for_pass())
    await asyncio.sleep(0.001)
    clock.now += 2
    await call(one, DOWN)

    with pytest.raises(NotAsked):
        await asyncio.wait_for(waiting, 20)


async def test_calls_that_began_before_and_fail_while_it_is_open_do_not_count_as_probes():
    one, clock = breaker(failures=1, cool_down_s=1.0, probes=2)
    early = [await one.wait_for_pass() for _ in range(5)]
    await call(one, DOWN)
    for turn in early:
        turn.note(DOWN)
    clock.now += 1.01
    assert await call(one, None) is True
    assert one.is_closed


TRIP = BreakerPolicy(refusals=3, failures=8, cool_down_s=0.02, longest_s=0.1, probes=5)


async def test_a_provider_that_is_down_ends_all_asks_within_bounds():
    model = ScriptedModel([DOWN] * 1000)
    asking = engine(model, means={"breaker_policy": TRIP}, max_attempts=4)

    heard = await asyncio.wait_for(asking.hear(Asking([str(i) for i in range(200)]), CASE), 60)

    ends = [one.error.partition(":")[0] for one in heard.asks]
    assert set(ends) == {"circuit_open", "transient_exhausted"} or set(ends) == {"circuit_open"}
    assert len(model.asked) <= 8 + 8 + 5
    assert asking.silent_models == {"scripted/queue"}


async def test_an_outage_that_passes_costs_no_ask_its_answer():
    model = ScriptedModel([*[DOWN] * 10, *[priced(0)] * 100])
    asking = engine(model, means={"breaker_policy": TRIP}, max_attempts=4)

    heard = await asyncio.wait_for(asking.hear(Asking([str(i) for i in range(40)]), CASE), 60)

    assert [one.error for one in heard.asks] == [None] * 40
    assert asking.silent_models == frozenset()


async def test_after_three_refusals_the_other_asks_are_not_put():
    model = ScriptedModel([NO_MONEY] * 99)
    asking = engine(model, max_in_flight=1)

    heard = await asking.hear(Asking([str(i) for i in range(20)]), CASE)

    assert len(model.asked) == 3
    assert [one.error for one in heard.asks[:3]] == ["quota: pay first"] * 3
    reason = "circuit_open: 3 calls in a row failed, the last with quota: pay first"
    assert [one.error for one in heard.asks[3:]] == [reason] * 17
    assert {one.attempts for one in heard.asks[3:]} == {0}
    assert {one.cost_usd for one in heard.asks} == {0.0}
