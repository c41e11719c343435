"""What the tools work on: one store, its pages, and what the operator allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, get_args
from urllib.parse import urlencode

from assizes.deployments.agents.run_processes import RunProcesses
from assizes.deployments.settings import read_optional_config
from assizes.deployments.web.read_routes import StoreReader
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from assizes.judge.privacy.secret_masking import mask
from assizes.tasks.reports.render.html import Site

Permission = Literal["plan", "run", "label", "promote"]
"""A tool that needs leave: `assizes mcp --allow` names it."""

PERMISSIONS: Final[tuple[Permission, ...]] = get_args(Permission)

ALL: Final = "all"
"""The word for every permission."""


@dataclass(frozen=True, slots=True)
class Workspace:
    """The store and the settings of one server."""

    config: RunConfig  # it may lack transcripts
    file: Path | None = None  # of the configuration; None: assizes.toml, if it is there
    store: str | None = None  # that stands for the configured store
    base_url: str | None = None  # of the pages of `assizes serve`; None: reports on disk are named
    allowed: frozenset[str] = frozenset()  # names of the tools that write, as far as allowed
    suites: Path = Path("suites")  # folder of the suites that may be written
    reader: StoreReader = field(init=False)
    runs: RunProcesses = field(init=False, default_factory=RunProcesses)

    def __post_init__(self) -> None:
        object.__setattr__(self, "reader", StoreReader(self.config.store))

    def run_links(self, run_id: str, reports: str) -> list[str]:
        """Where a person reads the report of a run, whose reports were written to a folder."""
        if self.base_url is not None:
            return self.page(f"runs/{run_id}")
        return [f"report: {mask(reports).rstrip('/')}/{run_id}/report.html"]

    def case_links(self, run_id: str, case_id: str) -> list[str]:
        """The page of a case; none without pages."""
        return self.page("", path=Site((), run_id).case_url(case_id))

    def page(
        self, name: str, query: Mapping[str, Any] | None = None, path: str | None = None
    ) -> list[str]:
        """The line that links to a page below /view, or to another path; none without pages."""
        if self.base_url is None:
            return []
        place = f"/view/{name}" if path is None else path
        return [f"page: {self._url(f'{place}?{urlencode(query)}' if query else place)}"]

    def _url(self, path: str) -> str:
        return f"{(self.base_url or '').rstrip('/')}{path}"


@dataclass(frozen=True, slots=True)
class WorkspaceOptions:
    """What the operator gives on the command line."""

    file: Path | None = None
    store: str | None = None
    base_url: str | None = None
    allowed: Sequence[str] = ()  # names of permissions, or `all`
    suites: Path = Path("suites")


def workspace_of(options: WorkspaceOptions) -> Workspace:
    """The workspace of a command; a store that is given stands for the configured one.

    Raises:
        ConfigurationError: the configuration, the address or a permission cannot be used.
    """
    file, store, base_url = options.file, options.store, options.base_url
    for name in options.allowed:
        if name not in (*PERMISSIONS, ALL):
            raise ConfigurationError.unknown("permission", name, (*PERMISSIONS, ALL), "--allow")
    allowed = frozenset(PERMISSIONS if ALL in options.allowed else options.allowed)
    config = read_optional_config(file)
    if store is not None:
        config = config.model_copy(update={"store": config.store.at(store)})
    if base_url is not None and not base_url.startswith(("http://", "https://")):
        raise ConfigurationError(
            f"--base-url {base_url!r}: give the address of `assizes serve`, as http://127.0.0.1:8320"
        )
    return Workspace(config, file, store, base_url, allowed, options.suites)
