"""What every process of ours does around its work: it hides secrets, and ends as it should.

Commands call `prepare_process` when they start; every flow run and task run does so before anything
else. Importing a module of ours changes nothing in a process (decision 111).
"""

from __future__ import annotations

import inspect
import logging
import os
import signal
import sys
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from assizes.judge.privacy.secret_masking import mask, mask_values, register_secrets, secrets_in
from assizes.tasks.runtime.failpoints import arm_from_environment
from assizes.tasks.runtime.file_modes import restrict_new_files
from assizes.tasks.runtime.outage_log import install_outage_filter
from assizes.tasks.runtime.own_process import collect_seldom

if TYPE_CHECKING:
    from prefect import Flow, Task

TextFilter: TypeAlias = Callable[[str], str]
ErrorFilter: TypeAlias = Callable[[BaseException], None]

_Made = TypeVar("_Made", bound="Flow[..., Any] | Task[..., Any]")

TELEMETRY_OFF: Final[Mapping[str, str]] = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
}
"""Without these settings Prefect and its server report to their makers; a value that the user has
set already is kept."""

_OF_WORKER: Final = "PREFECT__FLOW_RUN_ID"
"""The variable that Prefect sets in a process that it starts for a flow run."""

# Raised by a template that fits no argument, or by an argument's own `__str__`.
_TEXT_ERRORS: Final = (AttributeError, LookupError, RuntimeError, TypeError, ValueError)
_MOST_ERRORS: Final = 1000  # errors looked at: causes, contexts and members of groups

_in_our_flow: Final = ContextVar("assizes_flow", default=False)  # while True, no pickle is read
_ends_on_sigterm: ContextVar[bool] = ContextVar("asked", default=False)  # set by commands only


def prepare_process() -> None:
    """Switch telemetry off, hide the secrets of the environment in all log lines, arm a failpoint.

    In a process that a worker started for a flow run, new files are for their owner (`file_modes`),
    and the garbage collector runs seldom (`own_process`).
    An outage of the Prefect server becomes one line.

    Raises:
        ConfigurationError: when `ASSIZES_FAILPOINT` names no failpoint, or `ASSIZES_UMASK` no mask.
    """
    for name, value in TELEMETRY_OFF.items():
        os.environ.setdefault(name, value)
    if _OF_WORKER in os.environ:
        restrict_new_files()
        collect_seldom()
    install_log_redaction()  # cheap when called again; learns secrets that have come since
    install_outage_filter()
    arm_from_environment()


def install_log_redaction() -> None:
    """Learn the secrets of the environment as it is now, and hide them in all lines of all logs."""
    register_secrets(secrets_in(os.environ))
    clean_log(mask, mask_error)


