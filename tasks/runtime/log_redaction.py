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

from assizes.judge.privacy.secret_masking import mask, mask_values, register_secrets, secrets_in
from assizes.tasks.runtime.log_records import clean_log

if TYPE_CHECKING:
    from prefect import Flow, Task

_Made = TypeVar("_Made", bound="Flow[..., Any] | Task[..., Any]")

_LONGEST_CHAIN: Final = 20
"""Errors behind an error that are looked at."""


def redacts_secrets(flow_or_task: _Made) -> _Made:
    """A flow or task whose errors carry no secret, and a flow whose recorded parameters do not.

    Within it no result is read that is a pickle: a flow run that is tried again reads those of its
    subflows from the storage.

    Prefect records what a flow is called with before the configuration refuses a secret in it.
    """
    install_log_redaction()
    _refuse_pickles()
    flow_or_task.fn = _with_masking(flow_or_task.fn)
    flow: Any = flow_or_task  # Prefect has no hook for this
    if (recorded := getattr(flow, "serialize_parameters", None)) is not None:
        flow.serialize_parameters = lambda parameters: mask_values(recorded(parameters))
    return flow_or_task


def install_log_redaction() -> None:
    """Learn the secrets of the environment as it is now, and hide them in every line of every log."""
    register_secrets(secrets_in(os.environ))
    clean_log(mask, mask_error)


_IN_OUR_FLOW: Final = ContextVar("assizes_flow", default=False)


def _refuse_pickles() -> None:
    """Have Prefect read no pickle while a flow or task of ours runs; flows of others read theirs."""
    from prefect.serializers import PickleSerializer

    load = PickleSerializer.loads
    if hasattr(load, "__wrapped__"):
        return

    @wraps(load)
    def loads(self: PickleSerializer[Any], blob: bytes) -> Any:
        if _IN_OUR_FLOW.get():
            raise ValueError(
                "a result in Prefect's storage is a pickle, which is not read; ours are JSON"
            )
        return load(self, blob)

    PickleSerializer.loads = loads  # type: ignore[method-assign]  # Prefect has no setting for it


class _SecretMasking:
    """Marks what runs as ours, and hides secrets in an error that passes."""

    def __enter__(self) -> None:
        install_log_redaction()
        self._before = _IN_OUR_FLOW.set(True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        _IN_OUR_FLOW.reset(self._before)
        if error is not None:
            mask_error(error)


def mask_error(error: BaseException) -> None:
    """Hide secrets in the texts of an error and of those behind it."""
    pending: list[BaseException | None] = [error]
    seen: set[int] = set()
    while pending and len(seen) < _LONGEST_CHAIN:
        current = pending.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        masked_args = tuple(mask(arg) if isinstance(arg, str) else arg for arg in current.args)
        if masked_args != current.args:
            current.args = masked_args
        pending += [current.__cause__, current.__context__]


def _with_masking(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def masked_call(*args: Any, **kwargs: Any) -> Any:
        with _SecretMasking():
            return await function(*args, **kwargs)

    # Prefect would look for the types of the parameters among the names of this module.
    masked_call.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]
    return masked_call
