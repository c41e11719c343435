"""Named bytes that are created once: a local folder, or any bucket that fsspec reaches.

The lake above needs three promises: an object appears whole or not at all, creating it fails where
it exists, and a listing shows what another process has just written.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

from judge.credentials import masked
from judge.errors import StoreError

_LOCAL = ("file://", "local://")


class Objects(Protocol):
    """Objects by slash-separated names below one root."""

    @property
    def where(self) -> str:
        """The root, and its endpoint if it has one, for messages."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Write an object that is not there; false, and nothing written, where it is."""
        ...

    def replace(self, name: str, data: bytes) -> None:
        """Write an object, there or not."""
        ...

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The bytes of those that are there, by name."""
        ...

    def names(self, folder: str) -> list[str]:
        """Last parts of the names directly below a folder, sorted; none where it is missing."""
        ...

    def sources(self, sizes: Mapping[str, int]) -> list[Path] | list[bytes]:
        """What polars can scan for each object, in the order given.

        Args:
            sizes: the bytes each object must have, by name.

        Raises:
            StoreError: when one is missing or has another size.
        """
        ...


def objects_at(uri: str, storage_options: Mapping[str, Any]) -> Objects:
    """The objects below a URI; a URI without a scheme is a local folder.

    Raises:
        StoreError: when no file system is known for it.
    """
    for scheme in _LOCAL:
        if uri.startswith(scheme):
            return Folder(Path(uri.removeprefix(scheme)))
    return Bucket(uri, storage_options) if "://" in uri else Folder(Path(uri).expanduser())


def size_error(where: str, name: str, found: int | None, size: int) -> StoreError:
    """A committed part that is not what its commit mark says."""
    state = "is missing" if found is None else f"has {found} bytes"
    return StoreError(
        f"{where}: {name} {state}, its commit mark says {size} bytes; restore the file"
    )


class Folder:
    """Objects as files of a local folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.where = str(root)

    def create(self, name: str, data: bytes) -> bool:
        """Write beside the final name, then link: a link fails where its target exists, and what
        it names is complete. Opening the final name exclusively would show it half written.
        """
        with self._told("write", name), _written(self._root / name, data) as draft:
            try:
                (self._root / name).hardlink_to(draft)
            except FileExistsError:
                return False
        return True

    def replace(self, name: str, data: bytes) -> None:
        """Write beside the final name, then rename over it."""
        with self._told("write", name), _written(self._root / name, data) as draft:
            draft.replace(self._root / name)

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """The bytes of those files that are there."""
        found = {}
        for name in names:
            with self._told("read", name):
                try:
                    found[name] = (self._root / name).read_bytes()
                except (FileNotFoundError, NotADirectoryError):
                    continue
        return found

    def names(self, folder: str) -> list[str]:
        """Names in a folder; drafts, which start with a dot, are not there yet."""
        with self._told("list", folder):
            try:
                entries = sorted(entry.name for entry in (self._root / folder).iterdir())
            except FileNotFoundError:
                return []
        return [name for name in entries if not name.startswith(".")]

    def sources(self, sizes: Mapping[str, int]) -> list[Path]:
        """The files themselves, so that a scan reads only the columns it needs."""
        paths = []
        for name, size in sizes.items():
            path = self._root / name
            found = path.stat().st_size if path.exists() else None
            if found != size:
                raise size_error(self.where, name, found, size)
            paths.append(path)
        return paths

    @contextmanager
    def _told(self, act: str, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(
                f"{self.where}: cannot {act} {name!r}: {error.strerror or error}"
            ) from error


@contextmanager
def _written(final: Path, data: bytes) -> Iterator[Path]:
    """A draft beside the final file, on disk before the caller names it, gone afterwards."""
    final.parent.mkdir(parents=True, exist_ok=True)
    draft = final.parent / f".{uuid.uuid4().hex}"
    try:
        with draft.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)
    _sync_folder(final.parent)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class Bucket:
    """Objects of any file system that fsspec knows, S3 above all."""

    def __init__(self, uri: str, storage_options: Mapping[str, Any]) -> None:
        endpoint = storage_options.get("endpoint_url")
        self.where = masked(f"{uri} at {endpoint}" if endpoint else uri)
        self._errors: tuple[type[Exception], ...] = (OSError,)
        self._fs, self._root = self._opened(uri, storage_options)
        if "s3" in self._fs.protocol:
            from botocore.exceptions import BotoCoreError

            self._errors = (OSError, BotoCoreError)

    def create(self, name: str, data: bytes) -> bool:
        """Put if absent. Servers differ in how they refuse: s3fs knows only one of the answers."""
        with self._told("write", name):
            try:
                self._fs.pipe_file(self._path(name), data, mode="create")
            except FileExistsError:
                return False
            except OSError as error:
                if _http_status(error) == 412:
                    return False
                raise
        return True

    def replace(self, name: str, data: bytes) -> None:
        """Put; readers see the old object or the new one."""
        with self._told("write", name):
            self._fs.pipe_file(self._path(name), data)

    def read(self, names: Sequence[str]) -> dict[str, bytes]:
        """All of them at once; an object that cannot be read is an error, not a missing one."""
        if not names:
            return {}
        found = {}
        with self._told("read", names[0]):
            replies = self._fs.cat([self._path(name) for name in names], on_error="return")
            for name in names:
                reply = replies[self._path(name)]
                if isinstance(reply, bytes):
                    found[name] = reply
                elif not isinstance(reply, FileNotFoundError) or _no_bucket(reply):
                    raise reply
        return found

    def names(self, folder: str) -> list[str]:
        """Names below a folder, as the server lists them now."""
        with self._told("list", folder):
            try:
                paths = self._fs.ls(self._path(folder), detail=False)
            except FileNotFoundError as error:
                if _no_bucket(error):
                    raise
                return []
        return sorted(PurePosixPath(path).name for path in paths)

    def sources(self, sizes: Mapping[str, int]) -> list[bytes]:
        """The bytes themselves: a whole part is fetched faster than it is read in pieces, and one
        set of credentials serves both.
        """
        found = self.read(list(sizes))
        for name, size in sizes.items():
            length = len(found[name]) if name in found else None
            if length != size:
                raise size_error(self.where, name, length, size)
        return [found[name] for name in sizes]

    def _path(self, name: str) -> str:
        return f"{self._root.rstrip('/')}/{name}"

    def _opened(self, uri: str, storage_options: Mapping[str, Any]) -> tuple[Any, str]:
        from fsspec.core import url_to_fs

        try:
            fs, root = url_to_fs(
                uri, skip_instance_cache=True, use_listings_cache=False, **storage_options
            )
        except (ImportError, ValueError, TypeError) as error:
            raise StoreError(
                f"[store] uri {masked(uri)!r} cannot be opened: {_first_line(error)}; "
                "accepted: duckdb:///file, a folder, s3://bucket/prefix"
            ) from error
        return fs, str(root)

    @contextmanager
    def _told(self, act: str, name: str) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise StoreError(
                f"{self.where}: cannot {act} {name!r}: {_first_line(error)}"
            ) from error


def _first_line(error: Exception) -> str:
    return masked((str(error).strip() or type(error).__name__).split("\n", 1)[0])


def _response(error: Exception) -> Mapping[str, Any]:
    response: Mapping[str, Any] = getattr(error.__cause__, "response", None) or {}
    return response


def _http_status(error: Exception) -> int | None:
    status: int | None = _response(error).get("ResponseMetadata", {}).get("HTTPStatusCode")
    return status


def _no_bucket(error: Exception) -> bool:
    code: str | None = _response(error).get("Error", {}).get("Code")
    return code == "NoSuchBucket"
