"""What each command does; a module is imported when its first command runs, so that help is quick."""

from importlib import import_module
from types import ModuleType


def __getattr__(name: str) -> ModuleType:
    """The module of this folder with this name."""
    return import_module(f"{__name__}.{name}")
