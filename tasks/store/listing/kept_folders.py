"""What was made of the names in a local folder, kept until the folder changes.

So a server does not list the files of a store for each request, which takes the longer the more
runs the store has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

from assizes.tasks.store.objects import Objects

T = TypeVar("T")

TICK_NS: Final = 2_000_000_000
"""Nanoseconds in which two changes of a file may have the same time, on coarse file systems."""

_MAX_KEPT: Final = 8  # folders


class _Kept(NamedTuple):
    mark: str  # of the folder, before it was listed
    made: Any


_kept: Final[dict[tuple[str, str], _Kept]] = {}  # by the root of the store, and the folder


def folder_mark(objects: Objects, folder: str) -> str | None:
    """A text that differs once a file came to a folder or went.

    It is `None` where that is not known: in a bucket, for a folder that is not there, and for one
    that changed a moment ago, as the next change may then have the same time.
    """
    now_ns = time.time_ns()
    state = (objects.states([folder]) or {}).get(folder)
    if state is None or now_ns - int(state.split("-")[1]) <= TICK_NS:
        return None
    return state


def kept_of_folder(objects: Objects, folder: str, make: Callable[[Sequence[str]], T]) -> T:
    """What a function makes of the names in a folder; it is called again once one came or went."""
    key, mark = (objects.where, folder), folder_mark(objects, folder)
    kept = _kept.get(key)
    if kept is not None and kept.mark == mark:
        made: T = kept.made
        return made
    made = make(objects.names(folder))
    _kept.pop(key, None)
    if mark is not None:
        while len(_kept) >= _MAX_KEPT:
            _kept.pop(next(iter(_kept)), None)
        _kept[key] = _Kept(mark, made)
    return made
