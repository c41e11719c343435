"""What the lake asks of a place for objects, and the local folder as such a place.

The lake needs three promises: an object appears whole or not at all, creating an object fails where
that object exists, and a listing shows what another process has just written.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from assizes.judge.errors import StoreError
from assizes.tasks.runtime.failpoints import failpoint


@dataclass(frozen=True, slots=True)
class Entry:
    """One object of a listing."""

    name: str  # the last part of its name
    size: int  # in bytes
    modified: datetime  # when it was last written; aware, by the clock of the disk or the server


_MISSING: Final = (FileNotFoundError, NotADirectoryError)  # raised where there is no such file
_MAX_CHECKED: Final = 200_000  # files, so that a server does not grow; each takes 0.4 kB
_checked_files: Final[dict[str, tuple[tuple[int, ...], str]]] = {}
"""State and SHA-256 of the files that this process found whole, by path."""


class ExpectedBytes(NamedTuple):
    """What the bytes of an object must be."""

    size: int  # their number
    sha256: str | None  # in hexadecimal digits; None where only the size is to be checked


class Objects(Protocol):
    """Objects (bytes with a name) by slash-separated names below one root.

    Every method raises `StoreError` when the place cannot be reached.
    """

    @property
    def where(self) -> str:
        """The root and the endpoint of its server, if it has one, as text for messages."""

    def creates_once(self) -> bool:
        """Whether creating an object fails where another process has created the same object.

        Where it does not, `create` looks first, which is right for one writer, not for several.
        """

    def create(self, name: str, data: bytes) -> bool:
        """Write an object that is not there yet; returns False, and writes nothing, where it is.

        A write that arrived but whose acknowledgement was lost may be retried: `create` then returns
        False for an object of its own. Callers that must know read the object back.
        """

    def replace(self, name: str, data: bytes) -> None:
        """Write an object, over the one that is there if there is one."""

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The bytes of the named objects, by name; an object that is not there is left out."""

    def names(self, folder: str) -> list[str]:
        """Last parts of the names directly below a folder, sorted; empty without that folder."""

    def states(self, names: Sequence[str]) -> dict[str, str] | None:
        """A text for each named object that is there, another one where it was written anew.

        None where asking for it costs as much as reading the object.
        """

    def entries(self, folder: str) -> list[Entry]:
        """Objects directly below a folder, with the drafts that killed writers left half done."""

    def remove(self, names: Iterable[str]) -> None:
        """Delete objects; an object that is not there is no error."""

    def sources(self, wanted: Mapping[str, ExpectedBytes]) -> list[Path] | list[bytes]:
        """What polars can scan for each object, in the order given: file paths, or the bytes.

        `wanted` holds what each object must be, by object name.

        Raises:
            StoreError: when an object is missing, or is another one.
        """


def check_object(where: str, name: str, data: bytes | None, expected: ExpectedBytes) -> bytes:
    """The bytes of a committed part, if they are those that were committed.

    `where` is the root of the objects; `data` is None when the part is missing.

    Raises:
        StoreError: when the part is missing, or has other bytes.
    """
    check_size(where, name, None if data is None else len(data), expected.size)
    whole = data or b""
    if expected.sha256 not in (None, hashlib.sha256(whole).hexdigest()):
        raise other_bytes(where, name)
    return whole


def check_size(where: str, name: str, actual_size: int | None, expected_size: int) -> None:
    """Refuse, as a `StoreError`, a committed part of another size than its commit mark says.

    `where` is the root of the objects; `actual_size` is None when the part is missing.
    """
    if actual_size != expected_size:
        state = "is missing" if actual_size is None else f"has {actual_size} bytes"
        raise damaged_object(where, name, f"{state}, its commit mark says {expected_size} bytes")


def other_bytes(where: str, name: str) -> StoreError:
    """The error for an object whose bytes do not have the hash that was stored with them."""
    return damaged_object(where, name, "is not what was committed (its hash differs)")


def damaged_object(where: str, name: str, what: str) -> StoreError:
    """The error for a damaged object: what is wrong with it, and what the user can do."""
    return StoreError(
        f"{where}: {name} {what}; restore the file from a copy of the store, or judge its run again "
        "under a new id (kept replies are not paid for twice)"
    )


