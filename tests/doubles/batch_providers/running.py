"""The servers of batch protocols as tests start and ask them."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tests.doubles.fixtures import ROOT
from tests.guardian import record

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class BatchProvider:
    """A provider with batches over HTTP."""

    url: str

    def stats(self) -> dict[str, Any]:
        """Counts of batches, requests in them and repeats; what broke the protocol."""
        return dict(self._ask("stats"))

    def counts(self, *names: str) -> tuple[int, ...]:
        """Some counts; nothing may have broken the protocol."""
        stats = self.stats()
        assert stats["violations"] == []
        return tuple(stats[name] for name in names)

    def requests(self) -> list[dict[str, Any]]:
        """The last 100 bodies of requests to the model."""
        return list(self._ask("requests"))

    def order(self, **orders: Any) -> None:
        """Set orders of the test (`desk.py`)."""
        self._ask("control", json.dumps(orders).encode())

    def asked(self, path: str) -> Any:
        """What the server says at a path."""
        return self._ask(path)

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        with _DIRECT.open(f"{self.url}/{path}", body, timeout=10) as response:
            return json.load(response)


@contextmanager
def running_provider(name: str) -> Iterator[BatchProvider]:
    """A server process of its own: `anthropic`, `gemini`, `bedrock` or `vertex`."""
    command = [sys.executable, "-m", f"tests.doubles.batch_providers.{name}", "--port", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        record(process.pid)
        assert process.stdout is not None
        try:
            yield BatchProvider(process.stdout.readline().strip())
        finally:
            process.terminate()
