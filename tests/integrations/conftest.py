"""A real MLflow server and a real Phoenix server, each started once for the session.

`ASSIZES_INTEGRATIONS` is the `bin` folder of the environment in which both are installed.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

BIN = Path(os.environ.get("ASSIZES_INTEGRATIONS", "")).resolve()
START_S = 120.0
SCRIPT_S = 300.0


@dataclass(frozen=True)
class StoreServer:
    """A server: its address, and the environment with which Assizes reaches it."""

    url: str
    env: Mapping[str, str]

    def run_client(self, script: str, *args: str) -> str:
        """Run a Python script with the vendor's own client; return what it printed."""
        done = subprocess.run(
            [str(BIN / "python"), "-c", script, *args],
            env={**_quiet(), **self.env},
            capture_output=True,
            text=True,
            timeout=SCRIPT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout


@pytest.fixture(scope="session")
def mlflow_server(tmp_path_factory) -> Iterator[StoreServer]:
    folder, port = tmp_path_factory.mktemp("mlflow"), _free_port()
    url = f"http://127.0.0.1:{port}"
    command = [
        *(str(BIN / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(port)),
        *("--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--workers", "1"),
        *("--artifacts-destination", str(folder / "artifacts")),
    ]
    with _server(command, folder, _quiet(), f"{url}/health"):
        yield StoreServer(url, {"MLFLOW_TRACKING_URI": url})


@pytest.fixture(scope="session")
def phoenix_server(tmp_path_factory) -> Iterator[StoreServer]:
    folder, port, grpc = tmp_path_factory.mktemp("phoenix"), _free_port(), _free_port()
    url = f"http://127.0.0.1:{port}"
    env = {
        **_quiet(),
        "PHOENIX_WORKING_DIR": str(folder),
        "PHOENIX_HOST": "127.0.0.1",
        "PHOENIX_PORT": str(port),
        "PHOENIX_GRPC_PORT": str(grpc),
    }
    with _server([str(BIN / "phoenix"), "serve"], folder, env, f"{url}/healthz"):
        yield StoreServer(url, {"PHOENIX_COLLECTOR_ENDPOINT": url})


@contextmanager
def _server(
    command: list[str], folder: Path, env: Mapping[str, str], health: str
) -> Iterator[None]:
    log = folder / "server.log"
    with log.open("wb") as output:
        keeper = subprocess.Popen(
            [sys.executable, "-S", "-E", str(Path(__file__).with_name("keeper.py")), *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=dict(env),
            start_new_session=True,
        )
    try:
        _wait_until_healthy(health, keeper, log)
        yield
    finally:
        assert keeper.stdin is not None
        keeper.stdin.close()
        keeper.wait(30)


def _wait_until_healthy(url: str, keeper: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and keeper.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"{url} does not answer: {log.read_text()[-3000:]}")


def _quiet() -> dict[str, str]:
    """An environment in which neither server tells its maker anything."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    return {**kept, **quiet, "PHOENIX_TELEMETRY_ENABLED": "false", "PYTHONUNBUFFERED": "1"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
