"""One factory of log records: what every line of every log goes through before anybody sees it."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from typing import Any, TypeAlias

TextFilter: TypeAlias = Callable[[str], str]
ErrorFilter: TypeAlias = Callable[[BaseException], None]


def clean_log(text: TextFilter, error: ErrorFilter | None = None) -> None:
    """Have every line, tracebacks included, go through this as well; once, however often it is said.

    Args:
        text: what becomes of a line.
        error: what is done to an error that is logged, before its traceback is written.
    """
    make = logging.getLogRecordFactory()
    if not isinstance(make, _CleanRecordFactory):
        make = _CleanRecordFactory(make)
        logging.setLogRecordFactory(make)
    make.add(text, error)


class _CleanRecordFactory:
    """Makes log records for every logger, ours and those of libraries."""

    def __init__(self, make: Callable[..., logging.LogRecord]) -> None:
        self._make = make
        self._steps: tuple[tuple[TextFilter, ErrorFilter | None], ...] = ()

    def add(self, text: TextFilter, error: ErrorFilter | None) -> None:
        """One step more, behind those there are."""
        if (text, error) not in self._steps:
            self._steps = (*self._steps, (text, error))

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self._make(*args, **kwargs)
        try:
            message = record.getMessage()
        except (TypeError, ValueError, KeyError):
            return record  # logging itself says what is wrong with the line
        if (clean_message := self._clean_text(message)) != message:
            record.msg, record.args = clean_message, ()
        if record.exc_info and (raised := record.exc_info[1]) is not None:
            for _, error in self._steps:
                if error is not None:
                    error(raised)
            trace = "".join(traceback.format_exception(raised)).rstrip("\n")
            record.exc_text = self._clean_text(trace)
        return record

    def _clean_text(self, text: str) -> str:
        for step, _ in self._steps:
            text = step(text)
        return text
