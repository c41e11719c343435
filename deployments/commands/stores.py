"""Which store a reading command means."""

from __future__ import annotations

from pathlib import Path

from deployments.settings import DEFAULT_FILE, read_config
from judge.config import StoreConfig
from tasks.store import Store, open_store


def store_config(file: Path | None, uri: str | None) -> StoreConfig:
    """The store as given by `--store`, by the configuration file, or the default one."""
    if uri is not None and not (file or DEFAULT_FILE.exists()):
        return StoreConfig(uri=uri)
    if file is None and not DEFAULT_FILE.exists():
        return StoreConfig()
    configured = read_config(file).store
    return configured.model_copy(update={"uri": uri}) if uri is not None else configured


def opened_store(file: Path | None, uri: str | None, *, writing: bool = False) -> Store:
    """The store, open.

    Raises:
        StoreError: when there is none or it cannot be read.
    """
    return open_store(store_config(file, uri), writing=writing)
