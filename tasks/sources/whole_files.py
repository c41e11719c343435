"""Files that are read whole into memory: ground truth and labels, from any file system.

Foreign Parquet is read in a process of its own (`assizes.tasks.sources.archives`).
"""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.formats.shared.parsing import strict_json
from assizes.judge.privacy.credentials import mask_credentials
from assizes.tasks.runtime.places import file_system_errors
from assizes.tasks.sources.archives import parquet_to_lines
from assizes.tasks.sources.unpacking import ObjectBounds, unpack

MAX_BYTES: Final = 1 << 30
"""The most bytes that a file of labels or ground truth may have once unpacked."""


def read_whole_file(uri: str, storage_options: Mapping[str, Any], where: str) -> bytes:
    """The bytes of a file under any fsspec URI, unpacked where its name ends in `.gz`.

    Args:
        uri: the file.
        storage_options: for the file system behind it.
        where: the setting that named the file; error messages begin with it.

    Raises:
        ConfigurationError: the file is not there or cannot be read; the message shows no
            credential.
    """
    from fsspec.core import url_to_fs

    faults: tuple[type[Exception], ...] = (*file_system_errors(uri), DataError)
    try:
        files, path = url_to_fs(uri, **storage_options)
        data: bytes = files.cat_file(path)
        if not uri.endswith(".gz"):
            return data
        plain = io.BytesIO()
        unpack(io.BytesIO(data), plain, "gzip", MAX_BYTES, to_last_byte=False)
        return plain.getvalue()
    except FileNotFoundError:
        raise ConfigurationError(f"{where} {mask_credentials(uri)!r}: no such file") from None
    except faults as error:
        detail = (
            mask_credentials(str(error).strip().split("\n", 1)[0])[:200] or type(error).__name__
        )
        raise ConfigurationError(
            f"{where} {mask_credentials(uri)!r}: cannot be read: {detail}"
        ) from error


def parquet_rows(data: bytes) -> list[dict[str, Any]]:
    """The rows of a Parquet file; a column without any value is in no row.

    Raises:
        DataError: `parquet` for a file that cannot be read, `bomb` for too many bytes.
    """
    with tempfile.TemporaryDirectory(prefix="assizes-") as folder:
        source, lines = Path(folder, "table"), Path(folder, "lines")
        source.write_bytes(data)
        parquet_to_lines(source, lines, ObjectBounds(object_bytes=MAX_BYTES))
        with lines.open("rb") as stream:
            rows = [strict_json(line) for line in stream]
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]
