"""A real HTTP server on loopback in a thread: each request goes to a function, and is kept."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit


@dataclass(frozen=True)
class Request:
    """A request as it arrived: the path is without the query, `raw` is the body as bytes."""

    method: str
    path: str
    query: list[tuple[str, str]]
    headers: Mapping[str, str]  # names in lower case
    raw: bytes

    @property
    def params(self) -> dict[str, str]:
        return dict(self.query)

    @property
    def body(self) -> Any:
        return json.loads(self.raw) if self.raw else None


@dataclass(frozen=True)
class Reply:
    """What is answered; a `body` of bytes is sent as it is, a `length` may promise more."""

    status: int = 200
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None  # bytes that are promised; None: as many as are sent
    hang_up: bool = False  # close the connection without an answer
    endless: bool = False  # send bytes for as long as somebody reads


@dataclass
class JsonServer:
    """`answer` may be replaced while the server runs; `faults` are answered first, one each."""

    answer: Callable[[Request], Reply]
    url: str = ""
    requests: list[Request] = field(default_factory=list)
    faults: list[Reply] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)  # of `answer`; see `json_server`

    def reply(self, request: Request) -> Reply:
        self.requests.append(request)
        if self.faults:
            return self.faults.pop(0)
        try:
            return self.answer(request)
        except (Exception, AssertionError) as error:  # noqa: BLE001 - told when the server ends
            self.errors.append(error)
            return Reply(418, {"error": repr(error)})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # else a body waits 40 ms for a client to have seen its headers
    json_server: JsonServer

    def _serve(self) -> None:
        parts = urlsplit(self.path)
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = parse_qsl(parts.query, keep_blank_values=True)
        reply = self.json_server.reply(Request(self.command, parts.path, query, headers, raw))
        try:
            self._send(reply)
        except (BrokenPipeError, ConnectionResetError):  # the client has heard enough
            self.close_connection = True

    def _send(self, reply: Reply) -> None:
        if reply.hang_up:
            self.close_connection = True
            return
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if reply.endless:
            self.send_header("connection", "close")
            self.end_headers()
            while True:  # until the client closes the connection
                self.wfile.write(b" " * 65536)
        body = reply.body
        data = body if isinstance(body, bytes) else b"" if body is None else _json(body)
        self.send_header("content-length", str(len(data) if reply.length is None else reply.length))
        self.end_headers()
        self.wfile.write(data)
        self.close_connection |= reply.length is not None

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that a client broke off is no news."""


@contextmanager
def json_server(answer: Callable[[Request], Reply]) -> Iterator[JsonServer]:
    """A server for the block. An error in `answer` is raised at its end, unless it was cleared."""
    server = JsonServer(answer)
    http = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"json_server": server}))
    thread = threading.Thread(target=http.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    server.url = f"http://127.0.0.1:{http.server_port}"
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()
        thread.join()
    if server.errors:
        raise server.errors[0]


def _json(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()
