"""Load code that a configuration names as `module:attribute`.

A module is searched for on Python's path first, then in the current folder.
"""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from typing import Any, Final

from assizes.judge.errors import ConfigurationError

_REFERENCE: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_LOAD_FAULTS: Final = (
    ImportError,
    SyntaxError,
    NameError,
    AttributeError,
    TypeError,
    ValueError,
    LookupError,
    OSError,
)
"""Exceptions that a user's module commonly raises while Python imports it."""

_FORMER_PACKAGES: Final = frozenset({"judge", "tasks", "flows", "deployments"})
"""Import names of this package's parts before they became parts of `assizes`."""


def load_reference(reference: str, setting: str, wanted: str) -> Any:
    """The attribute that `module:attribute` names.

    Args:
        reference: `module:attribute` from the configuration.
        setting: the setting that holds the reference, for messages.
        wanted: what the setting accepts, for messages.

    Raises:
        ConfigurationError: when the reference is malformed, the module cannot be imported, or it
            has no such attribute.
    """
    if not _REFERENCE.fullmatch(reference):
        raise ConfigurationError(f"{setting}: {reference!r}; {wanted}")
    module_name, _, attribute = reference.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        # At the end, so that a file of the current folder never hides an installed module.
        sys.path.append(here)
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(module_name)
    except _LOAD_FAULTS as error:
        reason = f"{type(error).__name__}: {error}{_moved(error)}"
        raise reference_error(setting, reference, f"cannot be imported: {reason}") from error
    if not hasattr(module, attribute):
        place = getattr(module, "__file__", None) or "built in"
        why = f"names nothing: module {module_name!r} ({place}) has no such"
        raise reference_error(setting, reference, why)
    return getattr(module, attribute)


def _moved(error: Exception) -> str:
    """Where a module of ours is now, if it was imported by the name that it had before."""
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if (missing or "").partition(".")[0] not in _FORMER_PACKAGES:
        return ""
    return f"; what Assizes called {missing!r} has moved into the package `assizes`"


def reference_error(setting: str, reference: str, why: str) -> ConfigurationError:
    """The error for a reference that cannot be used: setting, reference and reason in one line."""
    return ConfigurationError(f"{setting}: {reference!r} {' '.join(why.split())}")
