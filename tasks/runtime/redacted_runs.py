"""Flow runs and task runs that prepare their process, hide secrets, and read no pickles.

Prefect has no hook for a function that runs before each run in a process, so `redacts_secrets` wraps
the functions that flows and tasks are made of.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TypeVar

from assizes.judge.privacy.secret_masking import mask_values
from assizes.tasks.runtime.log_redaction import mask_error
from assizes.tasks.runtime.process import prepare_process

if TYPE_CHECKING:
    from prefect import Flow, Task

_Made = TypeVar("_Made", bound="Flow[..., Any] | Task[..., Any]")

_IN_OUR_FLOW: Final = ContextVar("assizes_flow", default=False)


def redacts_secrets(flow_or_task: _Made) -> _Made:
    """A flow or task whose errors carry no secret, and a flow whose recorded parameters do not.

    Within a run no result is read that is a pickle: a flow run that is tried again reads the results
    of its subflows from Prefect's storage, and a pickle in there runs what it holds.
    """
    flow_or_task.fn = _masked(flow_or_task.fn)
    flow: Any = flow_or_task
    # Prefect records and validates what a flow is called with before its function runs, and before
    # our configuration has refused a secret among the parameters.
    if (serialize := getattr(flow, "serialize_parameters", None)) is not None:
        flow.serialize_parameters = lambda parameters: mask_values(serialize(parameters))
    if (validate := getattr(flow, "validate_parameters", None)) is not None:
        flow.validate_parameters = _prepared(validate)
    return flow_or_task


def _prepared(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def prepared_call(*args: Any, **kwargs: Any) -> Any:
        prepare_process()
        return function(*args, **kwargs)

    return prepared_call


def _masked(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    async def masked_call(*args: Any, **kwargs: Any) -> Any:
        prepare_process()
        _refuse_pickles()
        with _OurRun():
            return await function(*args, **kwargs)

    # Prefect would look for the types of the parameters among the names of this module.
    masked_call.__signature__ = inspect.signature(function, eval_str=True)  # type: ignore[attr-defined]
    return masked_call


class _OurRun:
    """Marks its block as a run of ours, and hides secrets in an error that leaves the block."""

    def __enter__(self) -> None:
        self._before = _IN_OUR_FLOW.set(True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _IN_OUR_FLOW.reset(self._before)
        if error is not None:
            mask_error(error)


def _refuse_pickles() -> None:
    """Have Prefect read no pickle while a flow or task of ours runs; flows of others read theirs.

    A stored result names the serializer that reads it, so a JSON serializer of ours alone does not
    keep Prefect from unpickling what somebody put into the storage. Prefect has no setting for that.
    """
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

    PickleSerializer.loads = loads  # type: ignore[method-assign]
