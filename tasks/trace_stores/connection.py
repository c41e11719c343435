"""Where a trace store is and with which keys it is reached, from the variables of its own client."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import unquote, urlsplit

from assizes.judge.errors import ConfigurationError
from assizes.judge.privacy.secret_masking import mask_credentials, register_secrets
from assizes.tasks.trace_stores.address import StoreKind

_LANGFUSE_CLOUD: Final = "https://cloud.langfuse.com"
_PHOENIX_LOCAL: Final = "http://localhost:6006"
_TRUE: Final = ("1", "true", "yes", "on")


@dataclass(frozen=True, slots=True)
class ServerConnection:
    """How a server is reached; the headers hold secrets and are in no text of the object."""

    kind: StoreKind | Literal["otlp"]
    base_url: str  # without a slash at its end, without user and password
    headers: Mapping[str, str] = field(repr=False)
    verify: bool | str = True  # whether certificates are checked, or the file of the accepted ones


def connection_to(kind: StoreKind, environment: Mapping[str, str] = os.environ) -> ServerConnection:
    """The connection to the server of a kind of trace store.

    | kind | server | keys |
    | --- | --- | --- |
    | langfuse | LANGFUSE_BASE_URL, else LANGFUSE_HOST | LANGFUSE_PUBLIC_KEY, LANGFUSE_SECRET_KEY |
    | mlflow | MLFLOW_TRACKING_URI | MLFLOW_TRACKING_USERNAME and _PASSWORD, or _TOKEN; none needed |
    | phoenix | PHOENIX_COLLECTOR_ENDPOINT, else PHOENIX_HOST and PHOENIX_PORT | PHOENIX_API_KEY |

    Raises:
        ConfigurationError: a variable is missing, or its value is no HTTP address.
    """
    makers: dict[StoreKind, Callable[[Mapping[str, str]], ServerConnection]] = {
        "langfuse": _langfuse,
        "mlflow": _mlflow,
        "phoenix": _phoenix,
    }
    return makers[kind](environment)


def _langfuse(environment: Mapping[str, str]) -> ServerConnection:
    name = "LANGFUSE_BASE_URL" if environment.get("LANGFUSE_BASE_URL") else "LANGFUSE_HOST"
    base_url, _ = _server(environment.get(name) or _LANGFUSE_CLOUD, name)
    keys = [environment.get(key, "") for key in ("LANGFUSE_PUBLIC_KEY", "LANGFUSE_SECRET_KEY")]
    if not all(keys):
        raise ConfigurationError(
            f"langfuse at {base_url}: no keys; set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY to "
            "those of the project"
        )
    return ServerConnection("langfuse", base_url, _basic(*keys))


def _mlflow(environment: Mapping[str, str]) -> ServerConnection:
    written = environment.get("MLFLOW_TRACKING_URI", "")
    if not written:
        raise ConfigurationError(
            "mlflow: no server; set MLFLOW_TRACKING_URI to its address, such as http://host:5000"
        )
    base_url, headers = _server(written, "MLFLOW_TRACKING_URI")
    user = environment.get("MLFLOW_TRACKING_USERNAME", "")
    password = environment.get("MLFLOW_TRACKING_PASSWORD", "")
    token = environment.get("MLFLOW_TRACKING_TOKEN", "")
    if user and password:  # goes before a token, as in the client of MLflow
        headers = _basic(user, password)
    elif token:
        headers = _bearer(token)
    certificates = environment.get("MLFLOW_TRACKING_SERVER_CERT_PATH")
    unchecked = environment.get("MLFLOW_TRACKING_INSECURE_TLS", "").casefold() in _TRUE
    return ServerConnection("mlflow", base_url, headers, certificates or not unchecked)


def _phoenix(environment: Mapping[str, str]) -> ServerConnection:
    name = "PHOENIX_COLLECTOR_ENDPOINT"
    written = environment.get(name, "")
    if not written:
        name, host = "PHOENIX_HOST", environment.get("PHOENIX_HOST", "")
        # A server may listen on all addresses; a client asks one of them.
        host = "127.0.0.1" if host in ("0.0.0.0", "::") else host
        written = _with_port(host, environment.get("PHOENIX_PORT", "6006")) or _PHOENIX_LOCAL
    base_url, headers = _server(written.rstrip("/").removesuffix("/v1/traces"), name)
    for pair in environment.get("PHOENIX_CLIENT_HEADERS", "").split(","):
        key, parted, value = pair.partition("=")
        if parted and key.strip():
            register_secrets([value, unquote(value)])
            headers |= {unquote(key).strip().lower(): unquote(value).strip()}
    if token := environment.get("PHOENIX_API_KEY", ""):
        headers |= _bearer(token)
    return ServerConnection("phoenix", base_url, headers)


def _with_port(host: str, port: str) -> str:
    if not host or "://" in host:
        return host
    return f"http://{host}" if ":" in host else f"http://{host}:{port}"


def _server(written: str, name: str) -> tuple[str, dict[str, str]]:
    """The address of a server, and the header for a user and password that stand in it."""
    parts = urlsplit(written.strip())
    try:
        host, port = parts.hostname, parts.port
    except ValueError:  # a port that is no number
        host, port = None, None
    if parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise ConfigurationError(
            f"{name} is {mask_credentials(written)!r}; give the address of a server, such as "
            "https://host or http://host:port"
        )
    shown = f"[{host}]" if ":" in host else host
    base_url = f"{parts.scheme}://{shown}{f':{port}' if port else ''}{parts.path.rstrip('/')}"
    if parts.username is None:
        return base_url, {}
    return base_url, _basic(unquote(parts.username), unquote(parts.password or ""))


def _basic(user: str, password: str) -> dict[str, str]:
    joined = base64.b64encode(f"{user}:{password}".encode()).decode()
    register_secrets([password, joined])
    return {"authorization": f"Basic {joined}"}


def _bearer(token: str) -> dict[str, str]:
    register_secrets([token])
    return {"authorization": f"Bearer {token}"}
