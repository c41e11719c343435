"""One client for JSON over HTTP: time-outs, bounded retries, a bound on answers, no secret in errors."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception,
    retry_if_exception_type,
    stop_after_attempt,
)
from tenacity.wait import wait_random_exponential

from assizes.judge.errors import AssizesError, DataError
from assizes.judge.formats.shared.parsing import strict_json
from assizes.tasks.runtime.process import Closing
from assizes.tasks.trace_stores.connection import ServerConnection

log = logging.getLogger(__name__)

MAX_ANSWER_BYTES: Final = 64 << 20
"""The most bytes of one answer, unpacked: a page of traces, or an answer to scores."""

TRIES: Final = 6
"""How often one request is sent, at most, while the server is busy or cannot be reached."""

MAX_WAIT_S: Final = 120.0
"""The most seconds of one wait, also where the server asks for a longer one."""

_TIMEOUT: Final = httpx.Timeout(60.0, connect=10.0)  # seconds
_TOTAL_S: Final = 300.0  # seconds for one answer: a server may send a byte at a time
_BUSY: Final = (429, 502, 503, 504)
_LONGEST_EXCERPT: Final = 200  # characters of an answer in an error


class TraceStoreError(AssizesError):
    """A trace store cannot be reached, refuses a request, or answers what it should not.

    `status` is the HTTP status of the answer; None where none came.
    """

    exit_code = 2
    remedy = "`assizes doctor` checks the connection"

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class AnswerTooLarge(TraceStoreError):
    """An answer has more bytes than are read; a smaller page may help."""


class _Busy(TraceStoreError):
    """The request may be sent again, after `wait_s` seconds where the server said so."""

    def __init__(
        self, message: str, status: int | None = None, wait_s: float | None = None
    ) -> None:
        super().__init__(message, status)
        self.wait_s = wait_s


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of a server: its HTTP status, and its JSON body (None where there is none)."""

    status: int
    body: Any


