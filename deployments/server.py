"""A Prefect server in the background, on loopback, for every later command."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from deployments.settings import PREFECT_DEFAULTS, home
from judge.errors import AssizesError

START = ("-m", "prefect", "server", "start", "--host", "127.0.0.1")
HEALTH_TIMEOUT_S = 1.0
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


def running_server() -> Server | None:
    """The server started by `assizes up`, if it answers."""
    try:
        server = Server(**json.loads(_state_file().read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return None
    return server if healthy(server.api_url) else None


def healthy(api_url: str) -> bool:
    """True when a Prefect API answers at this address."""
    try:
        with urllib.request.urlopen(f"{api_url}/health", timeout=HEALTH_TIMEOUT_S) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError, ValueError):
        return False


def start_server(port: int | None = None) -> Server:
    """Start a server on loopback and wait until it answers; an already running one is returned.

    Raises:
        AssizesError: when it ended or did not answer in time; names the log.
    """
    if server := running_server():
        return server
    folder = home()
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "server.log"
    port = port or _free_port()
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
    deadline = time.monotonic() + STARTUP_TIMEOUT_S
    while time.monotonic() < deadline and process.poll() is None:
        if healthy(server.api_url):
            return server
        time.sleep(0.2)
    stop_server()
    raise AssizesError(f"the Prefect server did not start; its log is {log}")


def stop_server() -> bool:
    """Stop the background server and wait for its end; false when none was running."""
    try:
        state = json.loads(_state_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    _state_file().unlink(missing_ok=True)
    pid = int(state["pid"])
    return _is_prefect(pid) and _end_group(pid)


def _is_prefect(pid: int) -> bool:
    """The pid may have gone to another program since the state file was written."""
    shown = subprocess.run(
        ["ps", "-p", str(pid), "-o", "command="], capture_output=True, text=True, check=False
    )
    return "prefect" in shown.stdout


def _end_group(pid: int) -> bool:
    """End a process and its children, gently first. The group is its own session's."""
    for sign, wait_s in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, 5.0)):
        try:
            os.killpg(pid, sign)
        except ProcessLookupError:
            return sign is signal.SIGKILL
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            if not _alive(pid):
                return True
            time.sleep(0.1)
    return True


def _alive(pid: int) -> bool:
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
