"""Transcript objects on S3: which there are, and a stream of one, with a bound on every wait."""

from __future__ import annotations

import copy
import functools
import glob
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any, Final
from urllib.parse import urlsplit

import fsspec

from assizes.judge.errors import ConfigurationError
from assizes.tasks.sources.own_output import is_ours
from assizes.tasks.sources.pinned import SUFFIXES, Source, changed, until_magic, vanished

_BLOCK_BYTES: Final = 8 << 20

PATIENCE: Final[Mapping[str, Any]] = {
    "connect_timeout": 5,
    "read_timeout": 15,
    "retries": {"mode": "standard", "total_max_attempts": 5},
}
"""Of one request, in seconds and tries, unless `storage_options.config_kwargs` says otherwise."""

_ROUNDS: Final = 2
"""What s3fs makes of the tries above where a connection breaks: so one request ends within three
minutes, however the server behaves."""


def bucket_sources(rest: str, options: Mapping[str, Any]) -> list[Source]:
    """The transcript objects at `bucket/key`, `bucket/prefix` or a glob of either.

    Raises:
        ConfigurationError: the bucket is not there, may not be read, or cannot be reached.
    """
    bucket = rest.split("/", 1)[0]
    if not bucket:
        raise ConfigurationError(
            "[transcripts] uri 's3://' names no bucket; use s3://bucket/prefix"
        )
    with _said(bucket, options):
        fs = _s3(options)
        found = _found(fs, rest, bucket)
        base = "/".join(until_magic(rest.split("/"))).rstrip("/")
        exists = functools.cache(lambda path: path in found or fs.exists(path))
        return [
            Source(
                f"s3://{path}",
                _unquoted(info["ETag"]),
                int(info["size"]),
                info.get("LastModified"),
            )
            for path, info in found.items()
            if (path == rest and not rest.endswith("/"))
            or (
                path.endswith(SUFFIXES)
                and "/." not in path[len(base) :]
                and not is_ours(path, exists)
            )
        ]


@contextmanager
def bucket_stream(source: Source, options: Mapping[str, Any]) -> Iterator[IO[bytes]]:
    """The bytes of an object as it was listed.

    Raises:
        DataError: `changed`, also when it is overwritten while it is read, or `vanished`.
        ConfigurationError: as `bucket_sources`.
    """
    from s3fs.utils import FileExpired

    path = source.uri.removeprefix("s3://")
    with _said(path.split("/", 1)[0], options):
        try:
            with _s3(options).open(path, "rb", block_size=_BLOCK_BYTES) as stream:
                if _unquoted(stream.details["ETag"]) != source.etag:
                    raise changed(source)
                yield stream
        except FileExpired as error:
            raise changed(source) from error
        except FileNotFoundError as error:
            raise vanished(source) from error


def _found(fs: Any, path: str, bucket: str) -> dict[str, dict[str, Any]]:
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
    # Copied: botocore writes into what it is given.
    given = copy.deepcopy(dict(options.get("config_kwargs", {})))
    retries = {**PATIENCE["retries"], **given.get("retries", {})}
    patience = {**PATIENCE, **given, "retries": retries}
    # A cached listing hides what other machines have written since.
    settled = {**options, "config_kwargs": patience, "use_listings_cache": False}
    fs = fsspec.filesystem("s3", **settled)
    fs.retries = _ROUNDS
    return fs


def _unquoted(etag: str) -> str:
    return etag.strip('"')


@contextmanager
def _said(bucket: str, options: Mapping[str, Any]) -> Iterator[None]:
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
    except (BotoCoreError, ClientError, OSError) as error:
        raise ConfigurationError(f"{where} cannot be reached ({_kind(error)})") from error


def _kind(error: BaseException) -> str:
    """The code of a service's refusal, else the class of the error."""
    for one in (error, error.__cause__):
        if (answer := getattr(one, "response", None)) and (said := answer.get("Error")):
            return str(said.get("Code"))
    return type(error).__name__


def _endpoint(options: Mapping[str, Any]) -> str:
    url = options.get("endpoint_url") or options.get("client_kwargs", {}).get("endpoint_url")
    if not url:
        return "the default endpoint"
    return str(urlsplit(str(url)).netloc.rpartition("@")[2])
