"""The spool: a plain, seekable local file for each transcript object, wherever the object lies.

An object is pinned by its etag when it is listed. A later reader either gets those very bytes or
learns that the object has changed, so a run that is resumed judges what was planned. Files of ground
truth and labels are read whole into memory instead.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import threading
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final, NamedTuple, TypeAlias

from assizes.judge.config.transcripts import TranscriptsConfig
from assizes.judge.errors import ConfigurationError, DataCode, DataError
from assizes.judge.formats.shared.parsing import strict_json
from assizes.judge.privacy.secret_masking import mask_credentials
from assizes.tasks.runtime.places import file_system_errors
from assizes.tasks.runtime.process import Closing
from assizes.tasks.runtime.temporary_folder import TemporaryFolder
from assizes.tasks.sources import listing, unread
from assizes.tasks.sources.csv_files import csv_to_lines, is_csv
from assizes.tasks.sources.remote_files import is_remote, remote_stream
from assizes.tasks.sources.unpacking import (
    CONVERTERS,
    MAGIC_BYTES,
    ObjectBounds,
    Packing,
    archive_to_lines,
    parquet_to_lines,
    unpack,
)

MAX_BYTES: Final = 1 << 30
"""The most bytes that a file of labels or ground truth may have once unpacked."""

_MB: Final = 1 << 20
_COPY_BYTES: Final = 1 << 20
_DISK_FULL_CODES: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # space, quota, file size
_CUT_CODES: Final = ("gzip_corrupt", "zstd_corrupt")  # can be salvaged
_PACKED_SUFFIXES: Final[dict[str, Packing]] = {".gz": "gzip", ".zst": "zstd"}
_CORRUPT: Final[dict[Packing, DataCode]] = {"gzip": "gzip_corrupt", "zstd": "zstd_corrupt"}
_PACKED_MAGIC: Final[dict[bytes, Packing]] = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}

_Key: TypeAlias = tuple[str, str]
"""Uri and etag of an object; for a file made from it, the uri behind the kind of the file."""

_MAX_DOCUMENTS: Final = 2
"""How many parsed documents a spool keeps in memory."""


class OpenedObject(NamedTuple):
    """A transcript object that was as it was listed when its local file was opened."""

    source: listing.TranscriptSource
    stream: IO[bytes]  # plain content, an archive as lines; the caller closes it
    fault: DataError | None  # what broke behind the salvaged beginning; `None`: nothing


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
        self._faults: dict[_Key, DataError] = {}  # of salvaged objects
        self._folder: TemporaryFolder | None = None  # made when it is first needed
        self._lock = threading.Lock()  # held for moments only, never while a file is made
        # One for each file: a thread waits for the file it wants, not for all the others.
        self._path_locks: defaultdict[_Key, threading.Lock] = defaultdict(threading.Lock)
        self._paths: dict[_Key, Path] = {}
        self._documents_lock = threading.Lock()
        # Oldest first; with the parser in the key, since two formats may read one document.
        self._documents: OrderedDict[tuple[_Key, object], list[Any]] = OrderedDict()

    @classmethod
    def of(cls, config: TranscriptsConfig) -> Spool:
        """A spool with the storage options and bounds of a configuration."""
        sizes = round(config.max_object_mb * _MB), round(config.max_document_mb * _MB)
        salvage = config.salvage is not False, config.salvage is True
        return cls(config.storage_options, ObjectBounds(*sizes, *salvage))

    def close(self) -> None:
        """Delete the temporary folder and forget every file and parsed document."""
        with self._lock:
            self._paths.clear()
            self._documents.clear()
            if self._folder is not None:
                self._folder.close()
                self._folder = None

    def path(self, source: listing.TranscriptSource) -> Path:
        """A local file with the plain content of the source.

        Raises:
            DataError: `vanished`, `changed` since it was listed, `link`, `name`, `not_a_file`,
                `gzip_corrupt`, `zstd_corrupt`, `bomb`, or `too_large`.
            ConfigurationError: the bucket cannot be reached any more, or the disk is full.
        """
        if not source.uri.startswith("s3://") and not is_remote(source.uri):
            if source.etag in unread.CODES:
                raise unread.unread_error(source.uri, source.etag)
            path = Path(source.uri)
            try:
                # The etag is cached by time, size and inode: only a changed file is hashed again.
                state = path.stat()
                etag = listing.file_etag(
                    path.as_posix(), state.st_mtime_ns, state.st_size, state.st_ino
                )
            except (FileNotFoundError, NotADirectoryError) as error:
                raise listing.vanished_error(source) from error
            if etag != source.etag:
                raise listing.changed_error(source)
            with path.open("rb") as stream:
                if _packing_of(source.uri, stream) is None:  # plain: used where it lies
                    return path
        return self._path_made_once((source.uri, source.etag), lambda: self._fetch(source))

    def open(self, source: listing.TranscriptSource) -> OpenedObject:
        """The local file of a source, opened for reading; raises what `lines_path` does."""
        stream = self.lines_path(source).open("rb")
        return OpenedObject(source, stream, self.salvage_fault(source))

    def lines_path(self, source: listing.TranscriptSource) -> Path:
        """The local file of a source; for an archive or a table the file of its records as lines.

        Raises:
            DataError: as `path`; `parquet`, `archive` or `bomb` for an archive, `csv` for a table.
            ConfigurationError: as `path`.
        """
        path = self.path(source)
        if is_csv(source.uri):
            return self.derived_path(
                source, "lines", lambda target: csv_to_lines(path, target, self.bounds)
            )
        with path.open("rb") as stream:
            if stream.read(MAGIC_BYTES) not in CONVERTERS:
                return path
        if (fault := self.salvage_fault(source)) is not None:  # the beginning is no archive
            raise fault
        return self.derived_path(
            source, "lines", lambda target: archive_to_lines(path, target, self.bounds)
        )

    def salvage_fault(self, source: listing.TranscriptSource) -> DataError | None:
        """What broke behind the beginning of an object that was fetched; `None`: it is whole."""
        return self._faults.get((source.uri, source.etag))

    def current_source(self, uri: str) -> listing.TranscriptSource:
        """The object of a name, as it is now.

        Raises:
            DataError: `vanished`.
        """
        return listing.refresh_source(listing.TranscriptSource(uri, "", 0), self._options)

    def derived_path(
        self, source: listing.TranscriptSource, kind: str, make: Callable[[Path], None]
    ) -> Path:
        """A file that `make` writes once from a source; `kind` tells several of one source apart.

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
        self, source: listing.TranscriptSource, parse: Callable[[bytes], list[Any]]
    ) -> list[Any]:
        """The records of a source that is one document; the last two documents stay in memory.

        Raises:
            DataError: as `path`, or whatever `parse` finds wrong with the whole; also where only
                the beginning of the document could be unpacked.
        """
        key = ((source.uri, source.etag), parse)
        path = self.path(source)
        if (fault := self.salvage_fault(source)) is not None:  # the beginning is no JSON document
            raise fault
        if (size := path.stat().st_size) > self.bounds.document_bytes:
            raise DataError(
                "too_large",
                f"a document of {size} bytes; [transcripts] max_document_mb allows fewer; cut it up, "
                "or bring it into a format of one record a line",
            )
        with self._documents_lock:  # while it is parsed too: two at once would double the memory
            if key not in self._documents:
                self._documents[key] = parse(path.read_bytes().removeprefix(listing.BOM))
                while len(self._documents) > _MAX_DOCUMENTS:
                    self._documents.popitem(last=False)  # the one unused for longest
            self._documents.move_to_end(key)
            return self._documents[key]

    def _path_made_once(self, key: _Key, make: Callable[[], Path]) -> Path:
        """The file of a key; of several threads that ask for the key one makes the file."""
        with self._lock:
            path_lock = self._path_locks[key]
        with path_lock:
            if key not in self._paths:  # also after a failed attempt: the next caller tries again
                self._paths[key] = make()
            return self._paths[key]

    def _fetch(self, source: listing.TranscriptSource) -> Path:
        if source.uri.startswith("s3://"):
            with listing.bucket_stream(source, self._options) as stream:
                return self._unpack(source, stream)
        if is_remote(source.uri):
            pinned = (source.uri, source.etag, self._options, self.bounds.object_bytes)
            with remote_stream(*pinned) as stream:
                return self._unpack(source, stream)
        with Path(source.uri).open("rb") as stream:
            return self._unpack(source, stream)

    def _unpack(self, source: listing.TranscriptSource, stream: IO[bytes]) -> Path:
        key, bounds = (source.uri, source.etag), self.bounds
        target = self._target(key)
        packing = _packing_of(source.uri, stream)
        try:
            with _explain_full_disk(source, target), target.open("wb") as out:
                if packing is None:
                    _copy(stream, out, bounds.object_bytes)
                else:
                    unpack(stream, out, packing, bounds.object_bytes, to_last_byte=bounds.salvage)
        except DataError as error:
            fault = DataError(error.code, f"{source.uri!r}: {error.detail}")
            # Nothing left is no salvage: the object is then rejected as a whole.
            if error.code in _CUT_CODES and bounds.salvage and _cut_to_whole_lines(target):
                self._faults[key] = fault
                return target
            target.unlink()
            raise fault from error
        return target

    def _target(self, key: _Key) -> Path:
        """Where the file of a key lies in the temporary folder; the folder is made if missing."""
        # A hash, since an uri may be longer than a file name and hold `/` and `..`.
        name = hashlib.blake2b("\n".join(key).encode(), digest_size=16).hexdigest()
        with self._lock:
            if self._folder is None:
                self._folder = TemporaryFolder()
            return self._folder.path / name