class JsonClient(Closing):
    """A client for one server; threads may share it. Redirects are not followed, as keys would be."""

    def __init__(
        self,
        connection: ServerConnection,
        *,
        max_answer_bytes: int = MAX_ANSWER_BYTES,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Make a client; `sleep` waits between two tries, for a number of seconds."""
        self.connection = connection
        self._max_answer_bytes = max_answer_bytes
        self._client = httpx.Client(
            base_url=connection.base_url,
            headers={"accept": "application/json", **connection.headers},
            timeout=_TIMEOUT,
            verify=connection.verify,
        )
        self._retrying = Retrying(
            retry=retry_if_exception_type(_Busy),
            stop=stop_after_attempt(TRIES),
            wait=_wait_s,
            sleep=sleep,
            before_sleep=_log_wait,
            reraise=True,
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def get(self, path: str, params: Mapping[str, Any] | None = None) -> Any:
        """The body of the answer to a GET.

        Raises:
            TraceStoreError: as `request`.
        """
        return self.request("GET", path, params=params).body

    def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        accepted: tuple[int, ...] = (),
        repeated: tuple[int, ...] | None = None,
    ) -> Answer:
        """Send a request and return the answer, whose status is 2xx or one of `accepted`.

        A request is sent again when the server is busy (429, 502, 503, 504), fails (500), or the
        connection breaks, so a request that writes must be one that may arrive twice; with `repeated`
        it is sent again only after an answer with one of these statuses, or where no connection
        was made. A parameter that is None is left out, and one that is a list stands in the query once
        for each value.

        Raises:
            TraceStoreError: the server cannot be reached, refuses the request, answers something
                other than JSON, or answers more bytes than allowed.
        """
        sent = {name: value for name, value in (params or {}).items() if value is not None}
        content = None if body is None else json.dumps(body, ensure_ascii=False).encode()
        retrying = self._retrying.copy()
        if repeated is not None:
            retrying = self._retrying.copy(retry=retry_if_exception(_is_untaken(repeated)))
        return retrying(self._send, (method, path, sent), content, accepted)

    def _send(
        self,
        asked: tuple[str, str, dict[str, Any]],
        content: bytes | None,
        accepted: tuple[int, ...],
    ) -> Answer:
        method, path, params = asked
        headers = {} if content is None else {"content-type": "application/json"}
        where = f"{self.connection.kind} at {self.connection.base_url}: {method} {path}"
        try:
            with self._client.stream(
                method, path, params=params, content=content, headers=headers
            ) as response:
                data = self._read(response, where)
                status, wait_s = response.status_code, _retry_after_s(response)
        except httpx.TransportError as error:
            raise _Busy(f"{where}: cannot be reached ({type(error).__name__})") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:  # such as a body that does not unpack
            raise TraceStoreError(f"{where}: {type(error).__name__}") from error
        if 200 <= status < 300:
            return Answer(status, _parsed(data, status, where))
        if status in accepted:  # its body may be a text for people
            return Answer(status, _parsed_if_json(data))
        message = f"{where}: HTTP {status}{_meaning(status)}{_excerpt(data)}"
        if status in _BUSY or status >= 500:
            raise _Busy(message, status, wait_s)
        raise TraceStoreError(message, status)

    def _read(self, response: httpx.Response, where: str) -> bytes:
        """The bytes of an answer, of which no more are read than allowed."""
        parts: list[bytes] = []
        size, until = 0, time.monotonic() + _TOTAL_S
        for part in response.iter_bytes(1 << 16):
            parts.append(part)
            size += len(part)
            if size > self._max_answer_bytes:
                raise AnswerTooLarge(
                    f"{where}: an answer of more than {self._max_answer_bytes} bytes is not read",
                    response.status_code,
                )
            if time.monotonic() > until:
                raise TraceStoreError(f"{where}: no whole answer in {_TOTAL_S:.0f} s")
        return b"".join(parts)


def _parsed(data: bytes, status: int, where: str) -> Any:
    if not data.strip():
        return None
    try:
        return strict_json(data)
    except DataError as error:
        raise TraceStoreError(f"{where}: the answer is no JSON ({error.detail})", status) from None


def _parsed_if_json(data: bytes) -> Any:
    try:
        return strict_json(data)
    except DataError:
        return None


def _meaning(status: int) -> str:
    return {
        401: ", the keys are not accepted",
        403: ", the keys do not allow this",
        404: ", not there",
        429: ", too many requests",
    }.get(status, "")


def _excerpt(data: bytes) -> str:
    """The beginning of an error's body; the error masks what looks like a key."""
    text = " ".join(data[: 4 * _LONGEST_EXCERPT].decode("utf-8", "replace").split())
    shown = "".join(char for char in text if char.isprintable())[:_LONGEST_EXCERPT]
    return f": {shown}" if shown else ""


def _retry_after_s(response: httpx.Response) -> float | None:
    """The seconds that a server asks to wait; None where it does not, or not in a known form."""
    written = response.headers.get("retry-after", "").strip()
    if not written:
        return None
    if written.replace(".", "", 1).isascii() and written.replace(".", "", 1).isdigit():
        return float(written)
    try:
        moment = parsedate_to_datetime(written)
    except ValueError:
        return None
    return max(
        0.0, (moment.replace(tzinfo=moment.tzinfo or UTC) - datetime.now(UTC)).total_seconds()
    )


def _is_untaken(statuses: tuple[int, ...]) -> Callable[[BaseException], bool]:
    """Whether an error says that the server took nothing: by its status, or no connection was made."""

    def check(error: BaseException) -> bool:
        if not isinstance(error, _Busy):
            return False
        no_connection = isinstance(error.__cause__, httpx.ConnectError | httpx.ConnectTimeout)
        return no_connection or error.status in statuses

    return check


_BACKOFF: Final = wait_random_exponential(multiplier=0.5, max=30)


def _wait_s(state: RetryCallState) -> float:
    """Seconds before the next try: what the server asks for, within bounds, else growing waits."""
    error = state.outcome.exception() if state.outcome is not None else None
    if isinstance(error, _Busy) and error.wait_s is not None:
        return min(error.wait_s, MAX_WAIT_S)
    return float(_BACKOFF(state))


def _log_wait(state: RetryCallState) -> None:
    error = state.outcome.exception() if state.outcome is not None else None
    wait_s = state.next_action.sleep if state.next_action is not None else 0.0
    log.warning("%s; try %d of %d in %.1f s", error, state.attempt_number + 1, TRIES, wait_s)
