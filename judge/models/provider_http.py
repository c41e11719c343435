"""What providers answer over HTTP, within bounds; and requests of ours, where litellm offers no way."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import httpx

from assizes.judge.errors import ModelError
from assizes.judge.models.provider_calls import model_error

if TYPE_CHECKING:  # `assizes plan` needs nothing of it, and it takes long to import
    import aiohttp

FILE_TIMEOUT_S: Final = 600.0
"""Timeout of a request about a file: a file of requests may have 200 MB."""

CALL_TIMEOUT_S: Final = 60.0
"""Timeout of every other request."""

MAX_ANSWER_BYTES: Final = 64_000_000
"""The most bytes of an answer that is read as one JSON document, such as a reply or a page of batches."""

MAX_REFUSAL_BYTES: Final = 20_000
"""The bytes of a refusal that are read; its message stands at the beginning."""

_RECODED: Final = frozenset({"content-encoding", "transfer-encoding", "content-length"})
"""Headers, in lower case, that no longer hold for a body that was received and unpacked."""

_CHUNK_BYTES: Final = 1 << 14
"""The most bytes that are unpacked at once: a chunk may become a thousand times as long."""

_ID: Final = re.compile(r"[A-Za-z0-9_.:/-]{1,512}")


class ProviderRefusal(httpx.HTTPStatusError):
    """An answer with a status of 400 or more; its text is the body of the answer."""

    def __init__(self, response: httpx.Response, body: str) -> None:
        super().__init__(body, request=response.request, response=response)
        self.status_code = response.status_code  # where `model_error` reads it


class ProviderHttp:
    """Makes the requests to one provider; a failed request is not repeated.

    Raises:
        ModelError: every method, when the provider cannot be reached, or refuses.
    """

    def __init__(self, base: str, headers: Mapping[str, str]) -> None:
        self.base = base.rstrip("/")
        self._headers = dict(headers)  # with the key of the account

    async def json(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = CALL_TIMEOUT_S,
        **request: Any,
    ) -> tuple[dict[str, Any], httpx.Headers]:
        """Make a request and return the JSON object of its answer, with the headers of the answer.

        `url` is a path below the provider's address, or a whole address. `request` holds further
        arguments of `httpx.AsyncClient.stream`.
        """
        sent = {**self._headers, **(headers or {})}
        try:
            async with (
                httpx.AsyncClient(timeout=timeout_s) as client,
                client.stream(method, self._address(url), headers=sent, **request) as response,
            ):
                await _check_status(response)
                body = b""
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > MAX_ANSWER_BYTES:
                        raise ModelError("unavailable", f"{url}: the answer has no end")
                return _json_object(response, body), response.headers
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise model_error(error) from error

    async def content(self, url: str) -> AsyncIterator[bytes]:
        """Yield the bytes of a file in chunks."""
        try:
            async with (
                httpx.AsyncClient(timeout=FILE_TIMEOUT_S, follow_redirects=False) as client,
                client.stream("GET", self._address(url), headers=self._headers) as response,
            ):
                await _check_status(response)
                async for chunk in response.aiter_bytes():
                    yield chunk
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise model_error(error) from error

    def _address(self, url: str) -> str:
        return url if url.startswith(("http://", "https://")) else f"{self.base}{url}"


def checked_id(value: object) -> str:
    """The id of an object at a provider, which becomes part of an address.

    Raises:
        ModelError: the value cannot be such an id.
    """
    if isinstance(value, str) and _ID.fullmatch(value) and ".." not in value:
        return value
    raise ModelError("unavailable", f"{str(value)[:60]!r} is no id of a batch or file")


def count(value: object) -> int:
    """A count from an answer; 0 for anything that is no count. Some providers send it as text."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= 12:
        value = int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if isinstance(value, int) and is_number and 0 <= value < 10**12 else 0


async def file_chunks(lines: BinaryIO) -> AsyncIterator[bytes]:
    """Yield the rest of a file in chunks, for a request that sends it while it is read."""
    while chunk := lines.read(1 << 20):
        yield chunk


async def _check_status(response: httpx.Response) -> None:
    if response.is_success:
        return
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) >= MAX_REFUSAL_BYTES:
            break
    text = body[:MAX_REFUSAL_BYTES].decode(errors="replace")
    raise ProviderRefusal(response, text or f"HTTP {response.status_code}")


def _json_object(response: httpx.Response, body: bytes) -> dict[str, Any]:
    if not body.strip():
        return {}
    try:
        answer = httpx.Response(200, content=body).json()
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict):
        raise ModelError("unavailable", f"{response.url.path}: the answer is no JSON object")
    return answer


@dataclass(frozen=True, slots=True)
class Received:
    """A response with its whole body, unpacked."""

    status_code: int
    headers: Mapping[str, str]
    content: bytes
    request: Callable[[], httpx.Request]  # what it answers

    def response(self) -> httpx.Response:
        """The response as httpx has it."""
        headers = [pair for pair in self.headers.items() if pair[0].lower() not in _RECODED]
        return httpx.Response(
            self.status_code, headers=headers, content=self.content, request=self.request()
        )


async def received_by_httpx(
    transport: httpx.AsyncBaseTransport, request: httpx.Request
) -> Received:
    """Send a request and return the response with its body, which has at most `MAX_ANSWER_BYTES`.

    Raises:
        ModelError: the body is larger.
    """
    response = await transport.handle_async_request(request)
    try:
        _check_size(response.headers.get("content-length", ""))
        content = await _joined(response.aiter_bytes())
    finally:
        await response.aclose()
    return Received(response.status_code, response.headers, content, lambda: request)


async def body_of(response: aiohttp.ClientResponse) -> bytes:
    """Return the body of a response, unpacked; it has at most `MAX_ANSWER_BYTES`.

    Raises:
        ModelError: the body is larger.
        httpx.DecodingError: the body is not in the encoding that its header names.
    """
    _check_size(response.headers.get("content-length", ""))
    body = await _joined(response.content.iter_any())
    encoding = response.headers.get("content-encoding")
    return body if encoding is None else await _unpacked(body, encoding)


async def _unpacked(body: bytes, encoding: str) -> bytes:
    """Return a body that was sent in an encoding, such as gzip."""

    class Chunks(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for start in range(0, len(body), _CHUNK_BYTES):
                yield body[start : start + _CHUNK_BYTES]

    packed = httpx.Response(200, headers={"content-encoding": encoding}, stream=Chunks())
    return await _joined(packed.aiter_bytes())


async def _joined(chunks: AsyncIterator[bytes]) -> bytes:
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        _check_size(len(body))
    return bytes(body)


def _check_size(size: int | str) -> None:
    """Raise an error for more bytes than an answer may have; a text that is no number says nothing."""
    if (isinstance(size, int) or size.isdecimal()) and int(size) > MAX_ANSWER_BYTES:
        raise ModelError("unavailable", f"the answer has more than {MAX_ANSWER_BYTES} bytes")
