"""A small file, whole, from wherever it lies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.privacy.credentials import mask_credentials
from assizes.tasks.runtime.places import file_system_errors
from assizes.tasks.sources.foreign_tables import decompress_gzip


def read_whole_file(uri: str, storage_options: Mapping[str, Any], where: str) -> bytes:
    """The bytes of a file under any fsspec URI, unpacked where it is called `.gz`.

    Args:
        uri: the file.
        storage_options: for the file system behind it.
        where: the setting that named the file; opens the message.

    Raises:
        ConfigurationError: when it is not there or cannot be read; no credential is shown.
    """
    from fsspec.core import url_to_fs

    faults: tuple[type[Exception], ...] = (*file_system_errors(uri), DataError)
    try:
        files, path = url_to_fs(uri, **storage_options)
        data: bytes = files.cat_file(path)
        return decompress_gzip(data) if uri.endswith(".gz") else data
    except FileNotFoundError:
        raise ConfigurationError(f"{where} {mask_credentials(uri)!r}: no such file") from None
    except faults as error:
        detail = (
            mask_credentials(str(error).strip().split("\n", 1)[0])[:200] or type(error).__name__
        )
        raise ConfigurationError(
            f"{where} {mask_credentials(uri)!r}: cannot be read: {detail}"
        ) from error
