"""SIGTERM ends a command as Ctrl-C does: what is in flight is kept, nothing new is asked, exit 130.

Prefect turns the signal into an exception that may come up anywhere in a flow. That is right in the
process of a deployment, which Prefect itself ends; so only a command asks for this here.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_is_requested: ContextVar[bool] = ContextVar("asked", default=False)


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """For a command: from now on, and within the runs it sits in, SIGTERM is Ctrl-C."""
    token = _is_requested.set(True)
    try:
        with handle_sigterm():
            yield
    finally:
        _is_requested.reset(token)


@contextmanager
def handle_sigterm() -> Iterator[None]:
    """Within a flow, whose engine has put its own handler in the place of the command's."""
    if not _is_requested.get() or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_sign: int, _frame: Any) -> None:
    signal.raise_signal(signal.SIGINT)
