"""Transcript objects on Google Cloud Storage, Azure and the web, by the packages of fsspec."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import IO, Any, Final
from urllib.parse import urlsplit

import fsspec

from assizes.judge.errors import ConfigurationError, DataError
from assizes.judge.privacy.secret_masking import mask_credentials
from assizes.tasks.runtime.places import file_system_errors


@dataclass(frozen=True, slots=True)
class RemoteScheme:
    """What a scheme needs."""

    module: str  # of the package that fsspec opens it with
    extra: str  # of this package that installs it
    where: str  # what the first part of the URI names


SCHEMES: Final[Mapping[str, RemoteScheme]] = {
    "gs": RemoteScheme("gcsfs", "gcs", "bucket"),
    "gcs": RemoteScheme("gcsfs", "gcs", "bucket"),
    "az": RemoteScheme("adlfs", "azure", "container"),
    "abfs": RemoteScheme("adlfs", "azure", "container"),
    "https": RemoteScheme("aiohttp", "web", "host"),
    "http": RemoteScheme("aiohttp", "web", "host"),
}
"""The schemes that are read besides local paths and S3."""

_WEB: Final = ("http", "https")
_LOOPBACK: Final = ("localhost", "127.0.0.1", "::1")
_BLOCK_BYTES: Final = 8 << 20  # of one request
_CHUNK_BYTES: Final = 1 << 20
_MEMORY_BYTES: Final = 8 << 20  # of a web object that is kept in memory while it is unpacked
_ETAGS: Final = ("ETag", "etag", "md5Hash", "content_md5", "generation")
_TIMES: Final = ("LastModified", "last_modified", "updated", "mtime")


@dataclass(frozen=True, slots=True)
class RemoteObject:
    """One object as its service lists it."""

    uri: str
    etag: str  # as the service says, without quotes
    size: int  # bytes as stored
    modified: datetime | None


def is_remote(uri: str) -> bool:
    """Whether a URI has one of the schemes of this module."""
    return uri.partition("://")[0] in SCHEMES and "://" in uri


def remote_objects(uri: str, options: Mapping[str, Any]) -> list[RemoteObject]:
    """The objects at a key, a prefix or a glob; on the web the one object of a URL.

    Raises:
        ConfigurationError: the package for the scheme is missing, the place cannot be reached, or
            an object has nothing by which it can be pinned.
    """
    scheme = uri.partition("://")[0]
    with _explained(uri):
        files = _file_system(uri, options)
        if scheme in _WEB:
            objects = {uri: files.info(uri)}
        else:
            path = uri.partition("://")[2]
            if "*" in path or "?" in path or "[" in path:
                objects = dict(files.glob(path, detail=True))
            else:
                objects = files.find(path, detail=True)
        return [
            _object(name if scheme in _WEB else f"{scheme}://{name}", info)
            for name, info in sorted(objects.items())
            if info.get("type") != "directory"
        ]


@contextmanager
def remote_stream(
    uri: str, etag: str, options: Mapping[str, Any], most_bytes: int
) -> Iterator[IO[bytes]]:
    """A seekable stream of an object that still has the etag.

    Raises:
        DataError: `vanished`, `changed` since it was listed, or `too_large`.
        ConfigurationError: the place cannot be reached any more.
    """
    with _explained(uri):
        files = _file_system(uri, options)
        try:
            now = _object(uri, files.info(uri))
        except FileNotFoundError as error:
            if not _is_gone(error):
                raise
            raise DataError("vanished", f"{uri!r} was deleted after it was listed") from error
        if now.etag != etag:
            raise DataError("changed", f"{uri!r} is no longer as it was listed ({etag})")
        if uri.partition("://")[0] not in _WEB:
            with files.open(uri, "rb", block_size=_BLOCK_BYTES) as stream:
                yield stream
            return
        # A web server may not serve ranges: the whole is read once.
        with tempfile.SpooledTemporaryFile(_MEMORY_BYTES) as copy:
            with files.open(uri, "rb", block_size=0) as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    copy.write(chunk)
                    if copy.tell() > most_bytes:
                        raise DataError(
                            "too_large", "[transcripts] max_object_mb allows fewer bytes"
                        )
            copy.seek(0)
            yield copy


def _file_system(uri: str, options: Mapping[str, Any]) -> Any:
    scheme, _, rest = uri.partition("://")
    needed = SCHEMES[scheme]
    if not rest.strip("/"):
        raise ConfigurationError(f"[transcripts] uri {uri!r} names no {needed.where}")
    if scheme == "http" and urlsplit(uri).hostname not in _LOOPBACK:
        raise ConfigurationError(
            f"[transcripts] uri {uri!r}: anybody on the way can change what comes over http; accepted: https://"
        )
    if importlib.util.find_spec(needed.module) is None:
        raise ConfigurationError(
            f"[transcripts] uri {uri!r}: {scheme}:// needs the package {needed.module}; "
            f"`pip install 'assizes[{needed.extra}]'` installs it"
        )
    more = {} if scheme in _WEB else {"use_listings_cache": False}
    return fsspec.filesystem(scheme, **{**options, **more})


def _object(uri: str, info: Mapping[str, Any]) -> RemoteObject:
    etag = next((str(info[name]) for name in _ETAGS if info.get(name)), "").strip('"')
    if not etag:
        raise ConfigurationError(
            f"[transcripts] uri: {uri!r} has no ETag, so nobody could tell whether it has changed; "
            "download it, and give the path of the file"
        )
    modified = next((info[name] for name in _TIMES if isinstance(info.get(name), datetime)), None)
    return RemoteObject(uri, etag, int(info.get("size") or 0), modified)


def _is_gone(error: FileNotFoundError) -> bool:
    """Whether the service says so; fsspec says it of every fault of a web server."""
    cause = error.__cause__
    return cause is None or getattr(cause, "status", None) in (404, 410)


def _service_errors(uri: str) -> tuple[type[Exception], ...]:
    """What the packages of Google and Azure raise beside the errors of Python."""
    names = {
        "gcsfs": (("gcsfs.retry", "HttpError"), ("google.auth.exceptions", "GoogleAuthError")),
        "adlfs": (("azure.core.exceptions", "AzureError"),),
    }
    places = names.get(SCHEMES[uri.partition("://")[0]].module, ())
    return tuple(
        getattr(sys.modules[module], name) for module, name in places if module in sys.modules
    )


@contextmanager
def _explained(uri: str) -> Iterator[None]:
    """Name the place that failed; the text of a service may hold a key, and is masked."""
    try:
        yield
    except FileNotFoundError as error:
        if not _is_gone(error):
            status = getattr(error.__cause__, "status", None)
            why = f"HTTP {status}" if status else type(error.__cause__).__name__
            raise ConfigurationError(
                f"[transcripts] uri: {mask_credentials(uri)!r} cannot be read ({why})"
            ) from error
        raise ConfigurationError(
            f"[transcripts] uri: {mask_credentials(uri)!r} is not there"
        ) from error
    except (*file_system_errors(uri), *_service_errors(uri)) as error:
        why = mask_credentials(" ".join(str(error).split()))[:200] or type(error).__name__
        raise ConfigurationError(
            f"[transcripts] uri: {mask_credentials(uri)!r} cannot be read ({type(error).__name__}: {why})"
        ) from error
