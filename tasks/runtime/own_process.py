"""How a process that is ours alone saves seconds: little work for the garbage collector, a short end.

Prefect and litellm make a million objects while they are imported. Python looks through all of them
again and again for cycles, and takes them apart one by one when the process ends: two fifths of the CPU
of a command that only plans (docs/decisions.md, decision 238). A program that uses our package keeps
its own settings, but for the time in which cases are judged.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

SELDOM: Final = (50_000, 20, 20)
"""New objects before a collection of the youngest, such collections before one of the middle
generation, and those before one of all; Python's own are 700, 10 and 10."""

_CANNOT_WRITE: Final = 120
"""Python's exit code where the last of the output could not be written."""


def collect_seldom() -> None:
    """Look for cycles of objects seldom from now on."""
    gc.set_threshold(*SELDOM)


class _Settings:
    """The collector's thresholds before the first open block of `collecting_seldom`."""

    lock = threading.Lock()
    blocks = 0  # that are open
    before = gc.get_threshold()


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Look for cycles of objects seldom until the block ends; blocks may overlap."""
    with _Settings.lock:
        if not _Settings.blocks:
            _Settings.before = gc.get_threshold()
            collect_seldom()
        _Settings.blocks += 1
    try:
        yield
    finally:
        with _Settings.lock:
            _Settings.blocks -= 1
            if not _Settings.blocks:
                gc.set_threshold(*_Settings.before)


def end_process(exited: SystemExit | None = None) -> NoReturn:
    """End this process as Python does, without taking its modules apart.

    Threads are waited for, functions of `atexit` run, and output is flushed. `exited` has the exit
    code; `None` stands for 0.
    """
    code = _exit_code(exited.code if exited else None)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in filter(None, (sys.stdout, sys.stderr)):  # none: closed before the start
        try:
            stream.flush()
        except SystemExit as lost:  # a stream that has an exit code of its own for lost output
            code = code or _exit_code(lost.code)
        except (OSError, ValueError):  # nobody reads any more, or it is closed
            code = code or _CANNOT_WRITE
    os._exit(code & 0xFF)


def _exit_code(asked: object) -> int:
    if asked is None or isinstance(asked, int):
        return asked or 0
    print(asked, file=sys.stderr)  # noqa: T201  # as Python does
    return 1
