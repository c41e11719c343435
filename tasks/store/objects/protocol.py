"""What the lake asks of a place for objects, be it a local folder or a bucket.

The lake needs three promises: an object appears whole or not at all, creating an object fails where
that object exists, and a listing shows what another process has just written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Protocol

from assizes.judge.errors import StoreError


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a listing.

    Attributes:
        name: the last part of the object's name.
        size: bytes.
        modified: when the object was last written; aware, by the clock of the disk or the server.
    """

    name: str
    size: int
    modified: datetime


class Objects(Protocol):
    """Objects (bytes with a name) by slash-separated names below one root.

    Every method raises `StoreError` when the place cannot be reached.
    """

    @property
    def where(self) -> str:
        """The root and the endpoint of its server, if it has one, as text for messages."""
        ...

    def creates_once(self) -> bool:
        """Whether creating an object fails where another process has created the same object.

        Where creating does not fail, `create` looks first whether the object exists: that is right
        for one writer, not for several.
        """
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Write an object that is not there yet; returns False, and writes nothing, where it is.

        A write that arrived but whose acknowledgement was lost may be retried: `create` then returns
        False for an object of its own. Callers that must know read the object back.
        """
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Write an object, over the one that is there if there is one."""
        ...

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The bytes of the named objects, by name; an object that is not there is left out."""
        ...

    def names(self, folder: str) -> list[str]:
        """Last parts of the names directly below a folder, sorted; empty without that folder."""
        ...

    def entries(self, folder: str) -> list[Entry]:
        """Objects directly below a folder, with the drafts that killed writers left half done."""
        ...

    def remove(self, names: Iterable[str]) -> None:
        """Delete objects; an object that is not there is no error."""
        ...

    def sources(self, sizes: Mapping[str, int]) -> list[Path] | list[bytes]:
        """What polars can scan for each object, in the order given: file paths, or the bytes.

        Args:
            sizes: the size in bytes that each object must have, by object name.

        Raises:
            StoreError: when an object is missing or has another size.
        """
        ...


def size_error(where: str, name: str, actual_size: int | None, expected_size: int) -> StoreError:
    """The error for a committed part whose size is not the one in its commit mark.

    Args:
        where: the root of the objects, for the message.
        name: of the part.
        actual_size: bytes; None when the part is missing.
        expected_size: bytes, by the commit mark.
    """
    state = "is missing" if actual_size is None else f"has {actual_size} bytes"
    return StoreError(
        f"{where}: {name} {state}, its commit mark says {expected_size} bytes; restore the file"
    )
