"""What each command does; a module is imported when its first command runs: help is quick."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from assizes.deployments.commands import (
        case,
        demo,
        deploy,
        doctor,
        export,
        help,
        init,
        plan,
        report,
        run,
        show,
        sql,
        stores,
        triggered,
        trust,
        upkeep,
    )

__all__ = [
    "case",
    "demo",
    "deploy",
    "doctor",
    "export",
    "help",
    "init",
    "plan",
    "report",
    "run",
    "show",
    "sql",
    "stores",
    "triggered",
    "trust",
    "upkeep",
]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(name)
    return import_module(f"{__name__}.{name}")  # which sets the attribute: called once for each
