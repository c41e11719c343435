"""Which store a reading command means."""

from __future__ import annotations

from pathlib import Path

from deployments.settings import read_places
from judge.config import StoreConfig
from tasks.places import write_probe
from tasks.store import Store, open_store
from tasks.store.objects import objects_at

_DUCKDB = "duckdb:///"


def store_config(file: Path | None, uri: str | None) -> StoreConfig:
    """The store as given by `--store`, by configuration file and environment, or the default."""
    configured = read_places(file).store
    return configured.model_copy(update={"uri": uri}) if uri is not None else configured


def opened_store(file: Path | None, uri: str | None) -> Store:
    """The store, open for reading.

    Raises:
        StoreError: when there is none or it cannot be read.
    """
    return open_store(store_config(file, uri))


def is_there(config: StoreConfig) -> bool:
    """Whether there is a store, readable or not, where a configuration names one.

    Raises:
        ConfigurationError: when there is none and none could be made.
    """
    if config.uri.startswith(_DUCKDB):
        file = Path(config.uri.removeprefix(_DUCKDB)).expanduser()
        if not file.exists():
            write_probe(str(file.parent), {}, "[store] uri")
        return file.exists()
    write_probe(config.uri, config.storage_options, "[store] uri")
    return objects_at(config.uri, config.storage_options).read(["_assizes.json"]) != {}