def mask_error(error: BaseException) -> None:
    """Hide secrets in the arguments of an error, of what it came from and of members of groups."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()  # by id: causes and contexts can form a circle
    while pending and len(seen) < _MOST_ERRORS:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        masked_args = tuple(mask(arg) if isinstance(arg, str) else arg for arg in current.args)
        if masked_args != current.args:
            current.args = masked_args
        pending += [current.__cause__, current.__context__]
        if isinstance(current, BaseExceptionGroup):
            pending += current.exceptions


def clean_log(text: TextFilter, error: ErrorFilter | None = None) -> None:
    """Have every line of every log, tracebacks included, go through `text` as well.

    `error` is called with an error that is logged, before its traceback is written.
    """
    # A factory, not a handler: Prefect, litellm and users have their own handlers (decision 98).
    make = logging.getLogRecordFactory()
    if not isinstance(make, _CleanRecordFactory):
        make = _CleanRecordFactory(make)
        logging.setLogRecordFactory(make)
    if (text, error) not in make.steps:  # saying the same again changes nothing
        make.steps = (*make.steps, (text, error))


class CleanLine(str):
    """The message of a record that needed cleaning, in place of its template and arguments."""

    template: str  # these two are clean as well
    without_errors: str


def message_without_errors(record: logging.LogRecord) -> str:
    """The message of a record, with the class name in place of each error among its arguments."""
    if isinstance(record.msg, CleanLine):
        return record.msg.without_errors
    if not isinstance(record.args, tuple):  # a mapping, for %(name)s in the template
        return record.getMessage()
    safe = tuple(
        type(argument).__name__ if isinstance(argument, BaseException) else argument
        for argument in record.args
    )
    return str(record.msg) % safe if safe else str(record.msg)  # without arguments % is a %


class _CleanRecordFactory:
    """Makes log records for every logger, ours and those of libraries."""

    def __init__(self, make: Callable[..., logging.LogRecord]) -> None:
        self._make = make
        self.steps: tuple[tuple[TextFilter, ErrorFilter | None], ...] = ()  # applied in this order

    def __call__(self, *args: Any, **kwargs: Any) -> logging.LogRecord:
        record = self._make(*args, **kwargs)
        message = _text_or_none(record.getMessage)
        if message is None:  # logging itself says what is wrong, and shows template and arguments
            self._clean_parts(record)
        elif (clean_message := self._clean(message)) != message:
            line = CleanLine(clean_message)
            line.template = self._clean(str(record.msg))
            line.without_errors = self._clean(message_without_errors(record))
            record.msg, record.args = line, ()  # a `%` in it is not formatted again
        if record.exc_info and (raised := record.exc_info[1]) is not None:
            for _, error in self.steps:
                if error is not None:
                    error(raised)
            lines = "".join(traceback.format_exception(raised)).rstrip("\n")
            record.exc_text = self._clean(lines)
        return record

    def _clean(self, text: str) -> str:
        for step, _ in self.steps:
            text = step(text)
        return text

    def _clean_parts(self, record: logging.LogRecord) -> None:
        record.msg = self._clean_part(record.msg)
        if isinstance(record.args, Mapping):
            record.args = {name: self._clean_part(part) for name, part in record.args.items()}
        else:
            record.args = tuple(self._clean_part(part) for part in record.args or ())

    def _clean_part(self, part: Any) -> Any:
        """The part itself, or in its place a clean text if what it shows needs cleaning."""
        text = part if isinstance(part, str) else _text_or_none(partial(repr, part))
        if text is None or (clean_text := self._clean(text)) == text:
            return part
        return clean_text


def _text_or_none(make: Callable[[], str]) -> str | None:
    """What a function returns; `None` if it raises: it calls methods of what somebody logs."""
    try:
        return make()
    except _TEXT_ERRORS:
        return None


def redacts_secrets(flow_or_task: _Made) -> _Made:
    """A flow or task whose errors carry no secret, and a flow whose recorded parameters do not.

    While it runs, no result that is a pickle is read.
    """
    # Prefect has no hook that runs before each run in a process.
    flow_or_task.fn = _masked(flow_or_task.fn)
    flow: Any = flow_or_task
    # Prefect records and validates what a flow is called with before its function runs, and before
    # our configuration has refused a secret among the parameters.
    if (serialize := getattr(flow, "serialize_parameters", None)) is not None:
        flow.serialize_parameters = lambda parameters: mask_values(serialize(parameters))
    if (validate := getattr(flow, "validate_parameters", None)) is not None:

        @wraps(validate)
        def prepared_call(*args: Any, **kwargs: Any) -> Any:
            prepare_process()
            return validate(*args, **kwargs)

        flow.validate_parameters = prepared_call
    return flow_or_task


def _masked(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def masked_call(*args: Any, **kwargs: Any) -> Any:
        prepare_process()
        _refuse_pickles()
        token = _in_our_flow.set(True)
        try:
            return await function(*args, **kwargs)
        finally:
            _in_our_flow.reset(token)
            if (error := sys.exception()) is not None:
                mask_error(error)

    # Prefect would look for the types of the parameters among the names of this module.
    masked_call.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]
    return masked_call


def _refuse_pickles() -> None:
    """Have Prefect read no pickle while a flow or task of ours runs; others read theirs."""
    from prefect.serializers import PickleSerializer

    # An attack: a flow run that is tried again reads stored results, and a planted pickle runs
    # what it holds. A result names its own serializer, so our use of JSON does not prevent it.
    load = PickleSerializer.loads
    if hasattr(load, "__wrapped__"):  # replaced already
        return

    @wraps(load)
    def loads(self: PickleSerializer[Any], blob: bytes) -> Any:
        if _in_our_flow.get():
            raise ValueError(
                "a result in Prefect's storage is a pickle, which is not read; ours are JSON"
            )
        return load(self, blob)

    PickleSerializer.loads = loads  # type: ignore[method-assign]


@contextmanager
def interrupt_on_sigterm() -> Iterator[None]:
    """For the length of a command and its runs, SIGTERM ends it as Ctrl-C does, with exit code 130.

    What is in flight is kept, and nothing new is asked. A script's shell starts `assizes run &` with
    SIGINT ignored; for the length of the block SIGINT is taken again, else SIGTERM would do nothing.
    """
    # Prefect turns the signal into an exception anywhere in a flow: right for a deployment only.
    token = _ends_on_sigterm.set(True)
    is_ignored = signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    if is_ignored:
        # asyncio cancels the work in order, but only where it finds Python's own handler.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with handle_sigterm():
            yield
    finally:
        _ends_on_sigterm.reset(token)
        if is_ignored:
            signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def handle_sigterm() -> Iterator[None]:
    """Have SIGTERM act as Ctrl-C in the block; the engine of a flow replaces an outer handler."""
    # Python sets signal handlers in the main thread only.
    if not _ends_on_sigterm.get() or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Closing(ABC):
    """Calls its `close` when its `with` block is left, however that is."""

    @abstractmethod
    def close(self) -> object:
        """Release what is held; closing again does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
