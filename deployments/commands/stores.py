"""The store and the case that a command is about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assizes.deployments.settings import read_optional_config
from assizes.judge.config.run import StoreConfig
from assizes.judge.errors import ConfigurationError
from assizes.tasks.store import Store, open_store


@dataclass(frozen=True, slots=True)
class CaseSelection:
    """A case of a run."""

    run_id: str  # or another name of the run
    case_id: str
    repetition: int | None = None  # from 0; None: all of them


def store_config(file: Path | None, uri: str | None) -> StoreConfig:
    """The settings of the store: `--store` (`uri`), else file and environment, else the default."""
    if uri is not None and not uri.strip():  # e.g. an unset shell variable
        raise ConfigurationError("--store '': name a store, or leave the option out")
    configured = read_optional_config(file).store
    return configured.at(uri) if uri is not None else configured


def opened_store(file: Path | None, uri: str | None) -> Store:
    """Open the store that `store_config` names, for reading; `StoreError` where there is none."""
    return open_store(store_config(file, uri))
