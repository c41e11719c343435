"""Reads a file of the snapshot that a case names: no path leads out of its folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

from assizes.judge.protocol import FileQuery, FileText, NoReply

MAX_FILE_BYTES: Final = 200_000
"""Bytes of a file that a judge may read; of a longer file, the first ones."""
MAX_NAMES: Final = 200
"""The most names that the list of a folder holds."""
_MAX_ENTRIES: Final = 5_000
"""Entries of a snapshot that are looked at for a list."""


def read_snapshot(
    query: FileQuery, base: Path | None, own_files: Collection[Path] = ()
) -> FileText | NoReply:
    """The text of a file of a snapshot, or the list of a folder of it.

    Neither the case nor the model that names the path is trusted. The snapshot lies in `base` (with
    None in the current folder, or anywhere by an absolute path), and the file in the snapshot. Links
    are followed first and then checked; hidden files, files of a run and anything but plain files
    and folders are not read.
    """
    root = _inside(base or Path.cwd(), query.folder, is_free=base is None)
    if root is None or not root.is_dir():
        return NoReply("no_snapshot", f"snapshot {query.folder!r} is no folder that may be read")
    path = _inside(root, query.path or ".")
    if path is None or path in own_files:
        return FileText(query.path, error="no such file in the snapshot")
    try:
        if path.is_dir():
            return _listing(query.path, root, path)
        return _text(query.path, path)
    except OSError as error:
        return FileText(query.path, error=f"cannot be read: {error.strerror}")


def _inside(folder: Path, name: str, *, is_free: bool = False) -> Path | None:
    """The resolved path of a name in a folder; `None`: not there, not in it, or hidden."""
    try:
        root = folder.resolve(strict=True)
        path = (root / name).resolve(strict=True)
    except (OSError, RuntimeError, ValueError):  # links in a circle; a NUL or a lone surrogate
        return None
    if is_free and Path(name).is_absolute():
        return path
    if not path.is_relative_to(root):  # by `..`, by an absolute path, or by a link
        return None
    return None if any(part.startswith(".") for part in path.relative_to(root).parts) else path


def _text(name: str, path: Path) -> FileText:
    # Not blocking: a pipe that was put in the place of the file would never end.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    with open(descriptor, "rb") as file:  # noqa: PTH123  # a descriptor, which no path opens
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return FileText(name, error="is no plain file")
        content = file.read(MAX_FILE_BYTES)
    if b"\0" in content:
        return FileText(name, size_bytes=status.st_size, error="is no text file")
    text = content.decode("utf-8", "replace")
    return FileText(name, text, status.st_size, truncated=status.st_size > len(content))


def _listing(name: str, root: Path, folder: Path) -> FileText:
    """The files of a folder and the folders in it, by their paths in the snapshot."""
    names = list(islice(_files(root, folder), MAX_NAMES + 1))
    return FileText(name, "\n".join(sorted(names[:MAX_NAMES])), truncated=len(names) > MAX_NAMES)


def _files(root: Path, folder: Path) -> Iterator[str]:
    seen = 0
    for place, folders, files in os.walk(folder):  # follows no links
        folders[:] = sorted(each for each in folders if not each.startswith("."))
        for each in sorted(files):
            seen += 1
            if seen > _MAX_ENTRIES:
                return
            path = Path(place) / each
            if not each.startswith(".") and not path.is_symlink():
                yield str(path.relative_to(root))
