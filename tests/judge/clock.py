"""An event loop whose clock jumps to the next thing that happens: hours pass in moments."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Jumping(selectors.SelectSelector):
    """Moves the clock where a real one would wait."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        assert timeout is not None, "everybody waits for something that never happens"
        self.now += max(0.0, timeout)
        return super().select(0)


class JumpingLoop(asyncio.SelectorEventLoop):
    """`time()` starts at 0 and knows no waiting; no sockets, no threads."""

    def __init__(self) -> None:
        self._jumping = _Jumping()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now

    def work(self, seconds: float) -> None:
        """Let time pass as a busy processor does: nothing else happens meanwhile."""
        self._jumping.now += seconds


def simulated(main: Coroutine[Any, Any, T]) -> T:
    """Run it to the end, on the jumping clock."""
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        return runner.run(main)
