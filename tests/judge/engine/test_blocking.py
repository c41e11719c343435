"""A coroutine runs to its end from a plain function, whether or not a loop is running."""

from __future__ import annotations

import asyncio
import threading
from contextvars import ContextVar

import pytest

from assizes.judge.engine.blocking import run_blocking

PLACE: ContextVar[str] = ContextVar("place", default="nowhere")


async def place_and_thread() -> tuple[str, int]:
    await asyncio.sleep(0)
    return PLACE.get(), threading.get_ident()


async def failing() -> None:
    raise ValueError("as it is")


def test_without_a_loop_the_coroutine_runs_in_this_thread():
    assert run_blocking(place_and_thread()) == ("nowhere", threading.get_ident())


async def test_in_a_running_loop_another_thread_runs_it_in_the_same_context():
    token = PLACE.set("cell 3")
    try:
        place, thread = run_blocking(place_and_thread())
    finally:
        PLACE.reset(token)
    assert place == "cell 3"
    assert thread != threading.get_ident()
    with pytest.raises(ValueError, match="as it is"):
        run_blocking(failing())


async def test_ctrl_c_cancels_the_coroutine_and_waits_for_it(monkeypatch: pytest.MonkeyPatch):
    steps = []

    async def long_work() -> None:
        steps.append("begun")
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            steps.append("cleaned up")

    begun = threading.Event()

    def interrupt(_future: object, timeout: float | None = None) -> None:
        begun.wait()
        raise KeyboardInterrupt

    monkeypatch.setattr("concurrent.futures.Future.result", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_blocking(long_work())
    assert steps == ["begun", "cleaned up"]
