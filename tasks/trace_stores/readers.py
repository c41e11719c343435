"""The reader of each kind of trace store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from assizes.tasks.trace_stores.address import StoreAddress, StoreKind
from assizes.tasks.trace_stores.connection import connection_to
from assizes.tasks.trace_stores.http_client import JsonClient
from assizes.tasks.trace_stores.langfuse_reader import LangfuseReader
from assizes.tasks.trace_stores.mlflow_reader import MlflowReader
from assizes.tasks.trace_stores.phoenix_reader import PhoenixReader
from assizes.tasks.trace_stores.reading import TraceReader

_READERS: Final[dict[StoreKind, Callable[[JsonClient, str], TraceReader]]] = {
    "langfuse": LangfuseReader,
    "mlflow": MlflowReader,
    "phoenix": PhoenixReader,
}


def open_reader(address: StoreAddress) -> TraceReader:
    """A reader for a place in a trace store, with the keys of the environment; the caller closes it.

    Raises:
        ConfigurationError: a variable of the environment is missing or wrong.
    """
    return _READERS[address.kind](JsonClient(connection_to(address.kind)), address.name)
