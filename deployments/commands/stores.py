"""The store and the case that a command is about."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from assizes.deployments.settings import read_optional_config
from assizes.judge.config.places import StoreConfig
from assizes.tasks.store import Store, open_store


@dataclass(frozen=True, slots=True)
class CaseSelection:
    """A case of a run.

    Attributes:
        run_id: the run id, or a unique beginning of it.
        case_id: the case id.
        repetition: number of the repetition, from 0; `None`: all repetitions.
    """

    run_id: str
    case_id: str
    repetition: int | None = None


def store_config(file: Path | None, uri: str | None) -> StoreConfig:
    """The settings of the store: `--store`, else file and environment, else the default store.

    Args:
        file: configuration file; `None` for `assizes.toml` where it exists.
        uri: value of `--store`; `None`: not given.
    """
    configured = read_optional_config(file).store
    return configured.model_copy(update={"uri": uri}) if uri is not None else configured


def opened_store(file: Path | None, uri: str | None) -> Store:
    """Open the store that `store_config` names, for reading.

    Raises:
        StoreError: there is no store, or it cannot be read.
    """
    return open_store(store_config(file, uri))
