"""Where the search indexes of a store lie, and how they are deleted.

A search index holds words of conversations, so that only its owner may read it (mode 0600). It can
be built again at any time, and nothing else is kept in it: whoever deletes one loses nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

from assizes.tasks.runtime.prefect_server import home

SUFFIX: Final = ".search"
"""The end of the name of the folder beside a DuckDB file."""

_DUCKDB: Final = "duckdb:///"
_INDEX: Final = ".db"
_PARTS: Final = ("", "-wal", "-shm", "-journal", ".lock")  # what SQLite and writers leave beside it


class IndexFile(NamedTuple):
    """The search index of a run, as it lies on the disk."""

    path: Path
    run_id: str
    size: int  # in bytes
    used: float  # Unix time at which it was last written or searched


def search_folder(uri: str) -> Path:
    """The folder for the indexes of a store: beside a DuckDB file, else in the folder of the user.

    A lake may lie in a bucket, and whoever may read it need not be allowed to write to it.
    """
    if uri.startswith(_DUCKDB):
        file = Path(uri.removeprefix(_DUCKDB)).expanduser()
        return file.with_name(f"{file.name}{SUFFIX}")
    place = uri if "://" in uri else str(Path(uri).expanduser().resolve())
    return home() / "search" / hashlib.sha256(place.encode()).hexdigest()[:16]


def index_path(uri: str, run_id: str) -> Path:
    """The file of the index of a run; whether there is one is another question."""
    # The id of a run is a plain name (`checked_id`), and so a name of a file.
    return search_folder(uri) / f"{run_id}{_INDEX}"


def delete_index(uri: str, run_id: str) -> None:
    """Delete the index of a run; a process that has it open goes on with a file without a name."""
    path = index_path(uri, run_id)
    for part in _PARTS:
        path.with_name(f"{path.name}{part}").unlink(missing_ok=True)


def unused_indexes(uri: str, run_ids: Collection[str], limit: datetime) -> Iterator[IndexFile]:
    """The indexes of runs that are gone, and those that were last used before `limit`."""
    folder = search_folder(uri)
    for path in sorted(folder.glob(f"*{_INDEX}")):
        run_id = path.name.removesuffix(_INDEX)
        state = path.stat()
        used = max(state.st_mtime, state.st_atime)
        if run_id not in run_ids or used < limit.timestamp():
            yield IndexFile(path, run_id, state.st_size, used)
