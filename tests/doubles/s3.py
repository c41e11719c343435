"""A real server of the S3 protocol: moto's, as a process of its own on loopback."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import boto3
import pytest

_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
_START_SECONDS = 60


@dataclass(frozen=True)
class S3:
    """The server, as a configuration names it; credentials are in the environment."""

    endpoint_url: str
    client: Any
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def storage_options(self) -> dict[str, Any]:
        """What `[store] storage_options` holds for this server."""
        return {"endpoint_url": self.endpoint_url}

    def bucket(self) -> str:
        """The name of a new, empty bucket."""
        name = f"bucket-{next(self._numbers)}"
        self.client.create_bucket(Bucket=name)
        return name


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """A running S3 server, with credentials for it in the environment while it runs."""
    with running_s3() as server:
        yield server


@contextmanager
def running_s3() -> Iterator[S3]:
    """The same outside a test: a process of its own on loopback."""
    port = _free_port()
    endpoint = f"http://127.0.0.1:{port}"
    with pytest.MonkeyPatch.context() as environment:
        for name, value in _ENVIRONMENT.items():
            environment.setenv(name, value)
        for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
            environment.delenv(name, raising=False)
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_until_up(endpoint, process)
            client = boto3.client("s3", endpoint_url=endpoint)
            yield S3(endpoint, client)
            client.close()
        finally:
            process.terminate()
            process.wait(10)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _wait_until_up(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with opener.open(f"{endpoint}/moto-api/", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    pytest.fail(f"no S3 server at {endpoint} after {_START_SECONDS} s")
