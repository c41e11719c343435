"""Lists the transcript objects in a local folder or on S3, each pinned by its etag.

A local link that leads out of the listed folder is counted and not followed: whoever may write into
the folder could otherwise have any file of this machine read, and the first characters of that file
shown among the rejects. A link that the configuration itself names is followed. Every wait for S3
has a bound.
"""

from __future__ import annotations

import copy
import datetime as dt
import functools
import glob
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, NoReturn
from urllib.parse import urlsplit

import fsspec

from assizes.judge.errors import ConfigurationError, DataError, Inconclusive
from assizes.tasks.sources import unread
from assizes.tasks.sources.csv_files import CSV_SUFFIXES, is_csv
from assizes.tasks.sources.remote_files import SCHEMES, is_remote, remote_objects
from assizes.tasks.trace_stores.address import KINDS

BOM: Final = b"\xef\xbb\xbf"
"""The UTF-8 mark that some writers put at the start of a file; it is never part of a record."""

_PLAIN: Final = (".jsonl", ".json", ".ndjson")  # records as text, also packed
_WHOLE: Final = (".parquet", ".eval")  # archives, which are packed already
_SUFFIXES: Final = (
    *(plain + packed for packed in ("", ".gz", ".zst") for plain in (*_PLAIN, *CSV_SUFFIXES)),
    *_WHOLE,
)
"""Endings by which transcripts are known in a folder; a file that the user names may have any."""

_STORE_MARK: Final = "_assizes.json"  # lies at the root of each Parquet store
_STORE_FOLDERS: Final = ("runs", "comparisons")
_REPORT: Final = ("report.json", "report.html", "report.md")  # all three in one folder

_BLOCK_BYTES: Final = 8 << 20  # of one request to S3
_REQUEST_TIMEOUTS: Final[Mapping[str, Any]] = {
    "connect_timeout": 5,
    "read_timeout": 15,
    "retries": {"mode": "standard", "total_max_attempts": 5},
}
"""Timeouts in seconds and the number of tries of one request to S3.

Values in `storage_options.config_kwargs` take precedence."""

_S3FS_RETRIES: Final = 2
"""How often s3fs starts over, on top of the tries above, when a connection breaks.

With two, one request ends within three minutes, however the server behaves."""


@dataclass(frozen=True)
class TranscriptSource:
    """One transcript object, pinned by its content.

    Two sources that differ only in `modified` are equal.
    """

    uri: str  # posix path as configured, not made absolute; or s3://bucket/key
    etag: str  # on S3 the store's, without quotes; local: BLAKE2b of the content, 32 hex digits
    size: int  # bytes as stored, so before decompression
    # When the object was last written, as the listing says; `None` where that is not known.
    modified: dt.datetime | None = field(default=None, compare=False)


def list_sources(uri: str, storage_options: Mapping[str, Any]) -> list[TranscriptSource]:
    """The transcript objects at a file, folder (recursively), glob or S3 prefix, sorted by uri.

    A Parquet store or a report that this program wrote there is left out, unless `uri` is the file.
    CSV and TSV files are left out where other transcripts lie beside them: there they hold labels,
    or expected values.

    Raises:
        ConfigurationError: the path or bucket does not exist or cannot be read.
        Inconclusive: the place can be read and holds no transcript.
    """
    scheme, _, rest = uri.rpartition("://")
    # Else it would be the current folder, with all that lies there.
    if scheme != "s3" and not rest.strip():
        raise ConfigurationError(
            f"[transcripts] uri is {uri!r}; give a file, a folder, a glob or s3://bucket/prefix"
        )
    if scheme == "s3":
        sources = _bucket_sources(rest, storage_options)
    elif scheme in ("", "file"):
        sources = list(_local_sources(Path(rest)))
    elif is_remote(uri):
        sources = [
            TranscriptSource(remote.uri, remote.etag, remote.size, remote.modified)
            for remote in remote_objects(uri, storage_options)
            if remote.uri == uri or remote.uri.endswith(_SUFFIXES)
        ]
    else:
        known = [*(f"{name}://" for name in ("file", "s3", *SCHEMES, *KINDS)), "a plain path"]
        raise ConfigurationError.unknown("scheme", f"{scheme}://", known, "[transcripts] uri")
    if not sources:
        wanted = ", ".join(f"*{plain}" for plain in (*_PLAIN, *CSV_SUFFIXES))
        wholes = ", ".join(f"*{whole}" for whole in _WHOLE)
        raise Inconclusive(
            f"no transcripts under {uri!r}; looked for {wanted}, each also with .gz or .zst, {wholes}; "
            "[transcripts] uri may name a single file of any ending"
        )
    others = [source for source in sources if not is_csv(source.uri)]
    return sorted(others or sources, key=lambda source: source.uri)


