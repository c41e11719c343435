"""Commands about failures: their causes, and the suites that keep them from coming back."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assizes.deployments.commands.failures import causes, codebook

__all__ = ["causes", "codebook"]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(name)
    return import_module(f"{__name__}.{name}")
