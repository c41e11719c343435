"""A Prefect server in the background, on loopback, for every later command."""

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
HEALTH_TIMEOUT_S = 1.0
API_TIMEOUT_S = 10.0
"""For a server of the user's own, which may be far away."""
STARTUP_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 15.0


_children: dict[int, subprocess.Popen[bytes]] = {}
"""Servers this process started itself: asked for their end, they are reaped too."""


@dataclass(frozen=True, slots=True)
class Server:
    """A background server as its state file describes it."""

    pid: int
    api_url: str

    @property
    def ui_url(self) -> str:
        """Where a browser finds it."""
        return self.api_url.removesuffix("/api")


def _state_file() -> Path:
    return home() / "server.json"


def known_server() -> str | None:
    """The address of the API that the user has configured, else that of `assizes up`.

    Raises:
        ConfigurationError: when the configured one does not answer.
        AssizesError: when the other is there and does not answer.
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
    """The server started by `assizes up`; one that is there but slow is waited for.

    Raises:
        AssizesError: when its process is there and does not answer in time.
    """
    server = _recorded_server()
    if server is None or is_healthy(server.api_url):
        return server
    if not _is_ours(server):
        return None
    if _wait_until_healthy(server, lambda: _is_ours(server)):
        return server
    if not _is_ours(server):
        return None
    raise AssizesError(
        f"the Prefect server on {server.ui_url} (pid {server.pid}) does not answer; "
        "`assizes down` ends it"
    )


def _recorded_server() -> Server | None:
    """The server as the last `assizes up` left it, running or not."""
    try:
        state = json.loads(_state_file().read_text(encoding="utf-8"))
        return Server(int(state["pid"]), str(state["api_url"]))
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _wait_until_healthy(server: Server, is_alive: Callable[[], bool]) -> bool:
    """Wait until the server answers; false when it ended or took too long."""
    deadline = time.monotonic() + STARTUP_TIMEOUT_S
    while time.monotonic() < deadline and is_alive():
        if is_healthy(server.api_url):
            return True
        time.sleep(0.2)
    return False


def is_healthy(api_url: str, timeout_s: float = HEALTH_TIMEOUT_S) -> bool:
    """True when a Prefect API answers at this address; asking for a log-in is an answer too."""
    try:
        with urllib.request.urlopen(f"{api_url.rstrip('/')}/health", timeout=timeout_s) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as refusal:
        return refusal.code in (401, 403) or "prefect.cloud" in api_url
    except urllib.error.URLError as error:
        # Prefect has settings of its own for certificates; here it counts that somebody is there.
        return isinstance(error.reason, ssl.SSLError)
    except (OSError, ValueError, http.client.HTTPException):
        return False


def start_server(port: int | None = None) -> Server:
    """Start a server on loopback and wait until it answers; one that is running, or that another
    command starts at this moment, is returned.

    Raises:
        AssizesError: when it ended or did not answer in time; names the log, or the process of one
            that was started before.
    """
    folder = home()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        return running_server() or _start_process(folder, port or _free_port())


def _start_process(folder: Path, port: int) -> Server:
    log = folder / "server.log"
    with log.open("ab") as sink:
        process = subprocess.Popen(
            [sys.executable, *START, "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=sink,
            start_new_session=True,
            env={**PREFECT_DEFAULTS, **os.environ, "PREFECT_LOGGING_SERVER_LEVEL": "WARNING"},
        )
    _children[process.pid] = process
    server = Server(process.pid, f"http://127.0.0.1:{port}/api")
    _state_file().write_text(json.dumps({"pid": server.pid, "api_url": server.api_url}))
    if _wait_until_healthy(server, lambda: process.poll() is None):
        return server
    stop_server()
    raise AssizesError(f"the Prefect server did not start; its log is {log}")


def stop_server() -> bool:
    """Stop the background server and wait for its end; false when none was running."""
    server = _recorded_server()
    _state_file().unlink(missing_ok=True)
    return server is not None and _is_ours(server) and _end_group(server.pid)


def _is_ours(server: Server) -> bool:
    """Whether the process is there and the one we started: a pid goes to others in time."""
    port = server.api_url.removesuffix("/api").rpartition(":")[2]
    return f"{' '.join(START)} --port {port} " in f"{_command_line(server.pid)} "


def _command_line(pid: int) -> str:
    """The words of a running process; empty where there is none."""
    cmdline = Path("/proc", str(pid), "cmdline")
    try:
        if cmdline.parent.parent.is_dir():
            return cmdline.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        command = ["ps", "-p", str(pid), "-ww", "-o", "command="]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:
        return ""


def _end_group(pid: int) -> bool:
    """End a process and its children, gently first. The group is its own session's."""
    for sign, wait_s in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(pid, sign)
        except ProcessLookupError:
            return sign is signal.SIGKILL
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            if not _is_alive(pid):
                return True
            time.sleep(0.1)
    return True


def _is_alive(pid: int) -> bool:
    if (child := _children.get(pid)) is not None:
        return child.poll() is None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