class Folder:
    """Files below one folder; implements `Objects`. Several processes may write at once."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.where = str(root)

    def creates_once(self) -> bool:
        """Always True: making a hard link fails where a file of that name exists."""
        return True

    def create(self, name: str, data: bytes) -> bool:
        """Write a draft beside the final name, then link the final name to the draft."""
        final = self._root / name
        failpoint("folder.create.before")
        with self._convert_errors("write", name), _draft_file(final, data) as draft:
            failpoint("folder.create.written")
            try:
                # A link fails where the file exists, and shows a whole file at once. The final name
                # opened exclusively would show readers a file that is half written.
                final.hardlink_to(draft)
            except FileExistsError:
                return False
            failpoint("folder.create.linked")
        failpoint("folder.create.after")
        return True

    def replace(self, name: str, data: bytes) -> None:
        """Write a draft beside the final name, then rename the draft over the file."""
        failpoint("folder.replace.before")
        with self._convert_errors("write", name), _draft_file(self._root / name, data) as draft:
            failpoint("folder.replace.written")
            draft.replace(self._root / name)  # atomic: readers see the old file or the new one
        failpoint("folder.replace.after")

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The bytes of the named files, by name; a file that is not there is left out."""
        contents = {}
        for name in names:
            with self._convert_errors("read", name), suppress(*_MISSING):
                contents[name] = (self._root / name).read_bytes()
        return contents

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder, without drafts, whose names start with a dot."""
        with self._convert_errors("list", folder):
            try:
                names = os.listdir(f"{self._root}/{folder}")  # noqa: PTH208  # thousands of names
            except FileNotFoundError:
                return []
        return sorted(name for name in names if not name.startswith("."))

    def states(self, names: Sequence[str]) -> dict[str, str]:
        """Size, time and inode of the named files; a file that is not there is left out."""
        states, root = {}, str(self._root)
        for name in names:
            with self._convert_errors("read", name), suppress(*_MISSING):
                stat = os.stat(f"{root}/{name}")  # noqa: PTH116  # a Path takes as long as the call
                states[name] = f"{stat.st_size}-{stat.st_mtime_ns}-{stat.st_ino}"
        return states

    def entries(self, folder: str) -> list[Entry]:
        """Files of a folder, drafts too."""
        listing = []
        with self._convert_errors("list", folder):
            for path in self._paths(folder):
                with suppress(FileNotFoundError):  # deleted since it was listed
                    stat = path.stat()
                    modified = datetime.fromtimestamp(stat.st_mtime, UTC)
                    listing.append(Entry(path.name, stat.st_size, modified))
        return listing

    def remove(self, names: Iterable[str]) -> None:
        """Delete files; a file that is not there is no error."""
        for name in names:
            with self._convert_errors("remove", name):
                (self._root / name).unlink(missing_ok=True)

    def sources(self, wanted: Mapping[str, ExpectedBytes]) -> list[Path]:
        """Paths of the files, so that a scan reads only the columns it needs.

        A process hashes a file once, and again when its size, its time or its inode has changed.
        """
        for name, expected in wanted.items():
            self._check_file(name, expected)
        return [self._root / name for name in wanted]

    def _check_file(self, name: str, expected: ExpectedBytes) -> None:
        path = self._root / name
        with self._convert_errors("read", name):
            try:
                stat = path.stat()
            except _MISSING:
                check_size(self.where, name, None, expected.size)
                return
            check_size(self.where, name, stat.st_size, expected.size)
            if expected.sha256 is None:
                return
            state = (stat.st_size, stat.st_mtime_ns, stat.st_ino)
            known = (state, expected.sha256)
            if _checked_files.get(place := str(path.absolute())) == known:
                return
            with path.open("rb") as file:
                sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        if sha256 != expected.sha256:
            raise other_bytes(self.where, name)
        if len(_checked_files) >= _MAX_CHECKED:
            _checked_files.clear()
        _checked_files[place] = known

    def _paths(self, folder: str) -> list[Path]:
        try:
            return sorted((self._root / folder).iterdir())
        except FileNotFoundError:
            return []

    @contextmanager
    def _convert_errors(self, act: str, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            reason = error.strerror or error
            raise StoreError(f"{self.where}: cannot {act} {name!r}: {reason}") from error


@contextmanager
def _draft_file(final: Path, data: bytes) -> Iterator[Path]:
    """A draft beside the final file: synced to disk before the block, deleted after it."""
    folder = final.parent
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:  # a new folder's own name must survive a power cut too
        sync_folder(path.parent)
    draft = folder / f".{uuid.uuid4().hex}"  # a name that `Folder.names` leaves out
    try:
        with draft.open("xb") as file:
            half = len(data) // 2  # in two halves, so that a test can kill the writer in between
            file.write(data[:half])
            failpoint("folder.create.half", before=file.flush)
            file.write(data[half:])
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(folder)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names of its files survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