def read_whole_file(uri: str, storage_options: Mapping[str, Any], where: str) -> bytes:
    """The bytes of a file under any fsspec URI, unpacked where its name ends in `.gz`.

    Error messages begin with `where`, the setting that named the file.

    Raises:
        ConfigurationError: the file is not there or cannot be read; the message shows no
            credential.
    """
    from fsspec.core import url_to_fs

    faults: tuple[type[Exception], ...] = (*file_system_errors(uri), DataError)
    try:
        files, path = url_to_fs(uri, **storage_options)
        data: bytes = files.cat_file(path)
        if not uri.endswith(".gz"):
            return data
        plain = io.BytesIO()
        unpack(io.BytesIO(data), plain, "gzip", MAX_BYTES, to_last_byte=False)
        return plain.getvalue()
    except FileNotFoundError:
        raise ConfigurationError(f"{where} {mask_credentials(uri)!r}: no such file") from None
    except faults as error:
        detail = mask_credentials(str(error).strip().split("\n", 1)[0])[:200]
        raise ConfigurationError(
            f"{where} {mask_credentials(uri)!r}: cannot be read: {detail or type(error).__name__}"
        ) from error


def parquet_rows(data: bytes) -> list[dict[str, Any]]:
    """The rows of a Parquet file; a column without any value is in no row.

    Raises:
        DataError: `parquet` for a file that cannot be read, `bomb` for too many bytes.
    """
    # The reader of Parquet is a process of its own, which needs files.
    with TemporaryFolder() as folder:
        source, lines = folder.path / "table", folder.path / "lines"
        source.write_bytes(data)
        parquet_to_lines(source, lines, ObjectBounds(object_bytes=MAX_BYTES))
        with lines.open("rb") as stream:
            rows = [strict_json(line) for line in stream]
    # Cells without a value are left out of the lines: they come back here as None.
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in names} for row in rows]


