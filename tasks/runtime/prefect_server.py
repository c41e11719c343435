"""Where the Prefect server is, the configured one or that of `assizes up`, and whether it answers."""

from __future__ import annotations

import http.client
import json
import os
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from assizes.judge.errors import AssizesError, ConfigurationError

START = ("-m", "assizes.deployments.prefect_server", "server", "start", "--host", "127.0.0.1")
"""Arguments to the Python interpreter that start the server; also its mark in a process list."""

HEALTH_TIMEOUT_S = 1.0
"""Seconds to wait for the health check of the background server."""

API_TIMEOUT_S = 10.0
"""Seconds to wait for the health check of a server that the user configured; it may be far away."""

STARTUP_TIMEOUT_S = 120.0
"""Seconds that a starting server has until it must answer."""


def home() -> Path:
    """The folder for the address and the log of the background server (`ASSIZES_HOME`)."""
    return Path(os.environ.get("ASSIZES_HOME", Path.home() / ".assizes"))


@dataclass(frozen=True, slots=True)
class Server:
    """A background server as its state file records it; `api_url` ends in `/api`."""

    pid: int  # also the id of its process group
    api_url: str

    @property
    def ui_url(self) -> str:
        """The address of the server's pages, for a browser."""
        return self.api_url.removesuffix("/api")


def state_file() -> Path:
    """The file in which `assizes up` records its server."""
    return home() / "server.json"


def find_api(configured: str | None) -> str | None:
    """The address of the Prefect API: the configured one, else that of `assizes up`, else `None`.

    Raises:
        ConfigurationError: the configured server does not answer.
        AssizesError: the process of `assizes up` runs and does not answer.
    """
    if configured is None:
        server = running_server()
        return server.api_url if server else None
    if is_healthy(configured, API_TIMEOUT_S):
        return configured
    raise ConfigurationError(
        f"PREFECT_API_URL {configured!r} does not answer; start that server, or unset it (in "
        "the environment or the Prefect profile)"
    )


def running_server() -> Server | None:
    """The server that `assizes up` started, waited for if it is slow; `None` when it has ended.

    Raises:
        AssizesError: its process runs and does not answer within `STARTUP_TIMEOUT_S`.
    """
    server = recorded_server()
    if server is None or is_healthy(server.api_url):
        return server
    if wait_until_healthy(server, lambda: is_ours(server)):
        return server
    if not is_ours(server):
        return None
    raise AssizesError(
        f"the Prefect server on {server.ui_url} (pid {server.pid}) does not answer; "
        "`assizes down` ends it"
    )


def recorded_server() -> Server | None:
    """The server that the state file names, running or not; `None` without a readable file."""
    try:
        state = json.loads(state_file().read_text(encoding="utf-8"))
        return Server(int(state["pid"]), str(state["api_url"]))
    except (OSError, ValueError, TypeError, KeyError):  # no file, or not as written here
        return None


def wait_until_healthy(server: Server, is_alive: Callable[[], bool]) -> bool:
    """Wait until the server answers; false when it ended or `STARTUP_TIMEOUT_S` passed."""
    deadline = time.monotonic() + STARTUP_TIMEOUT_S
    while time.monotonic() < deadline and is_alive():
        if is_healthy(server.api_url):
            return True
        time.sleep(0.2)
    return False


def is_healthy(api_url: str, timeout_s: float = HEALTH_TIMEOUT_S) -> bool:
    """Whether a Prefect API answers at this address; a demand for a log-in counts as an answer."""
    try:
        with urllib.request.urlopen(f"{api_url.rstrip('/')}/health", timeout=timeout_s) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as refusal:
        return refusal.code in (401, 403) or "prefect.cloud" in api_url
    except urllib.error.URLError as error:
        # Prefect has its own settings for certificates; a TLS error proves that a server listens.
        return isinstance(error.reason, ssl.SSLError)  # not: refused, no such host
    except (OSError, ValueError, http.client.HTTPException):  # a timeout, no URL, no HTTP
        return False


def is_ours(server: Server) -> bool:
    """Whether the process of this pid is the server: the system gives old pids to new processes."""
    pid, port = str(server.pid), server.ui_url.rpartition(":")[2]
    try:
        if Path("/proc").is_dir():
            words = Path("/proc", pid, "cmdline").read_bytes()
            command = words.replace(b"\0", b" ").decode(errors="replace")  # NUL ends each argument
        else:
            ps = ["ps", "-p", pid, "-ww", "-o", "command="]  # macOS; -ww: the line is not cut
            command = subprocess.run(ps, capture_output=True, text=True, check=False).stdout
    except OSError:  # there is no such process
        return False
    return f"{' '.join(START)} --port {port} " in f"{command} "  # blank: 42 is not 4200
