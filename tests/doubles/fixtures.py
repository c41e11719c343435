"""Real servers that tests talk to, each one process for the whole session."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.guardian import record

ROOT = Path(__file__).resolve().parents[2]
OPENAI_KEY = "sk-" + "proj-4f9aB7" * 4
"""Looks like a key, so that tests see whether one leaks; the server takes any."""

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class OpenAIServer:
    """A judge model over HTTP; `api_base` is what a model is configured with."""

    url: str

    @property
    def api_base(self) -> str:
        return f"{self.url}/v1"

    def stats(self) -> dict[str, Any]:
        """`requests`, `models` (requests by model name), `peak` (requests at once), and the other
        counts of `openai_tally`.
        """
        return dict(self._ask("stats"))

    def requests(self) -> list[dict[str, Any]]:
        """The last 100 request bodies."""
        return list(self._ask("requests"))

    def timeline(self) -> list[tuple[float, bool]]:
        """When each request came (`time.monotonic`), and whether the limits let it in."""
        return [(at, bool(accepted)) for at, accepted in self._ask("timeline")]

    def batches(self) -> list[dict[str, Any]]:
        """The batches as they stand, the newest first."""
        return list(self._ask("v1/batches?limit=100")["data"])

    def batch_requests(self, batch: dict[str, Any]) -> list[dict[str, Any]]:
        """The lines that a batch was submitted with."""
        path = f"{self.url}/v1/files/{batch['input_file_id']}/content"
        with _DIRECT.open(path, timeout=10) as response:
            return [json.loads(line) for line in response]

    def reset(self) -> None:
        """Forget what was asked so far."""
        self._ask("reset", b"")

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        with _DIRECT.open(f"{self.url}/{path}", body, timeout=10) as response:
            return json.load(response)


@contextmanager
def running_openai_server(*options: str) -> Iterator[OpenAIServer]:
    """A server process of its own, e.g. with `--latency 0.3`."""
    command = [sys.executable, "-m", "tests.doubles.openai_server", "--port", "0", *options]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        record(process.pid)
        assert process.stdout is not None
        try:
            yield OpenAIServer(process.stdout.readline().strip())
        finally:
            process.terminate()


@pytest.fixture(scope="session")
def openai_server() -> Iterator[OpenAIServer]:
    """The shared judge model; `reset` it before counting its requests."""
    with running_openai_server() as server:
        yield server


@pytest.fixture
def judge_server(openai_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch) -> OpenAIServer:
    """The shared judge model with nothing asked so far, and a key for it in the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", OPENAI_KEY)
    openai_server.reset()
    return openai_server