def _packing_of(uri: str, stream: IO[bytes]) -> Packing | None:
    """How an object is packed, by its name or by its first bytes; `None` where it is plain."""
    head = stream.read(4)  # the longest magic
    stream.seek(0)
    by_name = next(
        (kind for suffix, kind in _PACKED_SUFFIXES.items() if uri.endswith(suffix)), None
    )
    # Without bytes a reader sees empty content; a packed file of no bytes was cut off.
    if by_name and not head:
        raise DataError(_CORRUPT[by_name], f"{uri!r}: the file is empty")
    return by_name or next(
        (kind for magic, kind in _PACKED_MAGIC.items() if head.startswith(magic)), None
    )


def _copy(stream: IO[bytes], out: IO[bytes], cap_bytes: int) -> None:
    while block := stream.read(_COPY_BYTES):
        out.write(block)
        if out.tell() > cap_bytes:  # counted here: a size that a server states may be wrong
            raise DataError("too_large", "[transcripts] max_object_mb allows fewer bytes")


@contextmanager
def _explain_full_disk(source: listing.TranscriptSource, target: Path) -> Iterator[None]:
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
        while end:  # backwards, block by block
            start = max(0, end - _COPY_BYTES)
            stream.seek(start)
            if (line_end := stream.read(end - start).rfind(b"\n")) >= 0:
                end = start + line_end + 1
                break
            end = start
        stream.truncate(end)
    return end
