"""Start, find and stop the background Prefect server on loopback that later commands use."""

from __future__ import annotations

import fcntl
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from assizes.deployments.settings import PREFECT_DEFAULTS, configured_api_url, home
from assizes.judge.errors import AssizesError, ConfigurationError

START = ("-m", "assizes.deployments.prefect_server", "server", "start", "--host", "127.0.0.1")
"""Arguments to the Python interpreter that start the server; also its mark in a process list."""

HEALTH_TIMEOUT_S = 1.0
"""Seconds to wait for the health check of the background server."""

API_TIMEOUT_S = 10.0
"""Seconds to wait for the health check of a server that the user configured; it may be far away."""

STARTUP_TIMEOUT_S = 120.0
"""Seconds that a starting server has until it must answer."""

STOP_TIMEOUT_S = 15.0
"""Seconds between SIGTERM and SIGKILL."""

_children: dict[int, subprocess.Popen[bytes]] = {}  # pid -> process
"""Servers that this process started, by pid; polling such a child also reaps it when it has ended."""


@dataclass(frozen=True, slots=True)
class Server:
    """A background server as its state file records it; `api_url` ends in `/api`."""

    pid: int  # also the id of its process group
    api_url: str

    @property
    def ui_url(self) -> str:
        """The address of the server's pages, for a browser."""
        return self.api_url.removesuffix("/api")


def _state_file() -> Path:
    return home() / "server.json"


def find_api_url() -> str | None:
    """The address of the Prefect API: the configured one, else that of `assizes up`, else `None`.

    Raises:
        ConfigurationError: the configured server does not answer.
        AssizesError: the process of `assizes up` runs and does not answer.
    """
    configured = configured_api_url()
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
    server = _recorded_server()
    if server is None or is_healthy(server.api_url):
        return server
    if _wait_until_healthy(server, lambda: _is_ours(server)):
        return server
    if not _is_ours(server):
        return None
    raise AssizesError(
        f"the Prefect server on {server.ui_url} (pid {server.pid}) does not answer; "
        "`assizes down` ends it"
    )


def _recorded_server() -> Server | None:
    """The server that the state file names, running or not; `None` without a readable file."""
    try:
        state = json.loads(_state_file().read_text(encoding="utf-8"))
        return Server(int(state["pid"]), str(state["api_url"]))
    except (OSError, ValueError, TypeError, KeyError):  # no file, or not as written here
        return None


def _wait_until_healthy(server: Server, is_alive: Callable[[], bool]) -> bool:
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


def start_server(port: int | None = None) -> Server:
    """Start a server on loopback and wait until it answers, unless one runs already.

    Raises:
        AssizesError: the new server ended or did not answer in time (the message names its log), or
            the process of an earlier server does not answer.
    """
    folder = home()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second command waits, then finds this server
        if server := running_server():
            return server
        if port is None:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))  # the system chooses a free port
                port = int(probe.getsockname()[1])
        else:
            check_port("127.0.0.1", port, "`assizes up` without --port takes a free port")
        return _start_process(folder, port)


def check_port(host: str, port: int, remedy: str) -> None:
    """Check that a server can listen at an address; `remedy` says what to do where it cannot.

    Raises:
        ConfigurationError: something else listens there, or the address is none of this machine.
    """
    try:
        family, kind, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            # As servers do: connections of an earlier one that are closing are no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except (OSError, OverflowError) as error:  # the latter: no port
        why = getattr(error, "strerror", None) or error
        raise ConfigurationError(
            f"--port {port}: nothing can listen there on {host} ({why}); {remedy}"
        ) from None


def _start_process(folder: Path, port: int) -> Server:
    log = folder / "server.log"
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, *START, "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,  # Ctrl-C for this command does not reach it
            # The user's own variables win over the defaults, but not over the level of the log.
            env={**PREFECT_DEFAULTS, **os.environ, "PREFECT_LOGGING_SERVER_LEVEL": "WARNING"},
        )
    _children[process.pid] = process
    server = Server(process.pid, f"http://127.0.0.1:{port}/api")
    # Written before it answers: if this command is killed, `assizes down` still finds the server.
    _state_file().write_text(json.dumps({"pid": server.pid, "api_url": server.api_url}))
    if _wait_until_healthy(server, lambda: process.poll() is None):
        return server
    stop_server()
    raise AssizesError(
        f"the Prefect server did not start; its log {log} says why, `assizes up` tries again"
    )


def stop_server() -> bool:
    """Stop the background server and wait for its end; false when no server was running."""
    server = _recorded_server()
    _state_file().unlink(missing_ok=True)
    return server is not None and _is_ours(server) and _end_group(server.pid)


def _is_ours(server: Server) -> bool:
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


def _end_group(pid: int) -> bool:
    """End the process group of a server: SIGTERM, and SIGKILL after `STOP_TIMEOUT_S`."""
    for sign, wait_s in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(pid, sign)  # the group: a server has children
        except ProcessLookupError:
            return sign is signal.SIGKILL  # gone: since our SIGTERM, or from the beginning
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            if not _is_alive(pid):
                return True
            time.sleep(0.1)
    return True


def _is_alive(pid: int) -> bool:
    if (child := _children.get(pid)) is not None:
        return child.poll() is None  # a child that ended answers signals until it is reaped
    try:
        os.kill(pid, 0)  # sends nothing, checks that the process is there
    except ProcessLookupError:
        return False
    return True
