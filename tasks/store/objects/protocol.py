"""Named bytes that are created once: a local folder, or any bucket that fsspec reaches.

The lake above needs three promises: an object appears whole or not at all, creating it fails where
it exists, and a listing shows what another process has just written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from assizes.judge.errors import StoreError

_LOCAL = ("file://", "local://")


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a listing; `modified` is aware, by the clock of whoever keeps the objects."""

    name: str
    size: int
    modified: datetime


class Objects(Protocol):
    """Objects by slash-separated names below one root."""

    @property
    def where(self) -> str:
        """The root, and its endpoint if it has one, for messages."""
        ...

    def creates_once(self) -> bool:
        """Whether creating an object fails where it exists, also for another process.

        Where it does not, `create` looks first: right for one writer, not for several.
        """
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Write an object that is not there; false, and nothing written, where it is.

        A write that arrived but whose acknowledgement was lost may be tried again: it then answers
        false for its own object. Callers that must know read the object back.
        """
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Write an object, there or not."""
        ...

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The bytes of those that are there, by name."""
        ...

    def names(self, folder: str) -> list[str]:
        """Last parts of the names directly below a folder, sorted; none where it is missing."""
        ...

    def entries(self, folder: str) -> list[Entry]:
        """What lies directly below a folder, with what a killed writer left half done."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Take objects away; one that is not there is no error."""
        ...

    def sources(self, sizes: Mapping[str, int]) -> list[Path] | list[bytes]:
        """What polars can scan for each object, in the order given.

        Args:
            sizes: the bytes each object must have, by name.

        Raises:
            StoreError: when one is missing or has another size.
        """
        ...


def objects_at(uri: str, storage_options: Mapping[str, Any]) -> Objects:
    """The objects below a URI; a URI without a scheme is a local folder.

    Raises:
        StoreError: when no file system is known for it.
    """
    from assizes.tasks.store.objects.folder import Folder

    for scheme in _LOCAL:
        if uri.startswith(scheme):
            return Folder(Path(uri.removeprefix(scheme)))
    if "://" not in uri:
        return Folder(Path(uri).expanduser())
    from assizes.tasks.store.objects.bucket import Bucket

    return Bucket(uri, storage_options)


def size_error(where: str, name: str, actual_size: int | None, expected_size: int) -> StoreError:
    """A committed part that is not what its commit mark says."""
    state = "is missing" if actual_size is None else f"has {actual_size} bytes"
    return StoreError(
        f"{where}: {name} {state}, its commit mark says {expected_size} bytes; restore the file"
    )
