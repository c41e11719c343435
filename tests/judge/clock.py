"""An event loop whose clock jumps to the next timer, so that a test of hours takes moments."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.SelectSelector):
    """A selector that moves the clock instead of waiting."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "everybody waits for something that never happens"
        self.now += max(0.0, timeout)
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    """An event loop whose `time()` starts at 0; it never waits, without sockets or threads."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def work(self, seconds: float) -> None:
        """Advance the clock while the loop does nothing else, as a busy processor would."""
        self._jumping.now += seconds


def simulated(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on the jumping clock."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(main)
