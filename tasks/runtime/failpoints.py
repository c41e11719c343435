"""Named places where a run can be made to die, so that tests can show that it does no harm.

    ASSIZES_FAILPOINT=name:nth[:kill|raise|exit]

the nth time the place is reached (counted from 1), the process kills itself with SIGKILL (the
default), raises `FailpointHit`, or exits with code 86 without cleaning up.
"""

from __future__ import annotations

import errno
import itertools
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Final

from assizes.judge.errors import ConfigurationError

VARIABLE: Final = "ASSIZES_FAILPOINT"
EXIT_CODE: Final = 86  # no command ends with it

_ACTIONS: Final = ("kill", "raise", "exit")

DECLARED: Final = (
    # a local folder
    *("folder.create.before", "folder.create.half", "folder.create.written"),
    *("folder.create.linked", "folder.create.after", "folder.replace.before"),
    *("folder.replace.written", "folder.replace.after"),
    # a bucket
    *("bucket.probe.before", "bucket.probe.half", "bucket.probe.after", "bucket.create.before"),
    *("bucket.create.after", "bucket.replace.before", "bucket.replace.after"),
    # the Parquet lake
    *("lake.begin.before", "lake.begin.planned", "lake.begin.after", "lake.part.before"),
    *("lake.part.after", "lake.mark.before", "lake.mark.after", "lake.finish.before"),
    *("lake.finish.after", "lake.comparison.before", "lake.comparison.after"),
    # the DuckDB file
    *("warehouse.open.connected", "warehouse.open.half", "warehouse.open.after"),
    *("warehouse.begin.inside", "warehouse.begin.after", "warehouse.commit.rows"),
    *("warehouse.commit.marked", "warehouse.commit.after", "warehouse.finish.deleted"),
    *("warehouse.finish.inserted", "warehouse.finish.after", "warehouse.close.before"),
    *("warehouse.close.after", "warehouse.forget.deleted", "warehouse.forget.after"),
    *("journal.append.before", "journal.append.half", "journal.append.after"),
    # the run
    *("plan.listed", "plan.begun", "shard.read", "shard.judged", "shard.committed"),
    *("summary.before", "summary.computed", "comparison.computed", "report.half"),
    *("report.written", "report.replaced", "replies.put.before", "replies.put.half"),
    *("replies.put.written", "replies.put.after"),
    # upkeep
    *("gc.listed", "gc.remove.before", "gc.remove.after", "rewrite.part.before"),
    *("rewrite.part.after", "rewrite.publish.before", "rewrite.publish.after", "rebuild.before"),
    *("rebuild.aside", "rebuild.half", "rebuild.after"),
)
"""Every failpoint of runs and stores; a test sees that each is in the code and is hit."""

PUBLISHING: Final = (
    *("publish.before", "publish.noted", "publish.answered", "publish.sent", "publish.recorded"),
)
"""The failpoints between the steps in which scores are sent elsewhere."""

_lock = threading.Lock()


class FailpointHit(OSError):
    """What a failpoint raises when told to; an OSError, like the fault of a disk or a network."""


@dataclass(frozen=True)
class _ArmedFailpoint:
    name: str
    nth: int  # from 1
    action: str
    hits: itertools.count[int] = field(default_factory=lambda: itertools.count(1))


_armed: _ArmedFailpoint | None = None


def failpoint(name: str, before: Callable[[], object] | None = None) -> None:
    """End the process or raise here, if this failpoint is armed and this is its nth hit.

    `before` is called first: it can write half of what was to be written, for example.

    Raises:
        FailpointHit: when armed with `raise`.
    """
    if _armed is not None and _armed.name == name:  # one comparison, where none is armed
        _hit(_armed, before)


def arm(text: str | None) -> None:
    """Arm a failpoint, written as in the environment variable; `None` or an empty text disarms.

    Raises:
        ConfigurationError: when there is no such failpoint, or it is written in another way.
    """
    global _armed  # noqa: PLW0603  # one process, one failpoint
    if not text:
        _armed = None
        return
    name, _, rest = text.partition(":")
    nth, _, action = rest.partition(":")
    if name not in (known := (*DECLARED, *PUBLISHING)):
        raise ConfigurationError.unknown("failpoint", name, known, VARIABLE)
    if not (nth or "1").isdecimal() or (action or "kill") not in _ACTIONS:
        raise ConfigurationError(
            f"{VARIABLE}: {text!r}; accepted: name:nth or name:nth:{'|'.join(_ACTIONS)}"
        )
    _armed = _ArmedFailpoint(name, int(nth or "1"), action or "kill")


def _hit(armed: _ArmedFailpoint, before: Callable[[], object] | None) -> None:
    with _lock:  # threads reach a place together, and exactly one is the nth
        if next(armed.hits) != armed.nth:
            return
        if before is not None:
            before()
        if armed.action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if armed.action == "exit":
            os._exit(EXIT_CODE)
    raise FailpointHit(errno.EIO, f"failpoint {armed.name}")


@cache
def arm_from_environment() -> None:
    """Arm the failpoint that the environment variable names; only the first call of a process does.

    Raises:
        ConfigurationError: as for `arm`.
    """
    if wanted := os.environ.get(VARIABLE):
        arm(wanted)
