"""A bad day of S3: stands before the real server and answers some requests itself, or not at all."""

from __future__ import annotations

import http.client
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import urlsplit

_ERROR: Final = '<?xml version="1.0"?><Error><Code>{0}</Code><Message>{0}</Message></Error>'
_ANSWERS: Final = {
    "slow_down": (503, "SlowDown"),
    "unavailable": (503, "ServiceUnavailable"),
    "internal": (500, "InternalError"),
    "denied": (403, "AccessDenied"),
}
HANG_S: Final = 1.5
_SKIPPED: Final = ("transfer-encoding", "connection", "content-length", "date", "server")


@dataclass
class FaultyS3:
    """An endpoint; each request for `about` takes the next of `faults`, and is forwarded when none
    is left: `slow_down`, `unavailable`, `internal`, `denied`, `hang` (nothing for 1.5 s, then the
    connection ends) or `cut` (half of the body).
    """

    endpoint_url: str
    about: str = ""
    faults: deque[str] = field(default_factory=deque)
    requests: int = 0

    @property
    def storage_options(self) -> dict[str, Any]:
        """Short waits, so that tests need not wait longer."""
        retries = {"mode": "standard", "total_max_attempts": 3}
        return {
            "endpoint_url": self.endpoint_url,
            "config_kwargs": {"read_timeout": 0.5, "connect_timeout": 0.5, "retries": retries},
        }


@contextmanager
def faulty_s3(upstream: str) -> Iterator[FaultyS3]:
    """A server in a thread of this process, in front of the one at `upstream`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.faulty = FaultyS3(f"http://127.0.0.1:{server.server_port}")  # type: ignore[attr-defined]  # what the handler goes by
    server.upstream = urlsplit(upstream).netloc  # type: ignore[attr-defined]  # as above
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.faulty  # type: ignore[attr-defined]  # as above
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # as in tests/doubles/s3.py
    server: Any

    def do_GET(self) -> None:  # the name http.server looks for
        """Every method alike."""
        faulty = self.server.faulty
        fault = ""
        if faulty.about in self.path:
            faulty.requests += 1
            fault = faulty.faults.popleft() if faulty.faults else ""
        if fault in _ANSWERS:
            status, code = _ANSWERS[fault]
            self._send(status, [("Content-Type", "application/xml")], _ERROR.format(code).encode())
        elif fault == "hang":
            time.sleep(HANG_S)
            self.close_connection = True
        else:
            self._forward(cut=fault == "cut")

    do_HEAD = do_GET  # noqa: N815  # as above

    def _forward(self, *, cut: bool) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        upstream = http.client.HTTPConnection(self.server.upstream, timeout=10)
        upstream.request(self.command, self.path, body, dict(self.headers))
        answer = upstream.getresponse()
        content = answer.read()
        headers = [pair for pair in answer.getheaders() if pair[0].lower() not in _SKIPPED]
        length = int(answer.headers.get("Content-Length") or len(content))
        self._send(answer.status, headers, content, length=length, cut=cut)
        upstream.close()

    def _send(
        self,
        status: int,
        headers: list[tuple[str, str]],
        content: bytes,
        *,
        length: int | None = None,
        cut: bool = False,
    ) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content[: len(content) // 2] if cut else content)
        self.close_connection = self.close_connection or cut

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""
