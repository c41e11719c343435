"""The HTTP request of a model's calls, learned from a request that litellm has written.

Calls of one model with the same parameters differ only in their texts, system and user. A template is
a recorded request in which litellm was given marks in place of the texts. It writes the same request
for other texts without litellm, at the cost of encoding them.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Final

import httpx

SIGNED_HEADERS: Final = frozenset(
    {"authorization", "x-amz-date", "x-amz-security-token", "x-amz-content-sha256"}
)
"""Headers, in lower case, that a signature of AWS adds and that differ in each request."""

_SIGNATURE: Final = re.compile(r"AWS4-HMAC-SHA256 Credential=[^/]*/\d+/([\w-]+)/")
"""A signature of AWS, with the region."""

_VARYING: Final = frozenset({"content-length"})
"""Headers, in lower case, that follow from the body."""


@dataclass(frozen=True, slots=True)
class RequestTemplate:
    """A request without its texts."""

    method: str
    url: httpx.URL
    headers: httpx.Headers  # without those of a signature
    timeout: dict[str, float | None]  # seconds, as httpx takes them
    aws_region: str | None  # where AWS checks the signature that each request needs; None: no need
    pieces: tuple[bytes, ...]  # of the body, before, between and after the texts
    order: tuple[int, ...]  # which of the texts stands after each piece but the last
    encode: Callable[[str], bytes]  # a text as litellm writes it into this body

    def body(self, texts: Sequence[str]) -> bytes:
        """Return the body of a request with these texts."""
        parts = [self.pieces[0]]
        for index, piece in zip(self.order, self.pieces[1:], strict=True):
            # The first text, the system message, is equal over a run.
            encode = self.encode if index else partial(_kept_bytes, self.encode)
            parts += (encode(texts[index]), piece)
        return b"".join(parts)

    def request(self, body: bytes, headers: httpx.Headers | None = None) -> httpx.Request:
        """Return a request with this body, and with other headers where they are given."""
        return httpx.Request(
            self.method,
            self.url,
            headers=self.headers if headers is None else headers,
            content=body,
            extensions={"timeout": self.timeout},
        )

    def writes(self, request: httpx.Request, texts: Sequence[str]) -> bool:
        """Whether this template writes a recorded request byte for byte, from the request's texts."""
        return self.is_like(request) and self.body(texts) == request.content

    def is_like(self, request: httpx.Request) -> bool:
        """Whether method, address, headers and timeout are those of a recorded request."""
        mine = (self.method, self.url, self.headers, self.timeout, self.aws_region)
        headers, aws_region = _lasting_headers(request)
        return mine == (
            request.method,
            request.url,
            headers,
            request.extensions.get("timeout"),
            aws_region,
        )


@lru_cache(maxsize=64)
def _kept_bytes(encode: Callable[[str], bytes], text: str) -> bytes:
    return encode(text)


def text_marks(count: int) -> list[str]:
    """Return texts that stand for those of a call, each different from all other texts.

    The space around them and the letter that is no ASCII show whether litellm leaves texts as they
    are, and how it writes them.
    """
    return [f" \n{uuid.uuid4().hex} é\n " for _ in range(count)]


def template_of(request: httpx.Request, marks: Sequence[str]) -> RequestTemplate | None:
    """Return the template of a recorded request; None where a mark is not there exactly once."""
    body = request.content
    for encode in (_ascii_bytes, _utf8_bytes):
        places = [(body.find(mark), mark) for mark in map(encode, marks)]
        if all(body.count(mark) == 1 for _, mark in places):
            break
    else:
        return None
    order = sorted(range(len(marks)), key=lambda index: places[index][0])
    pieces, end = [], 0
    for index in order:
        at, mark = places[index]
        pieces.append(body[end:at])
        end = at + len(mark)
    headers, aws_region = _lasting_headers(request)
    return RequestTemplate(
        method=request.method,
        url=request.url,
        headers=headers,
        timeout=request.extensions.get("timeout", {}),
        aws_region=aws_region,
        pieces=(*pieces, body[end:]),
        order=tuple(order),
        encode=encode,
    )


def message_texts(messages: Sequence[dict[str, Any]]) -> list[str]:
    """Return the texts of messages, each a text or a list with one part that has a text."""
    contents = [message["content"] for message in messages]
    return [each if isinstance(each, str) else each[0]["text"] for each in contents]


def with_texts(messages: Sequence[dict[str, Any]], texts: Sequence[str]) -> list[dict[str, Any]]:
    """Return messages of the same shape with other texts."""
    return [
        {
            **message,
            "content": text
            if isinstance(message["content"], str)
            else [{**message["content"][0], "text": text}],
        }
        for message, text in zip(messages, texts, strict=True)
    ]


def _lasting_headers(request: httpx.Request) -> tuple[httpx.Headers, str | None]:
    signature = _SIGNATURE.match(request.headers.get("authorization", ""))
    dropped = _VARYING | SIGNED_HEADERS if signature else _VARYING
    lasting = [(name, value) for name, value in request.headers.items() if name not in dropped]
    return httpx.Headers(lasting), signature[1] if signature else None


def _ascii_bytes(text: str) -> bytes:
    """Return a text as it stands between the quotes of JSON in ASCII."""
    return json.dumps(text)[1:-1].encode()


def _utf8_bytes(text: str) -> bytes:
    """Return a text as it stands between the quotes of JSON in UTF-8."""
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()
