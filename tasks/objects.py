"""Transcript objects, in a local folder or on S3: which there are, and a local file for each.

An object is pinned by its etag when it is listed. Whoever reads it later either gets those very
bytes or learns that it has changed, so a run that is taken up again judges what was planned.
"""

from __future__ import annotations

import datetime as dt
import functools
import glob
import gzip
import hashlib
import os
import re
import shutil
import tempfile
import threading
import zlib
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import urlsplit

import fsspec

from judge.errors import ConfigurationError, DataError, Inconclusive
from tasks.leavings import is_ours

SUFFIXES: Final = (".jsonl", ".json", ".ndjson", ".jsonl.gz", ".json.gz", ".ndjson.gz")
"""Endings by which transcripts are known in a folder; a file named by itself may have any."""

BOM: Final = b"\xef\xbb\xbf"
"""The UTF-8 mark some writers put at the start of a file; never part of a record."""

_BLOCK_BYTES: Final = 8 << 20
_COPY_BYTES: Final = 1 << 20
_PARSED_KEPT: Final = 2
_GZIP_MAGIC: Final = b"\x1f\x8b"
_PLACEHOLDER: Final = re.compile(r"\{(\w+)(?::([^{}]*))?\}")


@dataclass(frozen=True)
class Source:
    """One transcript object, pinned by its content.

    Attributes:
        uri: a posix path as the configuration gives it (not made absolute), or `s3://bucket/key`.
        etag: on S3 the store's own, without quotes; locally the BLAKE2b of the content, 32 hex.
        size: bytes as stored, so before decompression.
    """

    uri: str
    etag: str
    size: int


def expand(uri: str, date: dt.date | None) -> str:
    """The uri with `{date}` (ISO) or `{date:%Y/%m/%d}` (strftime) filled in.

    Raises:
        ConfigurationError: for another placeholder, when there is no date to fill in, or when
            there is a date and no place for it.
    """

    def filled(found: re.Match[str]) -> str:
        if found[1] != "date":
            raise ConfigurationError.unknown(
                "placeholder", found[0], ["{date}", "{date:%Y/%m/%d}"], f"[transcripts] uri {uri!r}"
            )
        if date is None:
            raise ConfigurationError(
                f"[transcripts] uri {uri!r} holds {found[0]}, and this run was given no date"
            )
        return date.strftime(found[2] or "%Y-%m-%d")

    expanded, places = _PLACEHOLDER.subn(filled, uri)
    if date is not None and not places:
        raise ConfigurationError(
            f"[transcripts] uri {uri!r} has no place for the date {date}; put {{date}} or "
            "{date:%Y/%m/%d} into it, or leave the date out"
        )
    return expanded


def list_sources(uri: str, storage_options: Mapping[str, Any]) -> list[Source]:
    """The transcript objects at a file, folder (recursively), glob or S3 prefix, sorted by uri.

    What a Parquet store or a report of ours left there is no transcript, unless named as a file.

    Raises:
        ConfigurationError: the path or bucket does not exist or cannot be read.
        Inconclusive: it can be read and holds no transcript.
    """
    scheme, _, rest = uri.rpartition("://")
    if scheme == "s3":
        sources = _s3_sources(rest, storage_options)
    elif scheme in ("", "file"):
        sources = [_local_source(path) for path in _local_paths(Path(rest))]
    else:
        raise ConfigurationError.unknown(
            "scheme", f"{scheme}://", ["file://", "s3://", "a plain path"], "[transcripts] uri"
        )
    if not sources:
        looked_for = ", ".join(f"*{suffix}" for suffix in SUFFIXES)
        raise Inconclusive(f"no transcripts under {uri!r}; looked for {looked_for}")
    return sorted(sources, key=lambda source: source.uri)


