"""Lists the transcript objects in a local folder or on S3, each pinned by its etag.

A local link that leads out of the listed folder is counted and not followed: whoever may write into
the folder could otherwise have any file of this machine read, and the first characters of that file
shown among the rejects. A link that the configuration itself names is followed.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from assizes.judge.errors import ConfigurationError, DataError, Inconclusive
from assizes.tasks.sources.buckets import bucket_sources
from assizes.tasks.sources.transcript_source import (
    SUFFIXES,
    SUFFIXES_TEXT,
    TranscriptSource,
    changed_error,
    is_own_output,
    parts_before_pattern,
    vanished_error,
)

LINK: Final = "link"
"""Stands in place of the etag of a link that is not followed, and is the code of its reject."""


def list_sources(uri: str, storage_options: Mapping[str, Any]) -> list[TranscriptSource]:
    """The transcript objects at a file, folder (recursively), glob or S3 prefix, sorted by uri.

    A Parquet store or a report that this program wrote there is left out, unless `uri` is the file.

    Raises:
        ConfigurationError: the path or bucket does not exist or cannot be read.
        Inconclusive: the place can be read and holds no transcript.
    """
    scheme, _, rest = uri.rpartition("://")
    if scheme == "s3":
        sources = bucket_sources(rest, storage_options)
    elif scheme in ("", "file"):
        folder, paths = _local_paths(Path(rest))
        sources = [_local_source(path, folder) for path in paths]
    else:
        raise ConfigurationError.unknown(
            "scheme", f"{scheme}://", ["file://", "s3://", "a plain path"], "[transcripts] uri"
        )
    if not sources:
        raise Inconclusive(f"no transcripts under {uri!r}; looked for {SUFFIXES_TEXT}")
    return sorted(sources, key=lambda source: source.uri)


def refresh_source(
    source: TranscriptSource, storage_options: Mapping[str, Any]
) -> TranscriptSource:
    """The object of the same uri as it is now.

    Raises:
        DataError: `vanished`.
        ConfigurationError: the bucket cannot be reached any more.
    """
    if "://" not in source.uri and not is_file(source.uri):
        raise vanished_error(source)
    try:
        sources = list_sources(source.uri, storage_options)
    except Inconclusive as error:
        raise vanished_error(source) from error
    for candidate in sources:
        if candidate.uri == source.uri:
            return candidate
    raise vanished_error(source)


def unchanged_local_path(source: TranscriptSource) -> Path:
    """The path of a local object, after a check that its content is as it was listed.

    Raises:
        DataError: `link`, `changed` or `vanished`.
    """
    if source.etag == LINK:
        raise link_error(source.uri)
    path = Path(source.uri)
    try:
        if _local_etag(path) != source.etag:
            raise changed_error(source)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise vanished_error(source) from error
    return path


class SourceFolder:
    """A folder of transcripts that answers which files really lie in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._parents: dict[Path, Path] = {}

    def contains(self, path: Path) -> bool:
        """Whether a file lies in the folder once links are followed."""
        if path.parent not in self._parents:
            self._parents[path.parent] = path.parent.resolve()
        target = path.resolve() if path.is_symlink() else self._parents[path.parent] / path.name
        return target.is_relative_to(self._folder)


def is_file(uri: str) -> bool:
    """Whether there is a file of that name; never an error, however impossible the name is."""
    return os.path.isfile(uri)  # noqa: PTH113  # pathlib raises for a name that is too long


def link_error(uri: str) -> DataError:
    """The error for a link to a file outside its folder."""
    return DataError(
        LINK, f"{uri!r} is a link that leads out of its folder; name the file itself, or copy it"
    )


def _local_source(path: Path, folder: SourceFolder | None) -> TranscriptSource:
    try:
        if folder is not None and not folder.contains(path):
            return TranscriptSource(path.as_posix(), LINK, 0)
        etag, state = _local_etag(path), path.stat()
        modified = dt.datetime.fromtimestamp(state.st_mtime, dt.UTC)
        return TranscriptSource(path.as_posix(), etag, state.st_size, modified)
    except OSError as error:
        raise _unlistable(error) from error


def _local_etag(path: Path) -> str:
    state = path.stat()
    return _digest(path.as_posix(), state.st_mtime_ns, state.st_size, state.st_ino)


@functools.lru_cache(maxsize=8192)
def _digest(path: str, *_state: int) -> str:
    """BLAKE2b of a file; `_state` (time, size, inode) makes the cache miss for a changed file."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _local_paths(path: Path) -> tuple[SourceFolder | None, Iterable[Path]]:
    """The files, and the folder that they must lie in; `None` where the path is itself the file."""
    if path.is_file():
        return None, [path]
    if path.is_dir():
        return SourceFolder(path), _without_own_output(_transcripts_below(path))
    base = Path(*parts_before_pattern(path.parts))
    if base == path or not base.is_dir():
        raise ConfigurationError(
            f"[transcripts] uri: {str(base)!r} does not exist; give a file, a folder or a glob"
        )
    return SourceFolder(base), _without_own_output(
        _matches(base, path.relative_to(base).as_posix())
    )


def _without_own_output(paths: Iterable[Path]) -> Iterator[Path]:
    exists = functools.cache(lambda name: Path(name).exists())
    return (path for path in paths if not is_own_output(path.as_posix(), exists))


def _matches(base: Path, pattern: str) -> set[Path]:
    paths: set[Path] = set()
    for path in base.glob(pattern):
        if any(part.startswith(".") for part in path.relative_to(base).parts):
            continue
        if path.is_dir():
            paths.update(_transcripts_below(path))
        elif path.name.endswith(SUFFIXES):
            paths.add(path)
    return paths


def _transcripts_below(folder: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(root, name)
            if name.endswith(SUFFIXES) and not name.startswith(".") and path.is_file():
                yield path


def _refuse(error: OSError) -> None:
    raise _unlistable(error) from error


def _unlistable(error: OSError) -> ConfigurationError:
    return ConfigurationError(
        f"[transcripts] uri: cannot read {error.filename!r}: {error.strerror}"
    )
