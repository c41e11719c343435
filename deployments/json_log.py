"""`--log-format json`: one JSON object a line on stderr, with ids, without what a model or a person said."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from assizes.deployments.terminal import json_text, print_stderr
from assizes.judge.errors import (
    ConfigurationError,
    Halted,
    NotComparable,
    OverBudget,
    ServerGone,
    StoreError,
)

PACKAGES: Final = ("assizes",)

MAX_REPEATS: Final = 5
"""So many warnings of one kind are written in a window; the next one after it says how many were not."""

WINDOW_S: Final = 60.0

_SAFE_ERRORS: Final = (
    ConfigurationError,
    StoreError,
    ServerGone,
    NotComparable,
    OverBudget,
    Halted,
)

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _RepeatCounts:
    since: float
    written: int = 0
    dropped: int = 0


class JsonLines(logging.Handler):
    """Writes what our packages log. An error is told by its kind: its text may quote a transcript.

    Of warnings and errors that repeat the first few are written; states of a run are all.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was seen yet."""
        super().__init__(logging.INFO)
        self._clock = clock
        self._counts: dict[tuple[str, int, str], _RepeatCounts] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """One line, unless there were too many of its kind just now."""
        dropped = self._count_dropped(record)
        if dropped is None:
            return
        body = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": " ".join(_message(record).split()),
            **dict(_ids()),
        }
        if record.exc_info and record.exc_info[0]:
            body["error"] = record.exc_info[0].__name__
        if dropped:
            body["not_repeated"] = dropped
        sys.stderr.write(json_text(body) + "\n")

    def _count_dropped(self, record: logging.LogRecord) -> int | None:
        """How many of its kind were left out since the last line; null: this one is left out too."""
        if record.levelno < logging.WARNING:
            return 0
        now = self._clock()
        kind = (record.name, record.levelno, str(record.msg))
        counts = self._counts.setdefault(kind, _RepeatCounts(now))
        if now - counts.since >= WINDOW_S:
            counts.since, counts.written = now, 0
        if counts.written >= MAX_REPEATS:
            counts.dropped += 1
            return None
        counts.written += 1
        dropped, counts.dropped = counts.dropped, 0
        return dropped


def use_json_log() -> None:
    """Have our packages log in JSON, and in nothing else."""
    handler = JsonLines()
    for package in PACKAGES:
        logger = logging.getLogger(package)
        logger.handlers = [handler]
        logger.setLevel(logging.INFO)


def is_json_log() -> bool:
    """Whether lines for people would stand among those for programs."""
    return any(
        isinstance(handler, JsonLines) for handler in logging.getLogger(PACKAGES[0]).handlers
    )


def tell_user(line: str, *, error: BaseException | None = None) -> None:
    """A line of the command itself on stderr: for people, or as one of the log in JSON.

    Args:
        line: what to say.
        error: what the command ends by; in JSON its kind is told, and its text only where it is
            about settings and places and not about a transcript.
    """
    if not is_json_log():
        print_stderr(line)
    elif error is None:
        _log.info("%s", line)
    else:
        text = line if isinstance(error, _SAFE_ERRORS) else "the command failed"
        _log.error("%s", text, exc_info=error)


def _message(record: logging.LogRecord) -> str:
    """The message with errors among its arguments by their kind."""
    if not isinstance(record.args, tuple):
        return record.getMessage()
    safe = tuple(
        type(argument).__name__ if isinstance(argument, BaseException) else argument
        for argument in record.args
    )
    return str(record.msg) % safe if safe else str(record.msg)


def _ids() -> Iterator[tuple[str, Any]]:
    """Ids of the flow run, the run, the shard and the attempt that a line is about."""
    if "prefect.context" not in sys.modules:
        return
    from prefect.context import FlowRunContext, TaskRunContext

    flow, task = FlowRunContext.get(), TaskRunContext.get()
    if flow is not None and flow.flow_run is not None:
        yield "flow_run", str(flow.flow_run.id)
    parameters = (flow.parameters if flow else None) or {}
    parameters = {**parameters, **(task.parameters if task else {})}
    run_id = parameters.get("run_id") or getattr(parameters.get("run"), "run_id", None)
    if run_id:
        yield "run_id", run_id
    if (config := parameters.get("config")) is not None and hasattr(config, "config_hash"):
        yield "config_hash", config.config_hash()
    if task is not None:
        yield "task", task.task_run.name
        yield "attempt", task.task_run.run_count
        if (shard := parameters.get("shard")) is not None:
            yield "shard", shard.shard_id
