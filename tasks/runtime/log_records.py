"""One factory of log records: what every line of every log goes through before anybody sees it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any, TypeAlias

OfText: TypeAlias = Callable[[str], str]
OfError: TypeAlias = Callable[[BaseException], None]


def clean_log(text: OfText, error: OfError | None = None) -> None:
    """Have every line, tracebacks included, go through this as well; once, however often it is said.

    Args:
        text: what becomes of a line.
        error: what is done to an error that is logged, before its traceback is written.
    """
    make = logging.getLogRecordFactory()
    if not isinstance(make, _Clean):
        make = _Clean(make)
        logging.setLogRecordFactory(make)
    make.add(text, error)


class _Clean:
    """Makes log records for every logger, ours and those of libraries."""

    def __init__(self, make: Callable[..., logging.LogRecord]) -> None:
        self._make = make
        self._steps: tuple[tuple[OfText, OfError | None], ...] = ()

    def add(self, text: OfText, error: OfError | None) -> None:
        """One step more, behind those there are."""
        if (text, error) not in self._steps:
            self._steps = (*self._steps, (text, error))

    def __call__(self, *args: Any, **named: Any) -> logging.LogRecord:
        record = self._make(*args, **named)
        try:
            said = record.getMessage()
        except (TypeError, ValueError, KeyError):
            return record  # logging itself says what is wrong with the line
        if (shown := self._cleaned(said)) != said:
            record.msg, record.args = shown, ()
        if record.exc_info and (raised := record.exc_info[1]) is not None:
            for _, error in self._steps:
                if error is not None:
                    error(raised)
            trace = "".join(traceback.format_exception(raised)).rstrip("\n")
            record.exc_text = self._cleaned(trace)
        return record

    def _cleaned(self, text: str) -> str:
        for step, _ in self._steps:
            text = step(text)
        return text
