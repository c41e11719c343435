"""A proxy before an S3 server: it loses acknowledgements, or hides that a write is conditional."""

from __future__ import annotations

import random
import re
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

_CONDITION = re.compile(rb"if-none-match", re.IGNORECASE)


@dataclass
class Faults:
    """What a proxy does to requests, and how often it did.

    `lost` chooses PUTs by a part of their path; of those whose bytes went through, the share
    `share` never hears so: the connection is cut instead. `blind` makes the server ignore
    If-None-Match.
    """

    lost: bytes = b""
    share: float = 1.0
    most: int = 1 << 30
    blind: bool = False
    cut: int = 0
    dice: random.Random = field(default_factory=lambda: random.Random(7))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def loses(self, line: bytes) -> bool:
        """Whether the answer to this request is to be lost."""
        with self.lock:
            chosen = bool(self.lost) and line.startswith(b"PUT") and self.lost in line
            lost = chosen and self.cut < self.most and self.dice.random() < self.share
            self.cut += lost
            return lost


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, port: int, faults: Faults) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.port, self.faults = port, faults


class _Connection(socketserver.BaseRequestHandler):
    server: _Server

    def handle(self) -> None:
        with socket.create_connection(("127.0.0.1", self.server.port)) as upstream:
            cut = threading.Event()
            back = threading.Thread(target=self._answer, args=(upstream, cut), daemon=True)
            back.start()
            try:
                self._pass_on(upstream, cut)
                upstream.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the client was killed, or its connection cut
            back.join()

    def _pass_on(self, upstream: socket.socket, cut: threading.Event) -> None:
        while data := self.request.recv(1 << 20):
            if self.server.faults.loses(data.split(b"\r\n", 1)[0]):
                cut.set()
            if self.server.faults.blind:
                data = _CONDITION.sub(b"x-not-a-header"[:13], data)
            upstream.sendall(data)

    def _answer(self, upstream: socket.socket, cut: threading.Event) -> None:
        try:
            while data := upstream.recv(1 << 20):
                if cut.is_set() and not data.startswith(b"HTTP/1.1 100"):
                    self.request.shutdown(socket.SHUT_RDWR)
                    return
                self.request.sendall(data)
        except OSError:
            return


@contextmanager
def proxied(endpoint_url: str, faults: Faults) -> Iterator[str]:
    """A proxy before the server; yields the endpoint to use instead."""
    with _Server(int(endpoint_url.rsplit(":", 1)[1]), faults) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
