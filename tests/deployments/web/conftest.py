"""The demo's two runs, served by a real `assizes serve`, and a real browser."""

from __future__ import annotations

import json
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.command import assizes, started
from tests.guardian import record

STORE = "duckdb:///.assizes/demo/demo.duckdb"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True)
class Served:
    """A server, its folder, and the ids of the two runs that it serves."""

    url: str
    folder: Path
    baseline: str
    candidate: str

    def get(self, path: str, **headers: str) -> Reply:
        return ask(self.url + path, headers=headers)


def ask(
    url: str, *, method: str = "GET", headers: dict[str, str] | None = None, body: bytes = b""
) -> Reply:
    named = {name.replace("_", "-"): value for name, value in (headers or {}).items()}
    request = urllib.request.Request(url, data=body or None, headers=named, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return Reply(answer.status, _lower(answer.headers), answer.read().decode())
    except urllib.error.HTTPError as error:
        return Reply(error.code, _lower(error.headers), error.read().decode())


def _lower(headers: Any) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, prefect_server: str) -> tuple[Path, str, str]:
    folder = tmp_path_factory.mktemp("served")
    done = assizes("demo", "--json", cwd=folder, env={"PREFECT_API_URL": prefect_server})
    assert done.code == 0, done
    outcome = json.loads(done.out)
    return folder, outcome["comparison"]["baseline_run_id"], outcome["run_id"]


@pytest.fixture(scope="session")
def served(demo: tuple[Path, str, str]) -> Iterator[Served]:
    folder, baseline, candidate = demo
    with serving(folder, **environment_without_prefect(folder)) as url:
        yield Served(url, folder, baseline, candidate)


def environment_without_prefect(folder: Path) -> dict[str, str]:
    """Environment variables under which no Prefect server is found."""
    return {"PREFECT_API_URL": "", "ASSIZES_HOME": str(folder), "PREFECT_HOME": str(folder)}


class serving:  # noqa: N801  # used as a function
    """Runs `assizes serve` until the block ends; its value is the URL of the server.

    Args:
        folder: working directory of the server.
        options: further options of the command.
        store: value of `--store`; `None`: the configured store.
        env: further environment variables.
    """

    def __init__(self, folder: Path, *options: str, store: str | None = STORE, **env: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        where = () if store is None else ("--store", store)
        words = ("serve", *where, "--port", str(self.port), *options)
        self.process = started(*words, cwd=folder, env=env)
        record(self.process.pid)

    def __enter__(self) -> str:
        deadline = time.monotonic() + 180  # a busy machine takes a minute to start it
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"{self.url}/health", timeout=5).close()
            except (urllib.error.URLError, OSError):
                assert self.process.poll() is None, "the server ended"
                time.sleep(0.1)
            else:
                return self.url
        self.__exit__()  # a block that never began ends nothing
        raise AssertionError("the server does not answer")

    def __exit__(self, *_error: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(20)
