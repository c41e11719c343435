"""Can a place be written to: one probe for folders and every fsspec URI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_PROBE: Final = ".assizes-probe"


def write_probe(uri: str, storage_options: Mapping[str, Any]) -> None:
    """Write a small object at a URI and take it away again.

    Raises:
        OSError: when it cannot be written or removed, also for a bucket that is not there.
    """
    from fsspec.core import url_to_fs

    files, root = url_to_fs(uri, **storage_options)
    path = f"{root.rstrip('/')}/{_PROBE}"
    try:
        files.makedirs(root, exist_ok=True)
        files.pipe_file(path, b"assizes")
        files.rm_file(path)
    except OSError:
        raise
    except RuntimeError as error:
        raise OSError(str(error)) from error
