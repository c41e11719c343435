"""The environment while litellm is imported: litellm reads it then, and some values would end it."""

from __future__ import annotations

import importlib.util
import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

log = logging.getLogger(__name__)

# Without the variable, litellm fetches prices over the network.
_LOCAL_PRICES: Final = ("LITELLM_LOCAL_MODEL_COST_MAP", "True")
_LEVEL: Final = "LITELLM_LOG"
_NUMBERS: Final = re.compile(r"""\b(int|float)\(\s*os\.getenv\(\s*"(\w+)\"""")
"""A variable that litellm's constants read as a number."""


@contextmanager
def readable_environment() -> Iterator[None]:
    """Hide for a moment what litellm cannot read: empty variables, numbers and levels that are none.

    An empty variable counts as one that is not set, and for a wrong one litellm has its default; the
    log says so of a wrong one. What comes after finds the environment as it was.
    """
    before = dict(os.environ)
    wrong = [name for name in _unreadable(_source()) if before[name].strip()]
    for name in [*wrong, *(name for name, value in before.items() if not value.strip())]:
        del os.environ[name]
    for name in wrong:
        log.warning("%s: %.40r is ignored, litellm cannot read it", name, before[name])
    os.environ.update([_LOCAL_PRICES])
    try:
        yield
    finally:
        del os.environ[_LOCAL_PRICES[0]]
        hidden = {name: value for name, value in before.items() if name not in os.environ}
        os.environ.update(hidden)
        if _LOCAL_PRICES[0] in before:
            os.environ[_LOCAL_PRICES[0]] = before[_LOCAL_PRICES[0]]


def _source() -> str:
    """The text of litellm's constants; empty where it is elsewhere in another version."""
    spec = importlib.util.find_spec("litellm")
    folders = [] if spec is None else spec.submodule_search_locations or []
    files = [path for folder in folders if (path := Path(folder, "constants.py")).is_file()]
    return files[0].read_text(encoding="utf-8") if files else ""


def _unreadable(source: str) -> Iterator[str]:
    level = os.environ.get(_LEVEL)
    if level is not None and level.upper() not in logging.getLevelNamesMapping():
        yield _LEVEL
    for kind, name in dict.fromkeys(_NUMBERS.findall(source)):
        if name in os.environ:
            try:
                int(os.environ[name]) if kind == "int" else float(os.environ[name])
            except ValueError:
                yield name
