"""The spool: a plain, seekable local file for each transcript object, wherever the object lies.

An object is pinned by its etag when it is listed. A later reader either gets those very bytes or
learns that the object has changed, so a run that is resumed judges what was planned.
"""

from __future__ import annotations

import errno
import hashlib
import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, DataError
from assizes.tasks.runtime.closing import Closing
from assizes.tasks.sources.buckets import bucket_stream
from assizes.tasks.sources.listing import refresh_source, unchanged_local_path
from assizes.tasks.sources.transcript_source import BOM, TranscriptSource
from assizes.tasks.sources.unpacking import ObjectBounds, packing_of, unpack

_COPY_BYTES: Final = 1 << 20
_DISK_FULL_CODES: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_CUT_CODES: Final = ("gzip_corrupt", "zstd_corrupt")

_MAX_DOCUMENTS: Final = 2
"""How many parsed documents a spool keeps in memory."""


class Spool(Closing):
    """Local, decompressed, seekable files for transcript objects; threads may share a spool.

    Plain local files are used where they lie. Every other object is streamed once into a temporary
    folder, which is deleted when the spool is closed.
    """

    def __init__(
        self, storage_options: Mapping[str, Any] | None = None, bounds: ObjectBounds | None = None
    ) -> None:
        self.bounds = bounds or ObjectBounds()
        self._options = dict(storage_options or {})
        self._salvage_faults: dict[tuple[str, str], DataError] = {}
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()
        self._path_locks: dict[tuple[str, str], threading.Lock] = {}
        self._paths: dict[tuple[str, str], Path] = {}
        self._documents_lock = threading.Lock()
        self._documents: OrderedDict[tuple[str, str, object], list[Any]] = OrderedDict()

    @classmethod
    def of(cls, config: TranscriptsConfig) -> Spool:
        """A spool with the storage options and bounds of a configuration."""
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
        if not source.uri.startswith("s3://"):
            path = unchanged_local_path(source)
            with path.open("rb") as stream:
                if packing_of(source.uri, stream) is None:
                    return path
        return self._path_made_once((source.uri, source.etag), lambda: self._fetch(source))

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

        Args:
            source: the object that the file is made from.
            kind: tells the files made from one source apart.
            make: writes the file.

        Raises:
            DataError: whatever `make` finds wrong, at every call.
            ConfigurationError: the disk is full.
        """
        key = (f"{kind}\n{source.uri}", source.etag)

        def make_file() -> Path:
            target = self._target(key)
            try:
                with _explain_full_disk(source, target):
                    make(target)
            except DataError as error:
                target.unlink(missing_ok=True)
                raise DataError(error.code, f"{source.uri!r}: {error.detail}") from error
            return target

        return self._path_made_once(key, make_file)

    def document_records(
        self, source: TranscriptSource, parse: Callable[[bytes], list[Any]]
    ) -> list[Any]:
        """The records of a source that is one document; the last two documents stay in memory.

        Raises:
            DataError: as `path`, or whatever `parse` finds wrong with the whole; also where only
                the beginning of the document could be unpacked.
        """
        key = (source.uri, source.etag, parse)
        path = self.path(source)
        if (fault := self.salvage_fault(source)) is not None:
            raise fault
        if (size := path.stat().st_size) > self.bounds.document_bytes:
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
        """What was wrong behind the salvaged beginning of a source; `None` for a whole source."""
        return self._salvage_faults.get((source.uri, source.etag))

    def _path_made_once(self, key: tuple[str, str], make: Callable[[], Path]) -> Path:
        """The file of a key; of several threads that ask for the key one makes the file."""
        with self._lock:
            path_lock = self._path_locks.setdefault(key, threading.Lock())
        with path_lock:
            if key not in self._paths:
                self._paths[key] = make()
            return self._paths[key]

    def _fetch(self, source: TranscriptSource) -> Path:
        if source.uri.startswith("s3://"):
            with bucket_stream(source, self._options) as stream:
                return self._unpack(source, stream)
        with Path(source.uri).open("rb") as stream:
            return self._unpack(source, stream)

    def _unpack(self, source: TranscriptSource, stream: IO[bytes]) -> Path:
        key = (source.uri, source.etag)
        target = self._target(key)
        packing = packing_of(source.uri, stream)
        try:
            with _explain_full_disk(source, target), target.open("wb") as out:
                if packing is None:
                    self._copy(stream, out)
                else:
                    bounds = self.bounds
                    unpack(stream, out, packing, bounds.object_bytes, to_last_byte=bounds.salvage)
        except DataError as error:
            fault = DataError(error.code, f"{source.uri!r}: {error.detail}")
            if error.code in _CUT_CODES and self.bounds.salvage and _cut_to_whole_lines(target):
                self._salvage_faults[key] = fault
                return target
            target.unlink()
            raise fault from error
        return target

    def _copy(self, stream: IO[bytes], out: IO[bytes]) -> None:
        copied = 0
        while block := stream.read(_COPY_BYTES):
            copied += out.write(block)
            if copied > self.bounds.object_bytes:
                raise DataError("too_large", "[transcripts] max_object_mb allows fewer bytes")

    def _target(self, key: tuple[str, str]) -> Path:
        """Where the file of a key lies in the temporary folder; the folder is made if missing."""
        name = hashlib.blake2b("\n".join(key).encode(), digest_size=16).hexdigest()
        return self._temporary() / name

    def _temporary(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="assizes-")
            return Path(self._folder.name)


@contextmanager
def _explain_full_disk(source: TranscriptSource, target: Path) -> Iterator[None]:
    """Turn the error of a full disk into a sentence; after any `OSError` the target is removed."""
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
    """Cut a file off behind its last line end; the number of bytes that are left."""
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
