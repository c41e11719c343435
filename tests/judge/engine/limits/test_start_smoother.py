"""Calls that move in waves wait for one another; the smoother spreads their starts."""

from __future__ import annotations

import asyncio
import random

import pytest

from assizes.judge.config.judging import LimitsConfig
from assizes.judge.engine.limits.limits import Limiter, StartSmoother
from tests.judge.clock import JumpingLoop, simulated

SLOTS = 64
STEPS = 6
"""Number of pieces of a call's work, between which other calls are worked on."""


async def of_ceiling(latency_s: float, work_s: float, spread: float, calls: int = 3_000) -> float:
    """Throughput as a share of slots / latency; `spread` is that of the latency (lognormal)."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, JumpingLoop)
    limiter, chance = Limiter(LimitsConfig(max_in_flight=SLOTS)), random.Random(5)
    left = iter(range(calls))

    async def work(seconds: float) -> None:
        for _ in range(STEPS):
            loop.work(seconds / STEPS)
            await asyncio.sleep(0)

    async def caller() -> None:
        for _ in left:
            async with limiter.admit("model", 0):
                await work(work_s / 2)
                mean = chance.lognormvariate(-(spread**2) / 2, spread)
                await asyncio.sleep(latency_s * mean)
                await work(work_s / 2)

    await asyncio.gather(*(caller() for _ in range(2 * SLOTS)))
    return calls / loop.time() / (SLOTS / latency_s)


@pytest.mark.promised
@pytest.mark.parametrize(
    ("latency_s", "work_s"), [(0.3, 0.001), (0.3, 0.002), (0.3, 0.004), (1.0, 0.004)]
)
def test_slots_are_busy_though_every_call_takes_the_same_time(latency_s: float, work_s: float):
    # If all calls always started at once, the share would be latency / (latency + 64 * work).
    assert simulated(of_ceiling(latency_s, work_s, 0.0)) >= 0.93


def test_calls_that_take_different_times_are_not_held_up(monkeypatch: pytest.MonkeyPatch):
    spread = simulated(of_ceiling(0.3, 0.002, 0.5))
    monkeypatch.setattr(StartSmoother, "note_start", lambda self, now: None)
    free = simulated(of_ceiling(0.3, 0.002, 0.5))
    assert spread >= 0.96 * free


def test_the_first_calls_start_at_once():
    spread = StartSmoother(4)
    for _ in range(4):
        spread.note_start(1.0)
    assert spread.due <= 1.0


def test_starts_follow_at_twice_the_rate_at_which_slots_become_free():
    spread = StartSmoother(4)
    for _ in range(4):
        spread.note_end(2.0)
    now, starts = 10.0, []
    for _ in range(5):
        starts.append(now)
        spread.note_start(now)
        now = max(now, spread.due)
    # One call has started: a call that is a little late is not delayed any further.
    assert starts == pytest.approx([10.0, 10.0, 10.25, 10.5, 10.75])


def test_after_an_outage_slots_fill_quickly_again():
    spread = StartSmoother(64)
    for _ in range(64):
        spread.note_end(120.0)
    now, calls = 0.0, 0
    while now < 10:
        spread.note_start(now)
        spread.note_end(0.3)
        now = max(now, spread.due)
        calls += 1
        if calls > 100:
            break
    assert calls > 100
