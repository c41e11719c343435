"""Start and stop the background Prefect server on loopback that later commands use."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from assizes.deployments.settings import PREFECT_DEFAULTS, configured_api_url
from assizes.deployments.terminal import tell_user
from assizes.judge.errors import AssizesError, ConfigurationError
from assizes.tasks.runtime.prefect_server import (
    START,
    Server,
    find_api,
    home,
    is_ours,
    recorded_server,
    running_server,
    state_file,
    wait_until_healthy,
)

PORT_FILE = "server.port"
"""File in the home of the server with the last port; it stays after `assizes down`."""

STOP_TIMEOUT_S = 15.0
"""Seconds between SIGTERM and SIGKILL."""

_children: dict[int, subprocess.Popen[bytes]] = {}  # pid -> process
"""Servers that this process started, by pid; polling such a child also reaps it when it has ended."""


def find_api_url() -> str | None:
    """The Prefect API that the user set, else that of `assizes up`; raises as `find_api`."""
    return find_api(configured_api_url())


def start_server(port: int | None = None) -> Server:
    """Start a server on loopback and wait until it answers, unless one runs already.

    `None` is the port of the server before, or else a free port, which 0 is always.

    Raises:
        ConfigurationError: the port is taken, or the server that runs already has another one.
        AssizesError: the new server ended or did not answer in time (the message names its log), or
            the process of an earlier server does not answer.
    """
    folder = home()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "server.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # a second command waits, then finds this server
        if server := running_server():
            if port and not server.ui_url.endswith(f":{port}"):
                raise ConfigurationError(
                    f"--port {port}: the Prefect server runs on {server.ui_url} already; `assizes "
                    "down` stops it, and without --port `assizes up` keeps it"
                )
            return server
        if port is None:
            port = _kept_port(folder) or _free_port()
        elif port == 0:
            port = _free_port()
        else:
            check_port("127.0.0.1", port, "`assizes up` without --port takes a free port")
        return _start_process(folder, port)


def _kept_port(folder: Path) -> int | None:
    """The port of the server before, which workers still ask; `None`: no server was, or it is taken."""
    try:
        port = int((folder / PORT_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):  # no file, as with an earlier version, or not as written here
        if (server := recorded_server()) is None:
            return None
        port = int(server.ui_url.rpartition(":")[2])
    try:
        check_port("127.0.0.1", port, "")
    except ConfigurationError:
        tell_user(
            f"port {port} of the server before is taken: the new server gets another one; start the "
            "workers again, and change PREFECT_API_URL where it names the port"
        )
        return None
    return port


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # the system chooses a free port
        return int(probe.getsockname()[1])


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
    (folder / PORT_FILE).write_text(str(port), encoding="utf-8")
    # Written before it answers: if this command is killed, `assizes down` still finds the server.
    state_file().write_text(json.dumps({"pid": server.pid, "api_url": server.api_url}))
    if wait_until_healthy(server, lambda: process.poll() is None):
        return server
    stop_server()
    raise AssizesError(
        f"the Prefect server did not start; its log {log} says why, `assizes up` tries again"
    )


def stop_server() -> bool:
    """Stop the background server and wait for its end; false when no server was running."""
    server = recorded_server()
    state_file().unlink(missing_ok=True)
    return server is not None and is_ours(server) and _end_group(server.pid)


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
