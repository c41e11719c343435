"""What reaches a terminal: printable text, or with `--log-format json` one JSON object a line."""

from __future__ import annotations

import json
import logging
import math
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from assizes.judge import errors
from assizes.tasks.runtime.process import CleanLine, clean_log, message_without_errors


def printable(text: str, keep: str = "") -> str:
    """The text with a blank in place of each unprintable character that is not one of `keep`."""
    if text.isprintable():
        return text
    # Terminal escapes can rename a window, or overwrite or hide a line; direction overrides show
    # characters in another order (Boucher and Anderson 2021, "Trojan Source").
    return "".join(char if char.isprintable() or char in keep else " " for char in text)


def print_stderr(text: str) -> None:
    """Write one line to stderr, looked up at each call because a progress bar redirects it."""
    _write_stderr(f"assizes: {printable(' '.join(text.split()))}\n")


def _write_stderr(text: str) -> None:
    with suppress(OSError):  # nobody reads it any more: the command and its exit code stay the same
        sys.stderr.write(text)
        sys.stderr.flush()


class StderrLines(logging.Handler):
    """Prints records as lines of the command; a `StreamHandler` would miss a redirected stderr."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the message of a record as one line, of a warning or an error with its level."""
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        print_stderr(f"{level}{record.getMessage()}")


def json_text(document: Any, indent: int | None = None) -> str:
    """A JSON document whose unprintable characters are written as escapes, which parse the same.

    NaN and infinities, for which JSON has no number, are `null`.
    """
    try:
        text = _dumped(document, indent)
    except ValueError:
        text = _dumped(_without_infinities(document), indent)
    if text.replace("\n", "").isprintable():
        return text
    return "".join(
        char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text
    )


def _dumped(document: Any, indent: int | None) -> str:
    return json.dumps(document, indent=indent, ensure_ascii=False, default=str, allow_nan=False)


def _without_infinities(value: Any) -> Any:
    """The same document with `null` for each number that is not finite."""
    if isinstance(value, dict):
        return {name: _without_infinities(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinities(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def own_command() -> str:
    """What a person types to call this program again: `assizes`, or its path off the PATH."""
    called = Path(sys.argv[0])
    on_path = shutil.which("assizes")
    is_elsewhere = on_path is None or Path(on_path).resolve() != called.resolve()
    return str(called) if called.name == "assizes" and is_elsewhere else "assizes"


def keep_log_printable() -> None:
    """Make every line of every log printable text, tracebacks included."""
    clean_log(lambda text: printable(text, "\n\t"))


PACKAGES: Final = ("assizes.judge", "assizes.tasks", "assizes.flows", "assizes.deployments")
"""The loggers above all loggers of this package."""


def print_warnings() -> None:
    """Print the warnings of this package as lines on stderr."""
    for package in PACKAGES[:3]:  # what the edge has to say, it prints itself
        logging.getLogger(package).addHandler(StderrLines(logging.WARNING))


MAX_REPEATS: Final = 5
"""Warnings of one kind that are written in one window of `WINDOW_S`; further warnings are counted,
and the first warning of a later window gives their number."""

WINDOW_S: Final = 60.0
"""Seconds of a window of `MAX_REPEATS` warnings."""

_SAFE_ERRORS: Final = (
    errors.ConfigurationError,
    errors.StoreError,
    errors.ServerGone,
    errors.NotComparable,
    errors.OverBudget,
    errors.Halted,
)
"""Errors whose messages are about settings and places, never about a transcript."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _RepeatCounts:
    """Warnings of one kind in the current window."""

    since: float  # monotonic seconds at which the window began
    written: int = 0  # in the window
    dropped: int = 0  # since the last one that was written


class JsonLines(logging.Handler):
    """A log handler that writes each record of this package as one JSON object."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with no counts; `clock` is monotonic time in seconds."""
        super().__init__(logging.INFO)
        self._clock = clock
        self._counts: dict[tuple[str, int, str], _RepeatCounts] = {}  # (logger, level, template)

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record as one line, unless too many records of its kind were written just now."""
        dropped = self._count_dropped(record)
        if dropped is None:
            return
        body = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": " ".join(message_without_errors(record).split()),
            **dict(_ids()),
        }
        if record.exc_info and record.exc_info[0]:
            body["error"] = record.exc_info[0].__name__  # the message may quote a transcript
        if dropped:
            body["not_repeated"] = dropped
        _write_stderr(json_text(body) + "\n")

    def _count_dropped(self, record: logging.LogRecord) -> int | None:
        """How many of this kind were dropped since the last line; `None`: so is this record."""
        if record.levelno < logging.WARNING:  # the states of a run: all are written
            return 0
        now = self._clock()
        template = record.msg.template if isinstance(record.msg, CleanLine) else str(record.msg)
        kind = (record.name, record.levelno, template)  # one kind, whatever the arguments
        counts = self._counts.setdefault(kind, _RepeatCounts(now))
        if now - counts.since >= WINDOW_S:
            counts.since, counts.written = now, 0  # `dropped` stays: the next line gives it
        if counts.written >= MAX_REPEATS:
            counts.dropped += 1
            return None
        counts.written += 1
        dropped, counts.dropped = counts.dropped, 0
        return dropped


def use_json_log() -> None:
    """Make this package log in JSON, and in no other format."""
    handler = JsonLines()
    for package in PACKAGES:
        logger = logging.getLogger(package)
        logger.handlers = [handler]  # in place of `StderrLines`, which `main` adds
        logger.setLevel(logging.INFO)


def is_json_log() -> bool:
    """Whether `use_json_log` was called: lines for people must not be mixed with JSON lines."""
    return any(
        isinstance(handler, JsonLines) for handler in logging.getLogger(PACKAGES[0]).handlers
    )


def tell_user(line: str, *, error: BaseException | None = None) -> None:
    """Write a line of the command to stderr; of the `error` that ends it, JSON has the class."""
    if not is_json_log():
        print_stderr(line)
    elif error is None:
        _log.info("%s", line)
    else:
        text = line if isinstance(error, _SAFE_ERRORS) else "the command failed"
        _log.error("%s", text, exc_info=error)


def _ids() -> Iterator[tuple[str, Any]]:
    """The ids that a line belongs to: flow run, run, configuration, task, attempt and shard."""
    if "prefect.context" not in sys.modules:  # nothing imported Prefect: there is no flow run
        return
    from prefect.context import FlowRunContext, TaskRunContext

    flow, task = FlowRunContext.get(), TaskRunContext.get()
    if flow is not None and flow.flow_run is not None:
        yield "flow_run", str(flow.flow_run.id)
    parameters = (flow.parameters if flow else None) or {}
    parameters = {**parameters, **(task.parameters if task else {})}  # a task's own come first
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
