"""Transcript objects, in a local folder or on S3: which there are, and a local file for each.

An object is pinned by its etag when it is listed. Whoever reads it later either gets those very
bytes or learns that it has changed, so a run that is taken up again judges what was planned.
"""

from __future__ import annotations

import datetime as dt
import errno
import functools
import hashlib
import os
import re
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from assizes.judge.config.run import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, DataError, Inconclusive
from assizes.tasks.runtime.closing import Closing
from assizes.tasks.sources.bounds import ObjectBounds
from assizes.tasks.sources.buckets import bucket_sources, bucket_stream
from assizes.tasks.sources.links import LINK, SourceFolder, is_file, link_error
from assizes.tasks.sources.own_output import is_own_output
from assizes.tasks.sources.pinned import (
    BOM,
    SUFFIXES,
    SUFFIXES_TEXT,
    TranscriptSource,
    changed_error,
    parts_before_pattern,
    vanished_error,
)
from assizes.tasks.sources.unpacking import Packing, packing_of, unpack

_COPY_BYTES: Final = 1 << 20
_DISK_FULL_CODES: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_MAX_DOCUMENTS: Final = 2
_CUT_CODES: Final = ("gzip_corrupt", "zstd_corrupt")
_PLACEHOLDER: Final = re.compile(r"\{(\w+)(?::([^{}]*))?\}")


def expand(uri: str, date: dt.date | None) -> str:
    """The uri with `{date}` (ISO) or `{date:%Y/%m/%d}` (strftime) filled in.

    Raises:
        ConfigurationError: for another placeholder, when there is no date to fill in, or when
            there is a date and no place for it.
    """

    def date_text(match: re.Match[str]) -> str:
        if match[1] != "date":
            raise ConfigurationError.unknown(
                "placeholder", match[0], ["{date}", "{date:%Y/%m/%d}"], f"[transcripts] uri {uri!r}"
            )
        if date is None:
            raise ConfigurationError(
                f"[transcripts] uri {uri!r} holds {match[0]}, and this run was given no date"
            )
        return date.strftime(match[2] or "%Y-%m-%d")

    expanded, places = _PLACEHOLDER.subn(date_text, uri)
    if date is not None and not places:
        raise ConfigurationError(
            f"[transcripts] uri {uri!r} has no place for the date {date}; put {{date}} or "
            "{date:%Y/%m/%d} into it, or leave the date out"
        )
    return expanded


