"""Objects at a URI: in a bucket of any file system that fsspec knows, or in a local folder."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import Any, Final

from assizes.judge.errors import StoreError
from assizes.judge.privacy.secret_masking import mask_credentials
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store.objects import Entry, ExpectedBytes, Folder, Objects, check_object

LOCAL_SCHEMES: Final = ("file://", "local://")  # schemes of URIs that name a local folder
PROBES: Final = "probes"  # the folder of what `creates_once` writes as a test and deletes again

_BUSY_STATUSES: Final = frozenset({409, 429, 500, 502, 503, 504})
"""HTTP statuses after which a conditional put is retried."""
_ATTEMPTS: Final = 4  # tries of one conditional put
_PRECONDITION_FAILED: Final = 412  # the HTTP status of a conditional put where the object exists


def objects_at(uri: str, storage_options: Mapping[str, Any]) -> Objects:
    """The objects below a URI; a URI without a scheme is a local folder.

    Raises:
        StoreError: when no file system is known for the URI's scheme.
    """
    path = local_path(uri)
    return Bucket(uri, storage_options) if path is None else Folder(path)


def local_path(uri: str) -> Path | None:
    """The local path that a URI names; `None` for a bucket."""
    for scheme in LOCAL_SCHEMES:
        if uri.startswith(scheme):
            return Path(uri.removeprefix(scheme))
    return None if "://" in uri else Path(uri).expanduser()


class Bucket:
    """Objects of one bucket; implements `assizes.tasks.store.objects.Objects`."""

    def __init__(self, uri: str, storage_options: Mapping[str, Any]) -> None:
        from fsspec.core import url_to_fs  # here and below: a local folder must not wait for these

        endpoint = storage_options.get("endpoint_url")
        self.where = mask_credentials(f"{uri} at {endpoint}" if endpoint else uri)
        self._errors: tuple[type[Exception], ...] = (OSError,)  # of an operation
        self._whole: dict[str, Any] = {}  # options with which an object is read
        self._can_create_once: bool | None = None  # None until the server has been probed
        if uri.startswith(("http://", "https://")):  # which can only be read
            raise _refusal(uri, "nothing can be written there")
        try:
            # A cached listing would hide what other processes have just written.
            self._fs, root = url_to_fs(
                uri, skip_instance_cache=True, use_listings_cache=False, **storage_options
            )
        except (ImportError, ValueError, TypeError, OSError) as error:  # ftp:// connects here
            raise _refusal(uri, _first_line(error)) from error
        self._root = str(root).rstrip("/")
        if "s3" in self._fs.protocol:
            from botocore.exceptions import BotoCoreError

            self._errors = (OSError, BotoCoreError)  # s3fs converts only errors with a response
            # By default s3fs asks for the size first, to read large objects in parts: two requests.
            self._whole = {"max_concurrency": 1}

    def creates_once(self) -> bool:
        """Whether the server honours conditional writes."""
        if self._can_create_once is None:
            # Some servers ignore the condition without a word, and accept the second put as well.
            name = f"{PROBES}/{uuid.uuid4().hex}"
            failpoint("bucket.probe.before")
            self._put_new(name, b"once")
            failpoint("bucket.probe.half")
            self._can_create_once = not self._put_new(name, b"twice")
            failpoint("bucket.probe.after")
            self._fs.rm_file(self._path(name))
        return self._can_create_once

    def create(self, name: str, data: bytes) -> bool:
        """Put an object if it is absent; after a conflict or a fault of the server, retry."""
        with self._convert_errors("write", name):
            if not self.creates_once() and self._fs.exists(self._path(name)):  # safe for one writer
                return False
            failpoint("bucket.create.before")
            created = self._put_new(name, data)
            failpoint("bucket.create.after")
            return created

    def replace(self, name: str, data: bytes) -> None:
        """Put an object; readers see the old object or the new one, never a mixture."""
        failpoint("bucket.replace.before")
        with self._convert_errors("write", name):
            self._fs.pipe_file(self._path(name), data)
        failpoint("bucket.replace.after")

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """Fetch all objects together; an object that cannot be read is an error, not a missing one."""
        if not names:
            return {}
        contents = {}
        with self._convert_errors("read", names[0]):
            paths = [self._path(name) for name in names]
            replies = self._fs.cat(paths, on_error="return", **self._whole)
            for name in names:
                reply = replies[self._path(name)]
                if isinstance(reply, bytes):
                    contents[name] = reply
                # s3fs raises FileNotFoundError for a missing bucket as well.
                elif not isinstance(reply, FileNotFoundError) or _is_missing_bucket(reply):
                    raise reply
        return contents

    def names(self, folder: str) -> list[str]:
        """Names below a folder, as the server lists them now."""
        return [PurePosixPath(entry["name"]).name for entry in self._list_objects(folder)]

    def states(self, _names: Sequence[str]) -> None:
        """None: a server takes a request for each object, as for reading it."""
        return

    def entries(self, folder: str) -> list[Entry]:
        """Objects below a folder, as the server lists them now."""
        listing = []
        for entry in self._list_objects(folder):
            if entry["type"] == "file":
                name = entry["name"]
                # s3fs has the first key, other file systems the second, or no time in a listing.
                time = entry.get("LastModified") or entry.get("created") or self._fs.modified(name)
                aware: datetime = time if time.tzinfo else time.replace(tzinfo=UTC)
                listing.append(Entry(PurePosixPath(name).name, entry["size"] or 0, aware))
        return listing

    def remove(self, names: Iterable[str]) -> None:
        """Delete objects."""
        for name in names:
            with self._convert_errors("remove", name), suppress(FileNotFoundError):
                self._fs.rm_file(self._path(name))

    def sources(self, wanted: Mapping[str, ExpectedBytes]) -> list[bytes]:
        """The bytes of the objects, each fetched whole and hashed."""
        # Polars would read a part in slower pieces, and need the credentials a second time.
        contents = self.read(list(wanted))
        return [check_object(self.where, name, contents.get(name), wanted[name]) for name in wanted]

    def _put_new(self, name: str, data: bytes) -> bool:
        """Put an object on the condition that it is absent; returns whether it was."""
        from tenacity import Retrying, retry_if_exception, stop_after_attempt
        from tenacity.wait import wait_random_exponential

        retrying = Retrying(
            retry=retry_if_exception(_is_busy),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_random_exponential(0.05, max=1.0),  # seconds
            reraise=True,
        )
        try:
            retrying(self._fs.pipe_file, self._path(name), data, mode="create")  # If-None-Match: *
        except FileExistsError:  # s3fs turns one form of the servers' refusal into this
            return False
        except OSError as error:
            if _http_status(error) == _PRECONDITION_FAILED:
                return False
            raise
        return True

    def _list_objects(self, folder: str) -> list[dict[str, Any]]:
        with self._convert_errors("list", folder):
            try:
                listing = self._fs.ls(self._path(folder), detail=True)
            except FileNotFoundError as error:
                if _is_missing_bucket(error):
                    raise
                return []  # no object lies below that prefix
        return sorted(listing, key=lambda entry: str(entry["name"]))

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextmanager
    def _convert_errors(self, act: str, name: str) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            line = _first_line(error)
            if "locate credentials" in line:
                line += "; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            raise StoreError(f"{self.where}: cannot {act} {name!r}: {line}") from error


def _refusal(uri: str, why: str) -> StoreError:
    return StoreError(
        f"[store] uri {mask_credentials(uri)!r} cannot be opened: {why}; accepted: duckdb:///file, "
        "a folder, s3://bucket/prefix"
    )


def _is_busy(error: BaseException) -> bool:
    is_locked = isinstance(error, OSError) and error.errno == errno.EBUSY  # s3fs: HTTP 409, 503
    return is_locked or _http_status(error) in _BUSY_STATUSES


def _first_line(error: Exception) -> str:
    return mask_credentials((str(error).strip() or type(error).__name__).split("\n", 1)[0])


def _response(error: BaseException) -> Mapping[str, Any]:
    return getattr(error.__cause__, "response", None) or {}  # of botocore's error


def _http_status(error: BaseException) -> int | None:
    status: int | None = _response(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status


def _is_missing_bucket(error: Exception) -> bool:
    return bool(_response(error).get("Error", {}).get("Code") == "NoSuchBucket")
