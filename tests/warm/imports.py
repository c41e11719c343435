"""Imports libraries ahead of time, and lets each command import them at its own time.

A library that reads the environment while it is imported is taken out of `sys.modules` again. The first import
of it in a child puts it back, and has it read the environment of that moment.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from assizes import flows, judge, tasks
from assizes.deployments import cli
from assizes.deployments.settings import PREFECT_DEFAULTS, prepare_environment
from assizes.judge.injection.families import matching_families

LIBRARIES = (
    "duckdb",
    "polars",
    "scipy.stats",
    "scipy.optimize",
    "scipy.cluster.hierarchy",
    "sklearn.feature_extraction.text",
    "altair",
    "vl_convert",
    "fastapi",
    "uvicorn",
    "s3fs",
    "rich.console",
    "psutil",
)
PREFECT = (
    "prefect.flows",
    "prefect.main",
    "prefect.artifacts",
    "prefect.events",
    "prefect.flow_engine",
    "prefect.task_engine",
)
SEAM = "assizes.judge.models."
"""Where modules import litellm; no other of ours reads the environment while it is imported."""

_SETTINGS_FILES = (".env", "prefect.toml", "pyproject.toml")
"""Files of the working directory in which Prefect looks for settings."""

_PRICES = "LITELLM_LOCAL_MODEL_COST_MAP"  # as `assizes.judge.models.litellm_model` imports it


def import_libraries() -> list[KeptPackage]:
    """Import all that a command can need; returns the packages that a child has yet to import."""
    before = dict(os.environ)
    prepare_environment()  # as commands do before they import Prefect
    settings = prefect_settings()
    os.environ[_PRICES] = "True"
    for name in (*LIBRARIES, *PREFECT, "litellm"):
        importlib.import_module(name)
    for package in (judge, flows, tasks):
        for name in _modules_of(package):
            importlib.import_module(name)
    cli.command_line()
    make_lasting()
    os.environ.clear()
    os.environ.update(before)
    kept = [KeptPackage("litellm", lambda: None)]
    kept += [KeptPackage(package.__name__, _import_prefect) for package in (flows, tasks)]
    kept.append(KeptPackage("prefect", partial(_read_prefect_settings, settings)))
    sys.meta_path[:0] = kept
    return kept


def make_lasting() -> None:
    """Make what depends on our code alone, and what a process that runs flows makes once: a second."""
    from assizes.tasks.reports.render import html

    any(matching_families(""))
    environment = html._environment()
    for name in environment.list_templates(extensions=["j2"]):
        environment.get_template(name)


def _modules_of(package: ModuleType) -> Iterator[str]:
    """Yield the names of the modules of one of our packages, but for those that import litellm."""
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        if not module.name.startswith(SEAM):
            yield module.name


def _import_prefect() -> None:
    """Have Prefect read its settings before a module of flows or tasks uses it."""
    importlib.import_module("prefect")


def prefect_settings() -> dict[str, str]:
    """What Prefect would read now, by name: variables, and the texts of the files it looks for."""
    variables = {name: text for name, text in os.environ.items() if name.startswith("PREFECT_")}
    home = Path(variables.get("PREFECT_HOME", Path.home() / ".prefect"))
    places = (*_SETTINGS_FILES, variables.get("PREFECT_PROFILES_PATH", home / "profiles.toml"))
    files = {str(place): Path(place).read_text() for place in places if Path(place).is_file()}
    return variables | files


def _read_prefect_settings(known: Mapping[str, str]) -> None:
    """What Prefect does while it is imported, where that would not be the same again.

    It reads its settings and sets its logs up; the latter looks at everything but its address.
    """
    if sys.argv[0] != "-c":  # a command: all of them set these before they import Prefect
        for name, text in PREFECT_DEFAULTS.items():
            os.environ.setdefault(name, text)
    from prefect.context import refresh_global_settings_context
    from prefect.logging import configuration

    changed = {name for name, _ in known.items() ^ prefect_settings().items()}
    if changed:
        refresh_global_settings_context()
    if changed - {"PREFECT_API_URL"}:
        configuration.PROCESS_LOGGING_CONFIG.clear()
        configuration.setup_logging()


class KeptPackage(MetaPathFinder, Loader):
    """The modules of a package, kept out of `sys.modules` until one of them is imported."""

    def __init__(self, package: str, on_import: Callable[[], None]) -> None:
        self.package = package
        self._on_import = on_import
        names = [name for name in sys.modules if f"{name}.".startswith(f"{package}.")]
        self._modules = {name: sys.modules.pop(name) for name in names}
        self._spec = self._modules[package].__spec__

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Answer for the package itself: Python imports it before any module of it."""
        return ModuleSpec(name, self) if name == self.package and self._modules else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module that is there already."""
        return self._modules[spec.name]

    def exec_module(self, module: ModuleType) -> None:
        """Put all modules back."""
        module.__spec__, module.__loader__ = self._spec, self._spec.loader if self._spec else None
        sys.modules.update(self._modules)
        self._modules = {}
        self._on_import()
