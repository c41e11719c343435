"""The temporary Prefect server of a process: it ends when its process ends, however that happens.

Run as a program, this module is that server; it takes the arguments of uvicorn. Prefect itself ends
its temporary server only where Python ends in order, which SIGKILL prevents.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Final

from assizes.tasks.runtime.own_process import collect_seldom

GRACE_S: Final = 5.0
"""Seconds that the server has to end in order once its parent is gone."""


_servers: dict[int, subprocess.Popen[Any]] = {}
"""The temporary servers that this process has started, by port; the last one counts."""


def temporary_api_url() -> str | None:
    """The address of the API of the temporary server of this process; `None`: it has none."""
    return f"http://127.0.0.1:{list(_servers)[-1]}/api" if _servers else None


def tie_server_to_process() -> None:
    """Have a temporary server that Prefect starts later end with this process; imports Prefect."""
    from prefect.server.api.server import SubprocessASGIServer

    SubprocessASGIServer._run_uvicorn_command = _start_server  # type: ignore[method-assign,assignment]


def start_tied_server() -> None:
    """Start a temporary server that ends with this process, and have Prefect use it.

    The server starts while this process imports Prefect and the flows, which takes about as long.
    """
    port = _free_port()
    _start_process(port, {})  # its settings are those of the environment

    from prefect.server.api.server import SubprocessASGIServer

    SubprocessASGIServer().port = port
    tie_server_to_process()


def _start_server(server: Any) -> subprocess.Popen[Any]:
    """Start the server as Prefect does, and with a pipe from this process as its standard input."""
    from prefect.settings import get_current_settings

    configured = get_current_settings().to_environment_variables(exclude_unset=True)
    return _start_process(server.port, configured)


def _start_process(port: int, settings: Mapping[str, str]) -> subprocess.Popen[Any]:
    """The server of a port, which is started unless it runs.

    Prefect asks again for a server that listens and does not answer in time.
    """
    if (running := _servers.get(port)) is not None and running.poll() is None:
        return running
    own = {
        "PREFECT_UI_ENABLED": "0",
        "PREFECT__SERVER_EPHEMERAL": "1",
        "PREFECT__SERVER_FINAL": "1",
    }
    command = [sys.executable, "-m", __name__, "--factory", "prefect.server.api.server:create_app"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    command += ["--log-level", "error", "--lifespan", "on"]
    # Nothing is ever written into the pipe. The system closes it when this process ends.
    started = subprocess.Popen(
        command, env={**os.environ, **own, **settings}, stdin=subprocess.PIPE
    )
    _servers.pop(port, None)
    _servers[port] = started
    return started


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # the system chooses a free port
        return int(probe.getsockname()[1])


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(1)


def main() -> None:
    """Serve until SIGTERM, or until the parent closes the pipe at standard input."""
    import uvicorn

    collect_seldom()  # before uvicorn imports Prefect's server
    threading.Thread(target=_end_with_parent, daemon=True).start()
    uvicorn.main()


if __name__ == "__main__":
    main()
