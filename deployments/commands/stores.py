"""Which store a reading command means."""

from __future__ import annotations

from pathlib import Path

from assizes.deployments.settings import read_optional_config
from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import Store, open_store


def store_config(file: Path | None, uri: str | None) -> StoreConfig:
    """The store as given by `--store`, by configuration file and environment, or the default."""
    configured = read_optional_config(file).store
    return configured.model_copy(update={"uri": uri}) if uri is not None else configured


def opened_store(file: Path | None, uri: str | None) -> Store:
    """The store, open for reading.

    Raises:
        StoreError: when there is none or it cannot be read.
    """
    return open_store(store_config(file, uri))
