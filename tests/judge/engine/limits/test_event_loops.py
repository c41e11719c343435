"""Limits on event loops other than those of Python."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from tests.judge.engine.limits.test_limits import Calls, limiter


class OpaqueLoop(asyncio.SelectorEventLoop):
    """As uvloop's, which programs with a web server often run: a handle may not say when it is due."""

    def call_at(self, when: float, *args: Any, **kwargs: Any) -> Any:
        timer = super().call_at(when, *args, **kwargs)
        return SimpleNamespace(cancel=timer.cancel, cancelled=timer.cancelled)


def test_any_event_loop_will_do():
    calls = Calls(limiter(requests_per_minute=60_000), latency_s=0.0)
    with asyncio.Runner(loop_factory=OpaqueLoop) as runner:
        times = runner.run(calls.all(20))
    assert len(times) == 20
    assert max(times) > min(times)
