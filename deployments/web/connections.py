"""Bounds for clients that are slow or many: a request must arrive in time, and waiting clients make room.

A client that sends nothing, or a header or a body byte by byte, holds a connection and no more.
Requests that are served are bounded by `Guard`, which counts only those that it lets in.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_TIMEOUT_S: Final = 10.0
"""Seconds in which a request must arrive, from the opened connection, or from the first byte of a
further request, to the last byte of its body."""

ANSWER_TIMEOUT_S: Final = 120.0
"""Seconds in which a client must take its answers once it lets one wait."""

MAX_CONNECTIONS: Final = 256
"""The most connections that are kept open. One more closes the one that has waited longest for a
request of its client."""


class BoundedProtocol(H11Protocol):
    """HTTP/1.1 of uvicorn with a time limit for requests and a limit of connections."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._deadline: asyncio.TimerHandle | None = None  # `None`: a request has arrived
        self._answer_deadline: asyncio.TimerHandle | None = None  # `None`: no answer waits

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._start_deadline()
        if len(self.connections) > MAX_CONNECTIONS:
            waiting = [other for other in self.connections if isinstance(other, BoundedProtocol)]
            min(waiting, key=BoundedProtocol._waits_since)._close()

    def data_received(self, data: bytes) -> None:
        """Take what has come of a request; the time limit ends with the last byte of its body."""
        super().data_received(data)
        if self._has_whole_request():
            self._stop_deadline()
        elif self._deadline is None:
            self._start_deadline()

    def pause_writing(self) -> None:
        """Begin to wait for a client that does not take its answer."""
        super().pause_writing()
        if self._answer_deadline is None:
            self._answer_deadline = self.loop.call_later(ANSWER_TIMEOUT_S, self.transport.abort)

    def resume_writing(self) -> None:
        """Go on with the answers; the time limit ends where nothing of them is left to send."""
        super().resume_writing()
        if self.cycle is None or self.cycle.response_complete:
            self._stop_answer_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the time limits."""
        self._stop_deadline()
        self._stop_answer_deadline()
        super().connection_lost(exc)

    def _has_whole_request(self) -> bool:
        # IDLE: nothing or a part of the header has come, of the first request or of a further one.
        return self.conn.their_state not in {h11.IDLE, h11.SEND_BODY}

    def _waits_since(self) -> float:
        """The time of the loop since which no request is there; infinite while one is served."""
        if self._deadline is not None:
            return self._deadline.when() - REQUEST_TIMEOUT_S
        if self.timeout_keep_alive_task is not None:  # between two requests
            return self.timeout_keep_alive_task.when() - self.timeout_keep_alive
        return float("inf")

    def _start_deadline(self) -> None:
        self._deadline = self.loop.call_later(REQUEST_TIMEOUT_S, self._close)

    def _stop_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _stop_answer_deadline(self) -> None:
        if self._answer_deadline is not None:
            self._answer_deadline.cancel()
            self._answer_deadline = None

    def _close(self) -> None:
        self._stop_deadline()
        self.transport.close()
