"""Stands between Assizes and a model's server, passes everything on, and writes down what passed.

What the server says of a call (its status, its own count of tokens, why an answer ended) is known here without
any of our code that reads answers.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

UPSTREAM_S = 900.0


@dataclass(frozen=True)
class Call:
    """One call: what was asked for, and what the server answered by its own account."""

    format: str  # the response format that was asked for; `words`: none
    cap: int  # the most tokens of the answer
    status: int  # 0: no answer came
    prompt_tokens: int
    completion_tokens: int
    finish: str  # why the answer ended
    seconds: float
    delivered: bool  # the client was still there
    said: str  # the message of an error


@dataclass
class Tap:
    """The calls so far; `upstream` may be set anew while nothing is asked."""

    upstream: str
    port: int = 0
    calls: list[Call] = field(default_factory=list)

    @property
    def api_base(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def taken(self) -> list[Call]:
        """The calls since the last time."""
        calls, self.calls = self.calls, []
        return calls


@contextmanager
def tapped(tap: Tap) -> Iterator[Tap]:
    """Run the tap for the length of a block, at the port that it had before, if any."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            _pass_on(self, tap, body)

        def do_GET(self) -> None:
            _pass_on(self, tap, b"")

        def log_message(self, *_args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", tap.port), Handler)
    server.daemon_threads = True
    tap.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield tap
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)


def _pass_on(handler: BaseHTTPRequestHandler, tap: Tap, body: bytes) -> None:
    begun = time.monotonic()
    address = urlsplit(tap.upstream).netloc
    upstream = http.client.HTTPConnection(address, timeout=UPSTREAM_S)
    status, answer, kind = 0, b"", "application/json"
    try:
        headers = {"Content-Type": "application/json"} if body else {}
        upstream.request(handler.command, handler.path, body or None, headers)
        response = upstream.getresponse()
        status, answer = response.status, response.read()
        kind = response.headers.get("Content-Type", kind)
    except (OSError, http.client.HTTPException):
        pass  # the server is gone: so is the connection of the client
    finally:
        upstream.close()
    delivered = False
    if status:
        with suppress(OSError):
            handler.send_response(status)
            handler.send_header("Content-Type", kind)
            handler.send_header("Content-Length", str(len(answer)))
            handler.end_headers()
            handler.wfile.write(answer)
            delivered = True
    handler.close_connection = not delivered
    if body:
        tap.calls.append(_call(body, status, answer, time.monotonic() - begun, delivered))


def _call(body: bytes, status: int, answer: bytes, seconds: float, delivered: bool) -> Call:
    asked = json.loads(body)
    told: Any = {}
    with suppress(ValueError):
        told = json.loads(answer)
    usage = told.get("usage") or {}
    choices = told.get("choices") or [{}]
    error = told.get("error") or {}
    return Call(
        format=(asked.get("response_format") or {}).get("type", "words"),
        cap=int(asked.get("max_tokens") or asked.get("max_completion_tokens") or 0),
        status=status,
        prompt_tokens=int(usage.get("prompt_tokens") or 0),
        completion_tokens=int(usage.get("completion_tokens") or 0),
        finish=str(choices[0].get("finish_reason") or ""),
        seconds=seconds,
        delivered=delivered,
        said=str(error.get("message") or "")[:300],
    )