class Spool:
    """Local, decompressed, seekable files for sources; safe to share between threads.

    Plain local files are used where they lie. Everything else is streamed once into a temporary
    folder, which goes when the spool is closed.
    """

    def __init__(self, storage_options: Mapping[str, Any] | None = None) -> None:
        self._options = dict(storage_options or {})
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._lock = threading.Lock()
        self._latches: dict[tuple[str, str], threading.Lock] = {}
        self._paths: dict[tuple[str, str], Path] = {}
        self._parsing = threading.Lock()
        self._parsed: OrderedDict[tuple[str, str, object], list[Any]] = OrderedDict()

    def __enter__(self) -> Spool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Delete the temporary folder and forget every file and parsed document."""
        with self._lock:
            self._paths.clear()
            self._parsed.clear()
            if self._folder is not None:
                self._folder.cleanup()
                self._folder = None

    def path(self, source: Source) -> Path:
        """A local file with the plain content of the source.

        Raises:
            DataError: `vanished`, `changed` since it was listed, or `gzip_corrupt`.
            ConfigurationError: the bucket cannot be reached any more.
        """
        if not source.uri.startswith("s3://"):
            path = _unchanged(source)
            if not _is_packed_file(source, path):
                return path
        key = (source.uri, source.etag)
        with self._lock:
            latch = self._latches.setdefault(key, threading.Lock())
        with latch:
            if key not in self._paths:
                self._paths[key] = self._fetched(source)
            return self._paths[key]

    def parsed(self, source: Source, parse: Callable[[bytes], list[Any]]) -> list[Any]:
        """The records of a source that is one document; the last two documents are kept.

        Raises:
            DataError: as `path`, or whatever `parse` finds wrong with the whole.
        """
        key = (source.uri, source.etag, parse)
        path = self.path(source)
        with self._parsing:
            if key not in self._parsed:
                self._parsed[key] = parse(path.read_bytes().removeprefix(BOM))
                while len(self._parsed) > _PARSED_KEPT:
                    self._parsed.popitem(last=False)
            self._parsed.move_to_end(key)
            return self._parsed[key]

    def _fetched(self, source: Source) -> Path:
        if source.uri.startswith("s3://"):
            with _s3_stream(source, self._options) as stream:
                return self._unpacked(source, stream)
        with Path(source.uri).open("rb") as stream:
            return self._unpacked(source, stream)

    def _unpacked(self, source: Source, stream: IO[bytes]) -> Path:
        name = hashlib.blake2b(f"{source.uri}\n{source.etag}".encode(), digest_size=16).hexdigest()
        target = self._temporary() / name
        plain = gzip.GzipFile(fileobj=stream) if _is_packed(source, stream) else stream
        try:
            with target.open("wb") as out:
                shutil.copyfileobj(plain, out, _COPY_BYTES)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            target.unlink()
            raise DataError("gzip_corrupt", f"{source.uri!r}: {error}") from error
        return target

    def _temporary(self) -> Path:
        with self._lock:
            if self._folder is None:
                self._folder = tempfile.TemporaryDirectory(prefix="assizes-")
            return Path(self._folder.name)


def _unchanged(source: Source) -> Path:
    path = Path(source.uri)
    try:
        if _local_etag(path) != source.etag:
            raise _changed(source)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _vanished(source) from error
    return path


def _is_packed_file(source: Source, path: Path) -> bool:
    with path.open("rb") as stream:
        return _is_packed(source, stream)


def _is_packed(source: Source, stream: IO[bytes]) -> bool:
    head = stream.read(2)
    stream.seek(0)
    # Without bytes gzip reads an empty stream as empty content; a .gz file of no bytes was cut off.
    if source.uri.endswith(".gz") and not head:
        raise DataError("gzip_corrupt", f"{source.uri!r}: the file is empty")
    return source.uri.endswith(".gz") or head == _GZIP_MAGIC


def _changed(source: Source) -> DataError:
    return DataError("changed", f"{source.uri!r} is no longer as it was listed ({source.etag})")


def _vanished(source: Source) -> DataError:
    return DataError("vanished", f"{source.uri!r} was listed and is gone")


def _local_source(path: Path) -> Source:
    try:
        return Source(path.as_posix(), _local_etag(path), path.stat().st_size)
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


def _local_paths(given: Path) -> Iterable[Path]:
    if given.is_file():
        return [given]
    if given.is_dir():
        return _foreign(_transcripts_below(given))
    base = Path(*_until_magic(given.parts))
    if base == given or not base.is_dir():
        raise ConfigurationError(
            f"[transcripts] uri: {str(base)!r} does not exist; give a file, a folder or a glob"
        )
    return _foreign(_matches(base, given.relative_to(base).as_posix()))


def _foreign(paths: Iterable[Path]) -> Iterator[Path]:
    exists = functools.cache(lambda name: Path(name).exists())
    return (path for path in paths if not is_ours(path.as_posix(), exists))


def _until_magic(parts: Iterable[str]) -> Iterator[str]:
    for part in parts:
        if glob.has_magic(part):
            return
        yield part


def _matches(base: Path, pattern: str) -> set[Path]:
    found: set[Path] = set()
    for path in base.glob(pattern):
        if any(part.startswith(".") for part in path.relative_to(base).parts):
            continue
        if path.is_dir():
            found.update(_transcripts_below(path))
        elif path.name.endswith(SUFFIXES):
            found.add(path)
    return found


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


def _s3_sources(rest: str, options: Mapping[str, Any]) -> list[Source]:
    bucket = rest.split("/", 1)[0]
    if not bucket:
        raise ConfigurationError(
            "[transcripts] uri 's3://' names no bucket; use s3://bucket/prefix"
        )
    with _s3_errors(bucket, options):
        fs = _s3(options)
        found = _s3_found(fs, rest, bucket)
        base = "/".join(_until_magic(rest.split("/"))).rstrip("/")
        exists = functools.cache(lambda path: path in found or fs.exists(path))
        return [
            Source(f"s3://{path}", _unquoted(info["ETag"]), int(info["size"]))
            for path, info in found.items()
            if (path == rest and not rest.endswith("/"))
            or (
                path.endswith(SUFFIXES)
                and "/." not in path[len(base) :]
                and not is_ours(path, exists)
            )
        ]


def _s3_found(fs: Any, path: str, bucket: str) -> dict[str, dict[str, Any]]:
    if not glob.has_magic(path):
        found: dict[str, dict[str, Any]] = fs.find(path, detail=True)
    else:
        found = {}
        for match, info in fs.glob(path, detail=True).items():
            found |= fs.find(match, detail=True) if info["type"] == "directory" else {match: info}
    if not found:
        # An empty listing does not tell a bucket without such keys from no bucket.
        fs.info(bucket)
    return found


def _s3(options: Mapping[str, Any]) -> Any:
    # A cached listing hides what other machines have written since.
    return fsspec.filesystem("s3", **{**options, "use_listings_cache": False})


def _unquoted(etag: str) -> str:
    return etag.strip('"')


@contextmanager
def _s3_stream(source: Source, options: Mapping[str, Any]) -> Iterator[IO[bytes]]:
    from s3fs.utils import FileExpired

    path = source.uri.removeprefix("s3://")
    with _s3_errors(path.split("/", 1)[0], options):
        try:
            with _s3(options).open(path, "rb", block_size=_BLOCK_BYTES) as stream:
                if _unquoted(stream.details["ETag"]) != source.etag:
                    raise _changed(source)
                yield stream
        except FileExpired as error:
            raise _changed(source) from error
        except FileNotFoundError as error:
            raise _vanished(source) from error


@contextmanager
def _s3_errors(bucket: str, options: Mapping[str, Any]) -> Iterator[None]:
    """Says which bucket at which endpoint failed; no text of others, which might hold a key."""
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    where = f"bucket {bucket!r} at {_endpoint(options)}"
    try:
        yield
    except NoCredentialsError as error:
        raise ConfigurationError(
            f"{where}: no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
    except FileNotFoundError as error:
        raise ConfigurationError(f"{where} does not exist") from error
    except PermissionError as error:
        raise ConfigurationError(
            f"{where}: access denied; the credentials need to list and read it"
        ) from error
    except (BotoCoreError, ClientError, ConnectionError, TimeoutError) as error:
        raise ConfigurationError(f"{where} cannot be reached ({type(error).__name__})") from error


def _endpoint(options: Mapping[str, Any]) -> str:
    url = options.get("endpoint_url") or options.get("client_kwargs", {}).get("endpoint_url")
    if not url:
        return "the default endpoint"
    return str(urlsplit(str(url)).netloc.rpartition("@")[2])