def refresh_source(source: TranscriptSource, options: Mapping[str, Any]) -> TranscriptSource:
    """The object of the same uri as it is now.

    Raises:
        DataError: `vanished`.
        ConfigurationError: the bucket cannot be reached any more.
    """
    if "://" not in source.uri and not is_file(source.uri):
        raise vanished_error(source)
    with suppress(Inconclusive):  # an empty listing
        for candidate in list_sources(source.uri, options):
            if candidate.uri == source.uri:  # not what lies in a folder of that name
                return candidate
    raise vanished_error(source)


def refresh_if_present(source: TranscriptSource, options: Mapping[str, Any]) -> TranscriptSource:
    """The object as it is now, or as it was where it is gone."""
    try:
        return source if source.etag in unread.CODES else refresh_source(source, options)
    except DataError:
        return source


@contextmanager
def bucket_stream(source: TranscriptSource, options: Mapping[str, Any]) -> Iterator[IO[bytes]]:
    """A stream of the bytes of an object on S3 as it was listed.

    Raises:
        DataError: `changed`, also when the object is overwritten while it is read, or `vanished`.
        ConfigurationError: the bucket is not there, may not be read, or cannot be reached.
    """
    from s3fs.utils import FileExpired

    path = source.uri.removeprefix("s3://")
    with _explain_errors(path.split("/", 1)[0], options):
        try:
            with _s3(options).open(path, "rb", block_size=_BLOCK_BYTES) as stream:
                if stream.details["ETag"].strip('"') != source.etag:
                    raise changed_error(source)
                yield stream
        except FileExpired as error:  # s3fs asks for each block with the etag of the first
            raise changed_error(source) from error
        except FileNotFoundError as error:
            raise vanished_error(source) from error


