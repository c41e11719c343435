"""The settings of a run, one module for a few tables of the configuration file."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


class ConfigTable(BaseModel):
    """One table: frozen, and neither unknown keys nor NaN or infinities are accepted."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


def is_endpoint(url: str) -> bool:
    """Whether a text is the address of a service: `http://` or `https://`, and a host."""
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, or half a bracket of IPv6
        return False


def s3_host_fault(url: str) -> str | None:
    """What is wrong with the host of an S3 service, where an address is one; `None`: nothing."""
    host = urlsplit(url).hostname or ""
    if "_" not in host:
        return None
    # botocore refuses it; a container of docker compose has such a name where nobody gave another.
    return (
        f"no S3 client takes the host {host!r}, because of its underscore; give the service another "
        "name (docker compose: aliases), or its IP address"
    )


ENDPOINT_FORM = "an address such as http://127.0.0.1:9000"


def _with_endpoints(options: dict[str, Any]) -> dict[str, Any]:
    """The options, if the endpoints in them are addresses; file systems say it late and unclearly."""
    if not all(map(is_endpoint, endpoints(options))):
        raise ValueError(f"endpoint_url must be {ENDPOINT_FORM}")
    return options


def endpoints(options: Mapping[str, Any]) -> list[str]:
    """The addresses of services in the options of a file system."""
    inner = options.get("client_kwargs")
    holders = (options, inner if isinstance(inner, Mapping) else {})
    urls = [holder.get("endpoint_url") for holder in holders]
    return [str(url) for url in urls if url is not None]


def _named_place(uri: str) -> str:
    """The URI of a place to write to, where an empty one would mean the working folder."""
    if not uri.strip():
        raise ValueError('must not be empty; "." is the working folder')
    return uri


Place = Annotated[str, AfterValidator(_named_place)]
"""The URI of a place to write to."""

StorageOptions = Annotated[
    dict[str, Any],
    AfterValidator(_with_endpoints),
    Field(
        description="Options of the fsspec file system, such as `endpoint_url`. Secrets belong in the "
        "environment."
    ),
]
