"""A real server of the S3 protocol as a process of its own on loopback: moto's, or with
`ASSIZES_S3=ceph` in the environment the gateway of Ceph (`make test-s3`).
"""

from __future__ import annotations

import itertools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.doubles.rgw import PACKAGES, missing, running_gateway
from tests.guardian import record

_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
_START_SECONDS = 60
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # without a proxy


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

    @contextmanager
    def recorded(self) -> Iterator[list[str]]:
        """Methods of the requests within the block, known at its end; moto's server records them."""
        methods: list[str] = []
        self._recorder("reset-recording", "POST")
        self._recorder("start-recording", "POST")
        yield methods
        self._recorder("stop-recording", "POST")
        lines = self._recorder("download-recording", "GET").splitlines()
        methods += [str(json.loads(line)["method"]) for line in lines]

    def _recorder(self, act: str, method: str) -> str:
        asked = urllib.request.Request(
            f"{self.endpoint_url}/moto-api/recorder/{act}", method=method
        )
        with _DIRECT.open(asked, timeout=10) as answer:
            text: str = answer.read().decode()
        return text


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """A running S3 server, with credentials for it in the environment while it runs."""
    with running_s3() as server:
        yield server


@contextmanager
def running_s3() -> Iterator[S3]:
    """The same outside a test: a process of its own on loopback."""
    import boto3  # takes half a second, which tests without S3 need not wait

    _read_api_descriptions_once()
    serving = _ceph if os.environ.get("ASSIZES_S3") == "ceph" else _moto
    with pytest.MonkeyPatch.context() as environment, serving() as endpoint:
        for name, value in _ENVIRONMENT.items():
            environment.setenv(name, value)
        if certificate := os.environ.get("SSL_CERT_FILE"):  # else each session reads all there are
            environment.setenv("AWS_CA_BUNDLE", certificate)
        for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
            environment.delenv(name, raising=False)
        client = boto3.client("s3", endpoint_url=endpoint)
        yield S3(endpoint, client)
        client.close()


def _read_api_descriptions_once() -> None:
    """Share what botocore reads, a quarter of a second of JSON, among the sessions of this process."""
    from botocore import session

    if not hasattr(session.create_loader, "cache_info"):
        session.create_loader = cache(session.create_loader)


# As `python -m moto.server`, but no body waits 40 ms for a client to have seen its headers (Nagle's algorithm).
_MOTO = """
from moto.server import main
from werkzeug.serving import WSGIRequestHandler
WSGIRequestHandler.disable_nagle_algorithm = True
main()
"""


@contextmanager
def _moto() -> Iterator[str]:
    port = _free_port()
    endpoint = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-c", _MOTO, "-H", "127.0.0.1", "-p", str(port)]
    with tempfile.TemporaryDirectory(prefix="moto-") as folder:
        process = subprocess.Popen(
            command,
            env={**os.environ, "MOTO_RECORDER_FILEPATH": f"{folder}/requests"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        record(process.pid)
        try:
            _wait_until_up(endpoint, process)
            yield endpoint
        finally:
            process.terminate()
            process.wait(10)


@contextmanager
def _ceph() -> Iterator[str]:
    keys = (_ENVIRONMENT["AWS_ACCESS_KEY_ID"], _ENVIRONMENT["AWS_SECRET_ACCESS_KEY"])
    if absent := missing():
        pytest.fail(f"ASSIZES_S3=ceph needs the packages {PACKAGES}; not found: {absent}")
    ports = (_free_port(), _free_port())
    with (
        tempfile.TemporaryDirectory(prefix="ceph-") as folder,
        running_gateway(Path(folder), ports, keys) as endpoint,
    ):
        yield endpoint


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _wait_until_up(endpoint: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with _DIRECT.open(f"{endpoint}/moto-api/", timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.1)
    pytest.fail(f"no S3 server at {endpoint} after {_START_SECONDS} s")