class SourceFolder:
    """A folder of transcripts that answers which files really lie in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()
        self._parents: dict[Path, Path] = {}  # as named -> without links; files share few of them

    def contains(self, path: Path) -> bool:
        """Whether a file lies in the folder once links are followed."""
        if path.parent not in self._parents:
            self._parents[path.parent] = path.parent.resolve()
        target = path.resolve() if path.is_symlink() else self._parents[path.parent] / path.name
        return target.is_relative_to(self._folder)


def is_file(uri: str) -> bool:
    """Whether there is a file of that name; never an error, however impossible the name is."""
    return os.path.isfile(uri)  # noqa: PTH113  # pathlib raises for a name that is too long


def parts_before_pattern(parts: Iterable[str]) -> Iterator[str]:
    """The parts of a path before the first part with a glob pattern."""
    for part in parts:
        if glob.has_magic(part):
            return
        yield part


def changed_error(source: TranscriptSource) -> DataError:
    """The error for an object that is not as it was listed."""
    return DataError("changed", f"{source.uri!r} is no longer as it was listed ({source.etag})")


def vanished_error(source: TranscriptSource) -> DataError:
    """The error for an object that was listed and is gone."""
    return DataError("vanished", f"{source.uri!r} was deleted after it was listed")


def _is_own_output(path: str, exists: Callable[[str], bool]) -> bool:
    """Whether an object was written by this program: a part of a Parquet store, or of a report.

    `exists` is called for few paths, often for the same.
    """
    *folders, name = path.split("/")
    # By what lies beside it: a transcript may be called report.json, or lie in a folder `runs`.
    if name == _STORE_MARK:
        return True
    if name in _REPORT and all(exists("/".join([*folders, part])) for part in _REPORT):
        return True
    return any(
        folder in _STORE_FOLDERS and exists("/".join([*folders[:place], _STORE_MARK]))
        for place, folder in enumerate(folders)
    )


def _no_such_place(path: Path) -> ConfigurationError:
    looked = "" if path.is_absolute() else f" in {Path.cwd()}"
    why = f"does not exist{looked}; give a file, a folder or a glob"
    if "~" in path.parts:
        why = f"begins with a ~, which only a shell knows; write {str(path.expanduser())!r}"
    elif path.parts[:1] == ("s3:",):
        why = f"lacks a slash; write 's3://{'/'.join(path.parts[1:])}'"
    return ConfigurationError(f"[transcripts] uri: {str(path)!r} {why}")


def _local_sources(path: Path) -> Iterator[TranscriptSource]:
    # `None`: `uri` itself names the file, so a link there is meant (docs/decisions.md, 94).
    folder: SourceFolder | None = None
    paths: Iterable[Path] = [path]
    if path.is_dir():
        folder, paths = SourceFolder(path), _transcripts_below(path)
    elif not path.is_file():
        base = Path(*parts_before_pattern(path.parts))
        if base == path or not base.is_dir():  # no pattern in it, or no folder to look in
            raise _no_such_place(base)
        folder, paths = SourceFolder(base), _matches(base, path.relative_to(base).as_posix())
    exists = functools.cache(lambda path: Path(path).exists())
    for file_path in paths:
        if folder is None or not _is_own_output(file_path.as_posix(), exists):
            yield _local_source(file_path, folder)


def _local_source(path: Path, folder: SourceFolder | None) -> TranscriptSource:
    """The source of a local file, or one that is counted and rejected when it is read."""
    name = path.as_posix()
    if (escaped := name.encode(errors="backslashreplace").decode()) != name:
        # Neither rows nor logs nor JSON can hold the name; escaped, it tells which file it is.
        return TranscriptSource(escaped, unread.NAME, 0)
    try:
        if not is_file(name):
            return TranscriptSource(name, unread.NOT_A_FILE, 0)
        if folder is not None and not folder.contains(path):
            return TranscriptSource(name, unread.LINK, 0)
        state = path.stat()
        # The content pins it: checkouts differ in their times (docs/decisions.md, 5).
        etag = file_etag(name, state.st_mtime_ns, state.st_size, state.st_ino)
    except OSError as error:
        _refuse(error)
    modified = dt.datetime.fromtimestamp(state.st_mtime, dt.UTC)
    return TranscriptSource(name, etag, state.st_size, modified)


@functools.lru_cache(maxsize=8192)
def file_etag(path: str, *_state: int) -> str:
    """BLAKE2b of a file; `_state` (time, size, inode) makes the cache miss for a changed file."""
    new_digest = functools.partial(hashlib.blake2b, digest_size=16)
    with Path(path).open("rb") as stream:
        return hashlib.file_digest(stream, new_digest).hexdigest()


def _matches(base: Path, pattern: str) -> set[Path]:
    paths: set[Path] = set()
    for path in base.glob(pattern):
        if any(part.startswith(".") for part in path.relative_to(base).parts):
            continue
        if path.is_dir():
            paths.update(_transcripts_below(path))
        elif path.name.endswith(_SUFFIXES):
            paths.add(path)
    return paths


def _transcripts_below(folder: Path) -> Iterator[Path]:
    # `os.walk` skips a folder that it cannot list unless `onerror` raises; it follows no links to
    # folders, and goes into those that are left in `folders`.
    for root, folders, names in os.walk(folder, onerror=_refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(root, name)
            if name.endswith(_SUFFIXES) and not name.startswith("."):
                yield path


def _refuse(error: OSError) -> NoReturn:
    raise ConfigurationError(
        f"[transcripts] uri: cannot read {error.filename!r}: {error.strerror}"
    ) from error


def _bucket_sources(rest: str, options: Mapping[str, Any]) -> list[TranscriptSource]:
    """The transcript objects at `bucket/key`, `bucket/prefix` or a glob of either."""
    bucket = rest.split("/", 1)[0]
    if not bucket:
        raise ConfigurationError(
            "[transcripts] uri 's3://' names no bucket; use s3://bucket/prefix"
        )
    with _explain_errors(bucket, options):
        fs = _s3(options)
        objects = _bucket_objects(fs, rest, bucket)
        base = "/".join(parts_before_pattern(rest.split("/"))).rstrip("/")
        exists = functools.cache(lambda path: path in objects or fs.exists(path))
        return [
            TranscriptSource(
                f"s3://{path}", info["ETag"].strip('"'), int(info["size"]), info.get("LastModified")
            )
            for path, info in objects.items()
            if (path == rest and not rest.endswith("/"))  # one key, whatever its ending
            or (
                path.endswith(_SUFFIXES)
                and "/." not in path[len(base) :]  # hidden, but not by the configured part
                and not _is_own_output(path, exists)
            )
        ]


def _bucket_objects(fs: Any, path: str, bucket: str) -> dict[str, dict[str, Any]]:
    if not glob.has_magic(path):
        objects: dict[str, dict[str, Any]] = fs.find(path, detail=True)  # a file or a prefix
    else:
        above, _, name = path.rstrip("/").rpartition("/")
        # As in a folder, an object of that very name goes before a pattern. By listing it: the
        # credentials may not allow to read just any key.
        named = fs.find(above, prefix=name, detail=True)
        if path in named:
            return {path: named[path]}
        objects = {}
        for match, info in fs.glob(path, detail=True).items():
            objects |= fs.find(match, detail=True) if info["type"] == "directory" else {match: info}
    if not objects:
        # An empty listing does not tell a bucket without such keys from no bucket.
        fs.info(bucket)
    return objects


def _s3(options: Mapping[str, Any]) -> Any:
    # Copied, because botocore writes into the dictionary that it is given.
    client_config = copy.deepcopy(dict(options.get("config_kwargs", {})))
    retries = {**_REQUEST_TIMEOUTS["retries"], **client_config.get("retries", {})}
    timeouts = {**_REQUEST_TIMEOUTS, **client_config, "retries": retries}
    # A cached listing hides what other machines have written since.
    fs = fsspec.filesystem(
        "s3", **{**options, "config_kwargs": timeouts, "use_listings_cache": False}
    )
    fs.retries = _S3FS_RETRIES
    return fs


@contextmanager
def _explain_errors(bucket: str, options: Mapping[str, Any]) -> Iterator[None]:
    """Name the bucket and the endpoint that failed, not the server's text: it may hold a key."""
    from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

    url = options.get("endpoint_url") or options.get("client_kwargs", {}).get("endpoint_url")
    # Behind the `@`: a user and a password may stand in front of the host.
    endpoint = urlsplit(str(url)).netloc.rpartition("@")[2] if url else "the default endpoint"
    where = f"bucket {bucket!r} at {endpoint}"
    try:
        yield
    except NoCredentialsError as error:
        raise ConfigurationError(
            f"{where}: no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{where} does not exist; [transcripts] uri names the bucket, [transcripts.storage_options] "
            "endpoint_url the service"
        ) from error
    except PermissionError as error:
        raise ConfigurationError(
            f"{where}: access denied; AWS_ACCESS_KEY_ID must be allowed to list and read it"
        ) from error
    except (BotoCoreError, ClientError, OSError) as error:
        raise ConfigurationError(
            f"{where} cannot be reached ({_error_kind(error)}); [transcripts.storage_options] "
            "endpoint_url names another service than AWS"
        ) from error


def _error_kind(error: BaseException) -> str:
    """The error code that the service answered with, else the class of the error."""
    for candidate in (error, error.__cause__):
        if (answer := getattr(candidate, "response", None)) and (details := answer.get("Error")):
            return str(details.get("Code"))
    return type(error).__name__
