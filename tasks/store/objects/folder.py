"""Objects as files of a local folder."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from assizes.judge.errors import StoreError
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store.objects.protocol import Entry, size_error


class Folder:
    """Files below one folder; implements `assizes.tasks.store.objects.protocol.Objects`.

    Several processes may write at once.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self.where = str(root)

    def creates_once(self) -> bool:
        """Always True: making a hard link fails where a file of that name exists."""
        return True

    def create(self, name: str, data: bytes) -> bool:
        """Write a draft beside the final name, then link the final name to the draft.

        Making the link fails where the file exists, and the linked file is complete. Opening the
        final name exclusively would show readers a file that is half written.
        """
        failpoint("folder.create.before")
        with self._convert_errors("write", name), _draft_file(self._root / name, data) as draft:
            failpoint("folder.create.written")
            try:
                (self._root / name).hardlink_to(draft)
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
            draft.replace(self._root / name)
        failpoint("folder.replace.after")

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The bytes of the named files, by name; a file that is not there is left out."""
        contents = {}
        for name in names:
            with self._convert_errors("read", name):
                try:
                    contents[name] = (self._root / name).read_bytes()
                except (FileNotFoundError, NotADirectoryError):
                    continue
        return contents

    def names(self, folder: str) -> list[str]:
        """Names of the files in a folder, without drafts, whose names start with a dot."""
        with self._convert_errors("list", folder):
            try:
                entries = sorted(entry.name for entry in (self._root / folder).iterdir())
            except FileNotFoundError:
                return []
        return [name for name in entries if not name.startswith(".")]

    def entries(self, folder: str) -> list[Entry]:
        """Files of a folder, drafts too; a file deleted during the listing is left out."""
        listing = []
        with self._convert_errors("list", folder):
            try:
                paths = sorted((self._root / folder).iterdir())
            except FileNotFoundError:
                return []
            for path in paths:
                try:
                    stat = path.stat()
                except FileNotFoundError:
                    continue
                modified = datetime.fromtimestamp(stat.st_mtime, UTC)
                listing.append(Entry(path.name, stat.st_size, modified))
        return listing

    def remove(self, names: Iterable[str]) -> None:
        """Delete files; a file that is not there is no error."""
        for name in names:
            with self._convert_errors("remove", name):
                (self._root / name).unlink(missing_ok=True)

    def sources(self, sizes: Mapping[str, int]) -> list[Path]:
        """Paths of the files, so that a scan reads only the columns it needs."""
        paths = []
        for name, size in sizes.items():
            path = self._root / name
            actual_size = path.stat().st_size if path.exists() else None
            if actual_size != size:
                raise size_error(self.where, name, actual_size, size)
            paths.append(path)
        return paths

    @contextmanager
    def _convert_errors(self, act: str, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"{self.where}: cannot {act} {name!r}: {error.strerror or error}"
            ) from error


@contextmanager
def _draft_file(final: Path, data: bytes) -> Iterator[Path]:
    """A draft beside the final file: synced to disk before the block, deleted after it."""
    _make_folder(final.parent)
    draft = final.parent / f".{uuid.uuid4().hex}"
    try:
        with draft.open("xb") as file:
            half = len(data) // 2
            file.write(data[:half])
            failpoint("folder.create.half", before=file.flush)
            file.write(data[half:])
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(final.parent)


def _make_folder(folder: Path) -> None:
    """Make a folder and its missing parents, and sync the folder above each of them to disk."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for path in missing:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder, so that the names of its files survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
