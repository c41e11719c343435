"""`--log-format json`: one JSON object a line on stderr, with ids, without what a model or a person said."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from deployments.terminal import json_text

PACKAGES: Final = ("judge", "tasks", "flows", "deployments")

REPEATS: Final = 5
"""So many lines of one kind are written in a window; the next one after it says how many were not."""

WINDOW_S: Final = 60.0


@dataclass(slots=True)
class _Seen:
    since: float
    written: int = 0
    dropped: int = 0


class JsonLines(logging.Handler):
    """Writes what our packages log. An error is told by its kind: its text may quote a transcript."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing was seen yet."""
        super().__init__(logging.INFO)
        self._clock = clock
        self._seen: dict[tuple[str, int, str], _Seen] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """One line, unless there were too many of its kind just now."""
        dropped = self._passed(record)
        if dropped is None:
            return
        body = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": " ".join(record.getMessage().split()),
            **dict(_ids()),
        }
        if record.exc_info and record.exc_info[0]:
            body["error"] = record.exc_info[0].__name__
        if dropped:
            body["not_repeated"] = dropped
        sys.stderr.write(json_text(body) + "\n")

    def _passed(self, record: logging.LogRecord) -> int | None:
        """How many of its kind were left out since the last line; null where this one is as well."""
        now = self._clock()
        kind = (record.name, record.levelno, str(record.msg))
        seen = self._seen.setdefault(kind, _Seen(now))
        if now - seen.since >= WINDOW_S:
            seen.since, seen.written = now, 0
        if seen.written >= REPEATS:
            seen.dropped += 1
            return None
        seen.written += 1
        dropped, seen.dropped = seen.dropped, 0
        return dropped


def log_json() -> None:
    """Have our packages log in JSON, and in nothing else."""
    handler = JsonLines()
    for package in PACKAGES:
        logger = logging.getLogger(package)
        logger.handlers = [handler]
        logger.setLevel(logging.INFO)


def logs_json() -> bool:
    """Whether lines for people would stand among those for programs."""
    return any(isinstance(one, JsonLines) for one in logging.getLogger(PACKAGES[0]).handlers)


def _ids() -> Iterator[tuple[str, Any]]:
    """Ids of the flow run, the run, the shard and the attempt that a line is about."""
    if "prefect.context" not in sys.modules:
        return
    from prefect.context import FlowRunContext, TaskRunContext

    flow, task = FlowRunContext.get(), TaskRunContext.get()
    if flow is not None and flow.flow_run is not None:
        yield "flow_run", str(flow.flow_run.id)
    given = (flow.parameters if flow else None) or {}
    given = {**given, **(task.parameters if task else {})}
    run_id = given.get("run_id") or getattr(given.get("run"), "run_id", None)
    if run_id:
        yield "run_id", run_id
    if (config := given.get("config")) is not None and hasattr(config, "config_hash"):
        yield "config_hash", config.config_hash()
    if task is not None:
        yield "task", task.task_run.name
        yield "attempt", task.task_run.run_count
        if (shard := given.get("shard")) is not None:
            yield "shard", shard.shard_id
