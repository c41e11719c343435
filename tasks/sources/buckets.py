"""Lists and streams transcript objects on S3, with a bound on every wait."""

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
from assizes.tasks.sources.transcript_source import (
    SUFFIXES,
    TranscriptSource,
    changed_error,
    is_own_output,
    parts_before_pattern,
    vanished_error,
)

_BLOCK_BYTES: Final = 8 << 20

REQUEST_TIMEOUTS: Final[Mapping[str, Any]] = {
    "connect_timeout": 5,
    "read_timeout": 15,
    "retries": {"mode": "standard", "total_max_attempts": 5},
}
"""Timeouts in seconds and the number of tries of one request to S3.

Values in `storage_options.config_kwargs` take precedence."""

_S3FS_RETRIES: Final = 2
"""How often s3fs starts over, on top of the tries above, when a connection breaks.

With two, one request ends within three minutes, however the server behaves."""


def bucket_sources(rest: str, options: Mapping[str, Any]) -> list[TranscriptSource]:
    """The transcript objects at `bucket/key`, `bucket/prefix` or a glob of either.

    Raises:
        ConfigurationError: the bucket is not there, may not be read, or cannot be reached.
    """
    bucket = rest.split("/", 1)[0]
    if not bucket:
        raise ConfigurationError(
            "[transcripts] uri 's3://' names no bucket; use s3://bucket/prefix"
        )
    with _explain_errors(bucket, options):
        fs = _s3(options)
        objects = _list_objects(fs, rest, bucket)
        base = "/".join(parts_before_pattern(rest.split("/"))).rstrip("/")
        exists = functools.cache(lambda path: path in objects or fs.exists(path))
        return [
            TranscriptSource(
                f"s3://{path}",
                _plain_etag(info["ETag"]),
                int(info["size"]),
                info.get("LastModified"),
            )
            for path, info in objects.items()
            if (path == rest and not rest.endswith("/"))
            or (
                path.endswith(SUFFIXES)
                and "/." not in path[len(base) :]
                and not is_own_output(path, exists)
            )
        ]


@contextmanager
def bucket_stream(source: TranscriptSource, options: Mapping[str, Any]) -> Iterator[IO[bytes]]:
    """A stream of the bytes of an object as it was listed.

    Raises:
        DataError: `changed`, also when the object is overwritten while it is read, or `vanished`.
        ConfigurationError: as `bucket_sources`.
    """
    from s3fs.utils import FileExpired

    path = source.uri.removeprefix("s3://")
    with _explain_errors(path.split("/", 1)[0], options):
        try:
            with _s3(options).open(path, "rb", block_size=_BLOCK_BYTES) as stream:
                if _plain_etag(stream.details["ETag"]) != source.etag:
                    raise changed_error(source)
                yield stream
        except FileExpired as error:
            raise changed_error(source) from error
        except FileNotFoundError as error:
            raise vanished_error(source) from error


def _list_objects(fs: Any, path: str, bucket: str) -> dict[str, dict[str, Any]]:
    if not glob.has_magic(path):
        objects: dict[str, dict[str, Any]] = fs.find(path, detail=True)
    else:
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
    retries = {**REQUEST_TIMEOUTS["retries"], **client_config.get("retries", {})}
    timeouts = {**REQUEST_TIMEOUTS, **client_config, "retries": retries}
    # A cached listing hides what other machines have written since.
    s3_options = {**options, "config_kwargs": timeouts, "use_listings_cache": False}
    fs = fsspec.filesystem("s3", **s3_options)
    fs.retries = _S3FS_RETRIES
    return fs


def _plain_etag(etag: str) -> str:
    return etag.strip('"')


@contextmanager
def _explain_errors(bucket: str, options: Mapping[str, Any]) -> Iterator[None]:
    """Name the bucket and the endpoint that failed, but not the server's text: it may hold a key."""
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
        raise ConfigurationError(f"{where} cannot be reached ({_error_kind(error)})") from error


def _error_kind(error: BaseException) -> str:
    """The error code that the service answered with, else the class of the error."""
    for candidate in (error, error.__cause__):
        if (answer := getattr(candidate, "response", None)) and (details := answer.get("Error")):
            return str(details.get("Code"))
    return type(error).__name__


def _endpoint(options: Mapping[str, Any]) -> str:
    url = options.get("endpoint_url") or options.get("client_kwargs", {}).get("endpoint_url")
    if not url:
        return "the default endpoint"
    return str(urlsplit(str(url)).netloc.rpartition("@")[2])
