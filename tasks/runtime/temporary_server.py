"""The temporary Prefect server of a process: it ends when its process ends, however that happens.

Run as a program, this module is that server; it takes the arguments of uvicorn. Prefect itself ends
its temporary server only where Python ends in order, which SIGKILL prevents.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Final

GRACE_S: Final = 5.0
"""Seconds that the server has to end in order once its parent is gone."""


_addresses: list[str] = []
"""Addresses of the APIs of the temporary servers that this process has started; the last one counts."""


def temporary_api_url() -> str | None:
    """The address of the API of the temporary server of this process; `None`: it has none."""
    return _addresses[-1] if _addresses else None


def tie_server_to_process() -> None:
    """Have a temporary server that Prefect starts later end with this process; imports Prefect."""
    from prefect.server.api.server import SubprocessASGIServer

    SubprocessASGIServer._run_uvicorn_command = _start_server  # type: ignore[method-assign,assignment]


def _start_server(server: Any) -> subprocess.Popen[Any]:
    """Start the server as Prefect does, and with a pipe from this process as its standard input."""
    from prefect.settings import get_current_settings

    own = {
        "PREFECT_UI_ENABLED": "0",
        "PREFECT__SERVER_EPHEMERAL": "1",
        "PREFECT__SERVER_FINAL": "1",
    }
    configured = get_current_settings().to_environment_variables(exclude_unset=True)
    command = [sys.executable, "-m", __name__, "--factory", "prefect.server.api.server:create_app"]
    command += ["--host", "127.0.0.1", "--port", str(server.port)]
    command += ["--log-level", "error", "--lifespan", "on"]
    _addresses.append(f"http://127.0.0.1:{server.port}/api")
    # Nothing is ever written into the pipe. The system closes it when this process ends.
    return subprocess.Popen(command, env={**os.environ, **own, **configured}, stdin=subprocess.PIPE)


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os._exit(1)


def main() -> None:
    """Serve until SIGTERM, or until the parent closes the pipe at standard input."""
    import uvicorn

    threading.Thread(target=_end_with_parent, daemon=True).start()
    uvicorn.main()


if __name__ == "__main__":
    main()
