"""Links in a folder of transcripts: one that leads out of it is counted, and not followed.

Whoever may write into the folder could else have any file of this machine read, and its first
characters shown among the rejects. A link that the configuration itself names is followed.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from assizes.judge.errors import DataError

LINK: Final = "link"
"""In place of the etag of an object that is not read."""


class SourceFolder:
    """A folder, and what lies in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._parents: dict[Path, Path] = {}

    def contains(self, path: Path) -> bool:
        """Whether a file lies in it, links followed."""
        if path.parent not in self._parents:
            self._parents[path.parent] = path.parent.resolve()
        target = path.resolve() if path.is_symlink() else self._parents[path.parent] / path.name
        return target.is_relative_to(self._folder)


def is_file(uri: str) -> bool:
    """Whether there is a file of that name; never an error, however impossible the name is."""
    return os.path.isfile(uri)  # noqa: PTH113  # pathlib raises for a name that is too long


def link_error(uri: str) -> DataError:
    """The object is a link to a file elsewhere."""
    return DataError(
        LINK, f"{uri!r} is a link that leads out of its folder; name the file itself, or copy it"
    )
