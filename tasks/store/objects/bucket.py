"""Objects in a bucket: any file system that fsspec knows, S3 above all."""

from __future__ import annotations

import errno
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import Any, Final

from tenacity import Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from assizes.judge.errors import StoreError
from assizes.judge.privacy.credentials import mask_credentials
from assizes.tasks.runtime.failpoints import failpoint
from assizes.tasks.store.objects.protocol import Entry, size_error

_BUSY_STATUSES: Final = frozenset({409, 429, 500, 502, 503, 504})
"""HTTP statuses after which a conditional put is retried."""

_ATTEMPTS: Final = 4
"""Tries of one conditional put."""

_PRECONDITION_FAILED: Final = 412

PROBES: Final = "probes"
"""The folder of the objects that `creates_once` writes as a test and deletes again."""


class Bucket:
    """Objects of one bucket; implements `assizes.tasks.store.objects.protocol.Objects`."""

    def __init__(self, uri: str, storage_options: Mapping[str, Any]) -> None:
        endpoint = storage_options.get("endpoint_url")
        self.where = mask_credentials(f"{uri} at {endpoint}" if endpoint else uri)
        self._errors: tuple[type[Exception], ...] = (OSError,)
        self._fs, self._root = self._open_file_system(uri, storage_options)
        self._can_create_once: bool | None = None
        if "s3" in self._fs.protocol:
            from botocore.exceptions import BotoCoreError

            self._errors = (OSError, BotoCoreError)

    def creates_once(self) -> bool:
        """Whether the server honours conditional writes.

        Some servers ignore the condition without a word. So the first call puts a probe twice: the
        server must refuse the second put.
        """
        if self._can_create_once is None:
            self._can_create_once = self._probe_conditional_put()
        return self._can_create_once

    def create(self, name: str, data: bytes) -> bool:
        """Put an object if it is absent; after a conflict or a fault of the server, retry."""
        with self._convert_errors("write", name):
            if not self.creates_once() and self._fs.exists(self._path(name)):
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
            replies = self._fs.cat([self._path(name) for name in names], on_error="return")
            for name in names:
                reply = replies[self._path(name)]
                if isinstance(reply, bytes):
                    contents[name] = reply
                elif not isinstance(reply, FileNotFoundError) or _is_missing_bucket(reply):
                    raise reply
        return contents

    def names(self, folder: str) -> list[str]:
        """Names below a folder, as the server lists them now."""
        return [PurePosixPath(entry["name"]).name for entry in self._list_objects(folder)]

    def entries(self, folder: str) -> list[Entry]:
        """Objects below a folder, as the server lists them now."""
        return [
            Entry(
                PurePosixPath(entry["name"]).name,
                entry["size"] or 0,
                self._modification_time(entry),
            )
            for entry in self._list_objects(folder)
            if entry["type"] == "file"
        ]

    def remove(self, names: Iterable[str]) -> None:
        """Delete objects."""
        for name in names:
            with self._convert_errors("remove", name):
                try:
                    self._fs.rm_file(self._path(name))
                except FileNotFoundError:
                    continue

    def sources(self, sizes: Mapping[str, int]) -> list[bytes]:
        """The bytes of the objects.

        A whole part is fetched faster than polars reads it in pieces, and polars would need the
        credentials a second time.
        """
        contents = self.read(list(sizes))
        for name, size in sizes.items():
            length = len(contents[name]) if name in contents else None
            if length != size:
                raise size_error(self.where, name, length, size)
        return [contents[name] for name in sizes]

    def _put_new(self, name: str, data: bytes) -> bool:
        """Put an object on the condition that it is absent; returns whether it was.

        Servers refuse in two ways: s3fs turns one of the answers into `FileExistsError`, the other
        is HTTP 412.
        """
        retrying = Retrying(
            retry=retry_if_exception(_is_busy),
            stop=stop_after_attempt(_ATTEMPTS),
            wait=wait_random_exponential(0.05, max=1.0),
            reraise=True,
        )
        try:
            retrying(self._fs.pipe_file, self._path(name), data, mode="create")
        except FileExistsError:
            return False
        except OSError as error:
            if _http_status(error) == _PRECONDITION_FAILED:
                return False
            raise
        return True

    def _probe_conditional_put(self) -> bool:
        name = f"{PROBES}/{uuid.uuid4().hex}"
        failpoint("bucket.probe.before")
        self._put_new(name, b"once")
        failpoint("bucket.probe.half")
        refused = not self._put_new(name, b"twice")
        failpoint("bucket.probe.after")
        self._fs.rm_file(self._path(name))
        return refused

    def _list_objects(self, folder: str) -> list[dict[str, Any]]:
        with self._convert_errors("list", folder):
            try:
                listing = self._fs.ls(self._path(folder), detail=True)
            except FileNotFoundError as error:
                if _is_missing_bucket(error):
                    raise
                return []
        return sorted(listing, key=lambda entry: str(entry["name"]))

    def _modification_time(self, entry: Mapping[str, Any]) -> datetime:
        raw_time = (
            entry.get("LastModified") or entry.get("created") or self._fs.modified(entry["name"])
        )
        moment: datetime = raw_time
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _open_file_system(self, uri: str, storage_options: Mapping[str, Any]) -> tuple[Any, str]:
        from fsspec.core import url_to_fs

        try:
            fs, root = url_to_fs(
                uri, skip_instance_cache=True, use_listings_cache=False, **storage_options
            )
        except (ImportError, ValueError, TypeError) as error:
            raise StoreError(
                f"[store] uri {mask_credentials(uri)!r} cannot be opened: {_first_line(error)}; "
                "accepted: duckdb:///file, a folder, s3://bucket/prefix"
            ) from error
        return fs, str(root)

    @contextmanager
    def _convert_errors(self, act: str, name: str) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise StoreError(
                f"{self.where}: cannot {act} {name!r}: {_first_line(error)}"
            ) from error


def _is_busy(error: BaseException) -> bool:
    if isinstance(error, OSError) and error.errno == errno.EBUSY:
        return True
    return _http_status(error) in _BUSY_STATUSES


def _first_line(error: Exception) -> str:
    return mask_credentials((str(error).strip() or type(error).__name__).split("\n", 1)[0])


def _response(error: BaseException) -> Mapping[str, Any]:
    response: Mapping[str, Any] = getattr(error.__cause__, "response", None) or {}
    return response


def _http_status(error: BaseException) -> int | None:
    status: int | None = _response(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status


def _is_missing_bucket(error: Exception) -> bool:
    code: str | None = _response(error).get("Error", {}).get("Code")
    return code == "NoSuchBucket"
