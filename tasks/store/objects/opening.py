"""From a URI to the objects below it: a local folder, or a bucket through fsspec."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from assizes.tasks.store.objects.folder import Folder
from assizes.tasks.store.objects.protocol import Objects

LOCAL_SCHEMES: Final = ("file://", "local://")
"""Schemes of URIs that name a local folder."""


def objects_at(uri: str, storage_options: Mapping[str, Any]) -> Objects:
    """The objects below a URI; a URI without a scheme is a local folder.

    Raises:
        StoreError: when no file system is known for the URI's scheme.
    """
    for scheme in LOCAL_SCHEMES:
        if uri.startswith(scheme):
            return Folder(Path(uri.removeprefix(scheme)))
    if "://" not in uri:
        return Folder(Path(uri).expanduser())
    # A local folder must not wait for tenacity and fsspec to load.
    from assizes.tasks.store.objects.bucket import Bucket

    return Bucket(uri, storage_options)