def list_sources(uri: str, storage_options: Mapping[str, Any]) -> list[TranscriptSource]:
    """The transcript objects at a file, folder (recursively), glob or S3 prefix, sorted by uri.

    What a Parquet store or a report of ours left there is no transcript, unless named as a file.

    Raises:
        ConfigurationError: the path or bucket does not exist or cannot be read.
        Inconclusive: it can be read and holds no transcript.
    """
    scheme, _, rest = uri.rpartition("://")
    if scheme == "s3":
        sources = bucket_sources(rest, storage_options)
    elif scheme in ("", "file"):
        base, paths = _local_paths(Path(rest))
        sources = [_local_source(path, base) for path in paths]
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
    """The same object as it is now.

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


class Spool(Closing):
    """Local, decompressed, seekable files for sources; safe to share between threads.

    Plain local files are used where they lie. Everything else is streamed once into a temporary
    folder, which goes when the spool is closed.
    """

    def __init__(
        self, storage_options: Mapping[str, Any] | None = None, bounds: ObjectBounds | None = None
    ) -> None:
        self._options = dict(storage_options or {})
        self._bounds = bounds or ObjectBounds()
        self._salvage_faults: dict[tuple[str, str], DataError] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()
        self._path_locks: dict[tuple[str, str], threading.Lock] = {}
        self._paths: dict[tuple[str, str], Path] = {}
        self._documents_lock = threading.Lock()
        self._documents: OrderedDict[tuple[str, str, object], list[Any]] = OrderedDict()

    @classmethod
    def of(cls, config: TranscriptsConfig) -> Spool:
        """A spool with the bounds of a configuration."""
        return cls(config.storage_options, ObjectBounds.of(config))

    def close(self) -> None:
        """Delete the temporary folder and forget every file and parsed document."""
        with self._lock:
            self._paths.clear()
            self._documents.clear()
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None

    def path(self, source: TranscriptSource) -> Path:
        """A local file with the plain content of the source.

        Raises:
            DataError: `vanished`, `changed` since it was listed, `link`, `gzip_corrupt`,
                `zstd_corrupt`, `bomb`, or `too_large`.
            ConfigurationError: the bucket cannot be reached any more, or the disk is full.
        """
        if source.etag == LINK:
            raise link_error(source.uri)
        if not source.uri.startswith("s3://"):
            path = _checked_path(source)
            if not _is_packed_file(source, path):
                return path
        key = (source.uri, source.etag)
        with self._lock:
            path_lock = self._path_locks.setdefault(key, threading.Lock())
        with path_lock:
            if key not in self._paths:
                self._paths[key] = self._fetch(source)
            return self._paths[key]

    @property
    def bounds(self) -> ObjectBounds:
        """What is let onto the disk and into memory."""
        return self._bounds

    def current_source(self, uri: str) -> TranscriptSource:
        """The object of a name, as it is now.

        Raises:
            DataError: `vanished`.
        """
        return refresh_source(TranscriptSource(uri, "", 0), self._options)

    def derived_path(
        self, source: TranscriptSource, kind: str, make: Callable[[Path], None]
    ) -> Path:
        """A file made once from a source, such as the lines of an archive.

        Raises:
            DataError: whatever `make` finds wrong, each time it is asked for.
            ConfigurationError: the disk is full.
        """
        key = (f"{kind}\n{source.uri}", source.etag)
        with self._lock:
            path_lock = self._path_locks.setdefault(key, threading.Lock())
        with path_lock:
            if key not in self._paths:
                name = hashlib.blake2b("\n".join(key).encode(), digest_size=16).hexdigest()
                target = self._temporary() / name
                try:
                    with _explain_full_disk(source, target):
                        make(target)
                except DataError as error:
                    target.unlink(missing_ok=True)
                    raise DataError(error.code, f"{source.uri!r}: {error.detail}") from error
                self._paths[key] = target
            return self._paths[key]

    def document_records(
        self, source: TranscriptSource, parse: Callable[[bytes], list[Any]]
    ) -> list[Any]:
        """The records of a source that is one document; the last two documents are kept.

        Raises:
            DataError: as `path`, or whatever `parse` finds wrong with the whole; part of a document
                is none.
        """
        key = (source.uri, source.etag, parse)
        path = self.path(source)
        if (fault := self.salvage_fault(source)) is not None:
            raise fault
        if (size := path.stat().st_size) > self._bounds.document_bytes:
            raise DataError(
                "too_large",
                f"a document of {size} bytes; [transcripts] max_document_mb allows fewer; cut it up, "
                "or bring it into a format of one record a line",
            )
        with self._documents_lock:
            if key not in self._documents:
                self._documents[key] = parse(path.read_bytes().removeprefix(BOM))
                while len(self._documents) > _MAX_DOCUMENTS:
                    self._documents.popitem(last=False)
            self._documents.move_to_end(key)
            return self._documents[key]

    def salvage_fault(self, source: TranscriptSource) -> DataError | None:
        """Where salvage gave the beginning of a source: what was wrong behind it."""
        return self._salvage_faults.get((source.uri, source.etag))

    def _fetch(self, source: TranscriptSource) -> Path:
        if source.uri.startswith("s3://"):
            with bucket_stream(source, self._options) as stream:
                return self._unpack(source, stream)
        with Path(source.uri).open("rb") as stream:
            return self._unpack(source, stream)

    def _unpack(self, source: TranscriptSource, stream: IO[bytes]) -> Path:
        name = hashlib.blake2b(f"{source.uri}\n{source.etag}".encode(), digest_size=16).hexdigest()
        target = self._temporary() / name
        packing = packing_of(source.uri, stream)
        try:
            with _explain_full_disk(source, target), target.open("wb") as out:
                self._copy(stream, out, packing)
        except DataError as error:
            fault = DataError(error.code, f"{source.uri!r}: {error.detail}")
            if error.code in _CUT_CODES and self._bounds.salvage and _cut_to_whole_lines(target):
                self._salvage_faults[source.uri, source.etag] = fault
                return target
            target.unlink()
            raise fault from error
        return target

    def _copy(self, stream: IO[bytes], out: IO[bytes], packing: Packing | None) -> None:
        bounds = self._bounds
        if packing is not None:
            unpack(stream, out, packing, bounds.object_bytes, to_last_byte=bounds.salvage)
            return
        copied = 0
        while block := stream.read(_COPY_BYTES):
            copied += out.write(block)
            if copied > bounds.object_bytes:
                raise DataError("too_large", "[transcripts] max_object_mb allows fewer bytes")

    def _temporary(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="assizes-")
            return Path(self._folder.name)


@contextmanager
def _explain_full_disk(source: TranscriptSource, target: Path) -> Iterator[None]:
    """A full disk is told in words; whatever fails on it, nothing is left there."""
    try:
        yield
    except OSError as error:
        target.unlink(missing_ok=True)
        if error.errno not in _DISK_FULL_CODES:
            raise
        raise ConfigurationError(
            f"no room in {str(target.parent)!r} to unpack {source.uri!r}; free some, or set TMPDIR"
        ) from error


def _cut_to_whole_lines(path: Path) -> int:
    """Cut a file off behind its last line end; how many bytes are left."""
    with path.open("r+b") as stream:
        end = stream.seek(0, os.SEEK_END)
        while end:
            start = max(0, end - _COPY_BYTES)
            stream.seek(start)
            if (line_end := stream.read(end - start).rfind(b"\n")) >= 0:
                end = start + line_end + 1
                break
            end = start
        stream.truncate(end)
    return end


def _checked_path(source: TranscriptSource) -> Path:
    path = Path(source.uri)
    try:
        if _local_etag(path) != source.etag:
            raise changed_error(source)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise vanished_error(source) from error
    return path


def _is_packed_file(source: TranscriptSource, path: Path) -> bool:
    with path.open("rb") as stream:
        return packing_of(source.uri, stream) is not None


def _local_source(path: Path, home: SourceFolder | None) -> TranscriptSource:
    try:
        if home is not None and not home.contains(path):
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
    """BLAKE2b of a file; `_state` is what the cache knows an unchanged file by."""
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, lambda: hashlib.blake2b(digest_size=16)).hexdigest()


def _local_paths(path: Path) -> tuple[SourceFolder | None, Iterable[Path]]:
    """The files, and the folder that they must lie in; null for one that was named itself."""
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
