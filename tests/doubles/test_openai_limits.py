"""Rate limits and latency of the judge model server."""

from __future__ import annotations

import asyncio
import statistics
import time

import pytest

from tests.doubles.asking import ask
from tests.doubles.fixtures import running_openai_server
from tests.doubles.openai_limits import Limiter, Limits


async def test_requests_beyond_the_limit_are_refused_until_the_hint_has_passed():
    with running_openai_server("--rpm", "300", "--window", "1") as server:
        asked = await asyncio.gather(*(ask(server, "stub", str(n)) for n in range(8)))
        refused = [one for one in asked if one.status == 429]
        waits_s = [float(one.headers["Retry-After"]) for one in refused]
        await asyncio.sleep(max(waits_s))
        later = await ask(server, "stub", "later")

        stats = server.stats()
        assert len(refused) == 3
        assert all(0 < wait_s <= 1 for wait_s in waits_s)
        assert later.how == "good"
        assert (stats["requests"], stats["refused"], stats["answered"]) == (9, 3, 6)
        assert stats["peak_window"] == 8
        assert sum(accepted for _, accepted in server.timeline()) == 6


async def test_tokens_beyond_the_limit_are_refused_without_a_hint_where_none_is_wanted():
    with running_openai_server("--tpm", "6000", "--window", "1", "--no-hint") as server:
        said = [await ask(server, "stub", "x" * 100) for _ in range(4)]

        stats = server.stats()
        assert [one.how for one in said] == ["good", "429", "429", "429"]
        assert "Retry-After" not in said[-1].headers
        assert stats["peak_window_tokens"] > 100


@pytest.mark.parametrize("gap_s", [0.015625, 0.25, 0.875])  # sums of these are exact
def test_no_sliding_window_holds_more_than_the_limits(gap_s):
    limiter = Limiter(Limits(rpm=10, tpm=100, window_s=60))
    admitted: list[tuple[float, int]] = []
    for step in range(600):
        now, tokens = step * gap_s, step * 7 % 23
        refusal = limiter.admit(tokens, now)
        if refusal is None:
            admitted.append((now, tokens))
            continue
        then = now + float(refusal.headers["Retry-After"])
        held = [one for at, one in admitted if at > then - 60]
        assert len(held) + 1 <= 10
        assert sum(held) + tokens <= 100
    for at, _ in admitted:
        window = [tokens for when, tokens in admitted if at - 60 < when <= at]
        assert len(window) <= 10
        assert sum(window) <= 100
    assert len(admitted) > 5


async def test_latency_jitters_around_its_median_the_same_way_each_time():
    async def waits_s() -> list[float]:
        with running_openai_server("--latency", "0.1", "--jitter") as server:
            found = []
            for n in range(15):
                begun = time.monotonic()
                await ask(server, "stub", str(n))
                found.append(time.monotonic() - begun)
            return found

    one, two = await waits_s(), await waits_s()

    assert statistics.median(one) > 0.06
    assert max(one) > 1.5 * min(one)
    assert statistics.correlation(one, two) > 0.5
