"""A few requests are worked on at once; the others wait, and equal ones share one answer.

Each request that is worked on holds its part of the store in memory. All of them share the memory
that DuckDB may take, and one interpreter, so that more at once would not end sooner. A request
joins an equal one only while that one waits, too: what it is answered was read after it came, and
no answer is older than its request. Nothing is kept once it was sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final
from weakref import WeakKeyDictionary

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PLACES: Final = 4
"""Requests that are worked on at once."""

WAIT_S: Final = 30.0
"""Seconds that a request waits for its place; after them it is told that the server is busy."""

_TELLING: Final = ("host", "cookie", "accept", "range", "if-none-match")
"""Headers that an answer may depend on. Who may ask at all was decided before."""

_Key = tuple[str | bytes | None, ...]  # what equal requests have in common
_Answer = Sequence[Message]  # all messages of an answer


class _Line:
    """The places of one event loop, and the requests that wait for them."""

    def __init__(self, places: int) -> None:
        self.places = asyncio.Semaphore(places)  # whoever waits longest comes first
        self.waiting: dict[_Key, asyncio.Future[_Answer | None]] = {}


class Places:
    """ASGI middleware that works on a few requests at once; a request of an `open_path` never waits.

    `busy` answers a request that waited for too long.
    """

    def __init__(
        self,
        app: ASGIApp,
        busy: Callable[[str], ASGIApp],
        open_path: str,
        places: int = PLACES,
        wait_s: float = WAIT_S,
    ) -> None:
        self._app = app
        self._busy = busy
        self._open_path = open_path
        self._places = places
        self._wait_s = wait_s
        self._lines: WeakKeyDictionary[asyncio.AbstractEventLoop, _Line] = WeakKeyDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"] == self._open_path:
            await self._app(scope, receive, send)
            return
        line = self._lines.setdefault(asyncio.get_running_loop(), _Line(self._places))
        if scope["method"] != "GET":
            # A client that sends slowly holds no place.
            await self._work(line, None, scope, await _whole_body(receive), send)
            return
        key = _key_of(scope)
        if (waiting := line.waiting.get(key)) is not None:
            # Shielded: a client that goes away ends its own waiting alone.
            answer = await asyncio.shield(waiting)
            if answer is not None:
                await _send_all(answer, send)
                return
        await self._work(line, key, scope, receive, send)

    async def _work(
        self, line: _Line, key: _Key | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request in its turn, and those that joined it meanwhile."""
        shared: asyncio.Future[_Answer | None] = asyncio.get_running_loop().create_future()
        if key is not None:
            line.waiting.setdefault(key, shared)
        answer = _HeldAnswer(line, send)
        try:
            if await answer.has_turn_within(self._wait_s):
                _leave(line, key, shared)  # who comes from now on may know of more
                await self._app(scope, receive, answer.take)
            else:
                detail = f"no turn within {self._wait_s:g} s, other requests take long"
                await self._busy(detail)(scope, receive, answer.take)
        finally:
            answer.end_turn()
            _leave(line, key, shared)
            shared.set_result(answer.whole())
        await _send_all(answer.held, send)


class _HeldAnswer:
    """An answer that is held until it is whole; one of unknown length is sent on as it comes."""

    def __init__(self, line: _Line, send: Send) -> None:
        self._places = line.places
        self._send = send
        self._has_place = False
        self._is_streamed = False
        self.held: deque[Message] = deque()

    async def has_turn_within(self, wait_s: float) -> bool:
        """Wait at most so many seconds for a place; the answer is whether there was one."""
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._places.acquire()
                self._has_place = True
        return self._has_place

    def end_turn(self) -> None:
        """Leave the place to others, if there is one."""
        if self._has_place:
            self._has_place = False
            self._places.release()

    async def take(self, message: Message) -> None:
        """Hold a message, or send it on."""
        if message["type"] == "http.response.start":
            self._is_streamed = "content-length" not in Headers(raw=message["headers"])
        if not self._is_streamed:
            self.held.append(message)
            return
        self.end_turn()  # a client that takes its answer slowly holds no place
        await self._send(message)
        await self._places.acquire()
        self._has_place = True

    def whole(self) -> _Answer | None:
        """All messages; `None` where there is nothing whole that another request could be sent."""
        if not self.held or self.held[-1]["type"] != "http.response.body":
            return None
        return None if self.held[-1].get("more_body", False) else tuple(self.held)


def _leave(line: _Line, key: _Key | None, shared: asyncio.Future[_Answer | None]) -> None:
    if key is not None and line.waiting.get(key) is shared:
        del line.waiting[key]


def _key_of(scope: Scope) -> _Key:
    headers = Headers(scope=scope)
    values = (headers.get(name) for name in _TELLING)
    return (scope.get("raw_path"), scope["path"], scope["query_string"], *values)


async def _send_all(answer: Iterable[Message], send: Send) -> None:
    for message in answer:
        # Copied: the layers before this one add headers to the answer of their client.
        headers = {"headers": [*message["headers"]]} if "headers" in message else {}
        await send({**message, **headers})


async def _whole_body(receive: Receive) -> Receive:
    """What gives the messages of a request again, after all of them have come."""
    messages: deque[Message | HTTPException] = deque()
    more = True
    while more:
        try:
            message = await receive()
        except HTTPException as too_long:  # whoever reads the body is told
            messages.append(too_long)
            break
        messages.append(message)
        more = message["type"] == "http.request" and message.get("more_body", False)

    async def receive_again() -> Message:
        if not messages:
            return await receive()
        message = messages.popleft()
        if isinstance(message, HTTPException):
            raise message
        return message

    return receive_again
