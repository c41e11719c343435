"""Keeps secrets out of what Prefect and the log get to see: parameters, errors, lines.

And keeps out of our flows what somebody put into Prefect's result storage: results are JSON, but a
stored one says itself how it is to be read, and a pickle runs what it holds.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from assizes.judge.privacy.secret_masking import concealed, concealed_values, know, secrets_in
from assizes.tasks.runtime.log_records import clean_log

if TYPE_CHECKING:
    from prefect import Flow, Task

_Made = TypeVar("_Made", bound="Flow[..., Any] | Task[..., Any]")

_LONGEST_CHAIN: Final = 20
"""Errors behind an error that are looked at."""


def discreet(made: _Made) -> _Made:
    """A flow or task whose errors carry no secret, and a flow whose recorded parameters do not.

    Within it no result is read that is a pickle: a flow run that is tried again reads those of its
    subflows from the storage.

    Prefect records what a flow is called with before the configuration refuses a secret in it.
    """
    keep_secrets()
    _refuse_pickles()
    made.fn = _sealed(made.fn)
    flow: Any = made  # Prefect has no hook for this
    if (recorded := getattr(flow, "serialize_parameters", None)) is not None:
        flow.serialize_parameters = lambda parameters: concealed_values(recorded(parameters))
    return made


def keep_secrets() -> None:
    """Learn the secrets of the environment as it is now, and hide them in every line of every log."""
    know(secrets_in(os.environ))
    clean_log(concealed, hide)


_OURS: Final = ContextVar("assizes_flow", default=False)


def _refuse_pickles() -> None:
    """Have Prefect read no pickle while a flow or task of ours runs; flows of others read theirs."""
    from prefect.serializers import PickleSerializer

    load = PickleSerializer.loads
    if hasattr(load, "__wrapped__"):
        return

    @wraps(load)
    def loads(self: PickleSerializer[Any], blob: bytes) -> Any:
        if _OURS.get():
            raise ValueError(
                "a result in Prefect's storage is a pickle, which is not read; ours are JSON"
            )
        return load(self, blob)

    PickleSerializer.loads = loads  # type: ignore[method-assign]  # Prefect has no setting for it


class _Seal:
    """Marks what runs as ours, and hides secrets in an error that passes."""

    def __enter__(self) -> None:
        keep_secrets()
        self._before = _OURS.set(True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        _OURS.reset(self._before)
        if error is not None:
            hide(error)


def hide(error: BaseException) -> None:
    """Hide secrets in the texts of an error and of those behind it."""
    left: list[BaseException | None] = [error]
    seen: set[int] = set()
    while left and len(seen) < _LONGEST_CHAIN:
        one = left.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        shown = tuple(concealed(said) if isinstance(said, str) else said for said in one.args)
        if shown != one.args:
            one.args = shown
        left += [one.__cause__, one.__context__]


def _sealed(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def sealed(*args: Any, **named: Any) -> Any:
        with _Seal():
            return await function(*args, **named)

    # Prefect would look for the types of the parameters among the names of this module.
    sealed.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]
    return sealed
