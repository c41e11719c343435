"""Requests that no client makes by accident: none crashes the server or gets what it may not have."""

from __future__ import annotations

import json
import re
import socket
from dataclasses import dataclass
from urllib.parse import urlencode

import pytest

from assizes.deployments.web.guard import MAX_BODY_BYTES, host_of
from tests.deployments.web.conftest import Served, ask, serving
from tests.hostile import ESCAPES, PATHS, XSS

DEEP = "[" * 20_000 + "]" * 20_000
POST = "POST /runs HTTP/1.1"
JSON = "Content-Type: application/json"
BODIES = (
    b"", b"{", b"[]", b"null", b"0", b'"x"', b"\xff\xfe{\x00}\x00", b"\xef\xbb\xbf{}", b"\x00" * 100,
    DEEP.encode(), b'{"flow":' + b"[" * 9000 + b"]" * 9000 + b"}", b'{"a":' * 9000 + b"1" + b"}" * 9000,
    b'{"flow": 1e999}', b'{"flow": NaN}', b'{"flow": ' + b"9" * 6000 + b"}",
    b'{"flow": "evaluate", "flow": "nightly", "x": 1}', b'{"flow": "evaluate", "__proto__": {}}',
    b'{"flow": "evaluate", "parameters": {"run_id": "../x"}}',
    b'{"flow": "evaluate", "parameters": {"run_id": "a\\u0000b"}}',
    b'{"flow": "evaluate", "parameters": {"on": "2026-99-99"}}',
    b'{"flow": "evaluate", "parameters": {"on": ' + b"1" * 400 + b"}}",
    b'{"flow": "evaluate", "parameters": {"config": {"judge": {"api_base": "http://169.254.169.254"}}}}',
    b'{"flow": "backfill", "parameters": {"since": "0001-01-01", "until": "9999-12-31", "x": 1}}',
    b'{"flow": "after-deployment", "parameters": {"version": "{{ 7*7 }}"}}',
    b'{"flow": "after-deployment", "parameters": {"version": "1", "min_transcripts": 1e300}}',
    b'{"flow": "\\ud800"}', b"{" + b",".join(b'"k%d":1' % n for n in range(5000)) + b"}",
)  # fmt: skip
HEADERS = (
    "Content-Length: -1", "Content-Length: +1", "Content-Length: 1e3", "Content-Length: 0x10",
    "Content-Length: " + "9" * 19, "Content-Length: " + "9" * 5000, "Content-Length: \u0661",
    "Content-Length: 1\r\nContent-Length: 2", "Content-Length: 5\r\nTransfer-Encoding: chunked",
    "Transfer-Encoding: gzip", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    "Host: evil.test", "Host: [::1]evil.test", "Host: 127.0.0.1@evil.test", "Host: 127.0.0.1#evil",
    "Host: 127.0.0.1:evil", "Host: localhost/evil", "Host: [127.0.0.1", "Host: 127.0.0.1\\evil",
    "Origin: null", "Origin: https://evil.test", "Origin: http://127.0.0.1.evil.test", "Origin: x",
    "Origin: http://127.0.0.1@evil.test", "Origin: //evil.test", "Origin: file://",
    "Authorization: Basic", "Authorization: Basic !!!!", "Authorization: Bearer \u00ff\u00ff",
    "Authorization: Basic " + "A" * 9000, "Cookie: " + "a=b; " * 2000,
    "X-Forwarded-Host: evil.test", "X-Original-URL: /health", "X-HTTP-Method-Override: DELETE",
    "Expect: 100-continue", "Upgrade: websocket\r\nConnection: Upgrade", "Upgrade: h2c",
    "Range: bytes=0-18446744073709551615", "Accept: " + "*/*;q=0.1," * 700, "X: " + "y" * 70_000,
    "\r\n".join(f"X-{n}: y" for n in range(300)), "Idempotency-Key: " + "k" * 5000,
    "Idempotency-Key: ../x", "Content-Encoding: gzip", "Content-Type: application/xml",
    "Content-Type: multipart/form-data; boundary=" + "x" * 300, "X\x00Y: z", "X: a\x00b", "X : y", ": y",
)  # fmt: skip
TARGETS = (
    "http://evil.test/runs", "//evil.test/runs", "/..%2f..%2fetc/passwd", "/view/../../etc/passwd",
    "/runs/%00", "/runs/%ff%fe", "/runs/%", "/runs/%zz", "/runs/a%0d%0aSet-Cookie:x=1", "/%2e%2e/",
    "/runs/" + "a" * 20_000, "/?" + "a=b&" * 5000, "/runs?limit=" + "9" * 5000, "/runs?offset=-1",
    "/runs?limit=1e9", "/health/../runs", "/health/x", "/health;x", "//health", "/health%2f..%2fruns",
    "/runs/compare?baseline=" + "%5b" * 100, "*", "/docs", "/redoc", "/static/../x", "/openapi.json?x=y",
)  # fmt: skip


@dataclass(frozen=True)
class Raw:
    """A raw response; its status is `None` where the server only closed the connection."""

    status: int | None
    text: str


def exchange(port: int, request: bytes) -> Raw:
    """Send bytes and read until the server closes the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as wire:
        wire.settimeout(3)
        received = b""
        try:
            wire.sendall(request)
            while block := wire.recv(1 << 16):
                received += block
        except (TimeoutError, ConnectionError):
            pass
    head = received.split(b" ", 2)
    return Raw(
        int(head[1]) if received.startswith(b"HTTP/1.1 ") else None, received.decode("latin-1")
    )


def request(served: Served, line: str, headers: str, body: bytes = b"") -> Raw:
    port = int(served.url.rpartition(":")[2])
    host = "" if headers.startswith("Host:") else f"Host: 127.0.0.1:{port}\r\n"
    length = (
        ""
        if "Content-Length" in headers or "Transfer" in headers
        else f"Content-Length: {len(body)}\r\n"
    )
    head = f"{line}\r\n{host}{length}Connection: close\r\n{headers}\r\n\r\n"
    return exchange(port, head.encode("utf-8") + body)


def is_harmless(answer: Raw) -> bool:
    """Whether a response shows no defect, no detail of the machine, and no text in its headers."""
    without_prefect = answer.status == 503 and "`assizes up`" in answer.text
    no_defect = answer.status is None or answer.status < 500 or without_prefect
    head = answer.text.partition("\r\n\r\n")[0].lower()
    redirect = re.search(r"location: (.*)", head)
    stays = redirect is None or redirect[1].startswith("http://127.0.0.1:")
    return no_defect and stays and "root:" not in answer.text and "set-cookie" not in head


def test_no_header_is_a_crash_or_a_way_in(served: Served):
    assert len(HEADERS) >= 45
    for header in HEADERS:
        for line, body in (("GET /runs HTTP/1.1", b""), (POST, b'{"flow": "x"}')):
            answer = request(served, line, header, body)
            assert is_harmless(answer), (header[:80], answer)
            if header.startswith(("Host:", "Origin:")):
                assert answer.status in (400, 403), (header, answer)
    assert ask(f"{served.url}/health").status == 200


def test_no_body_is_a_crash(served: Served):
    for body in BODIES:
        for path in ("/runs", "/events/model-deployed"):
            answer = request(served, f"POST {path} HTTP/1.1", JSON, body)
            assert is_harmless(answer), (body[:80], answer)
            assert answer.status in (400, 413, 422, 503), (body[:80], answer)
    assert ask(f"{served.url}/health").status == 200


def test_a_body_in_pieces_is_bounded_too(served: Served):
    piece = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    body = piece * (MAX_BODY_BYTES // 4096 + 2) + b"0\r\n\r\n"
    answer = request(served, POST, f"{JSON}\r\nTransfer-Encoding: chunked", body)
    assert answer.status == 413


@pytest.mark.full
def test_no_target_leads_anywhere_else(served: Served):
    targets = [
        *TARGETS,
        *(f"/runs/{path}" for path in PATHS),
        *(f"/view/runs/{path}" for path in PATHS),
    ]
    for target in targets:
        plain = "".join(char if char.isascii() and char.isprintable() else "%00" for char in target)
        answer = request(served, f"GET {plain.replace(' ', '%20')} HTTP/1.1", "Accept: */*")
        assert is_harmless(answer), (target, answer)
        allowed = target.startswith(
            ("/runs", "/?", "/health", "/openapi", "//health", "/view/runs")
        )
        assert answer.status != 200 or allowed or target == "http://evil.test/runs", (
            target,
            answer,
        )


@pytest.mark.parametrize(
    "method", ["TRACE", "CONNECT", "PUT", "PATCH", "DELETE", "PROPFIND", "GE T", "x" * 500]
)
def test_no_other_method_does_anything(served: Served, method: str):
    answer = request(served, f"{method} /runs HTTP/1.1", "Accept: */*")
    assert answer.status in (400, 404, 405, None)


def test_values_of_parameters_are_text_and_no_more(served: Served):
    for text in (*XSS[::9], *ESCAPES[::5], *PATHS[::6]):
        reply = served.get(f"/runs/{served.candidate}/cases?{_query(search=text)}")
        assert reply.status in (200, 422), (text, reply)
        if reply.status == 200:
            assert json.loads(reply.text)["count"] in range(41)
        else:
            assert reply.headers["content-type"] == "application/problem+json"


def test_everything_but_the_health_asks_for_the_token(served: Served):
    paths = list(json.loads(served.get("/openapi.json").text)["paths"])
    pages = [
        "/",
        "/view/runs/x",
        "/view/runs/x/cases",
        "/view/explain",
        "/view/compare",
        "/view/trends",
    ]
    ways = [
        "/openapi.json",
        "/nowhere",
        "/health/",
        "/health/x",
        "/health%2f",
        "//health",
        "/health;x",
    ]
    with serving(served.folder, ASSIZES_API_TOKEN="a-token-of-a-fair-length") as url:
        for path in [*paths, *pages, *ways]:
            assert path == "/health" or ask(url + path).status == 401, path
        for header in (
            "Bearer",
            "Bearer a-token-of-a-fair-lengt",
            "Basic Og==",
            "a-token-of-a-fair-length",
        ):
            assert ask(f"{url}/runs", headers={"Authorization": header}).status == 401, header
        assert ask(f"{url}/health").status == 200


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("127.0.0.1:80", "127.0.0.1"), ("LOCALHOST", "localhost"), ("[::1]:8320", "::1"), ("a.b:", "a.b"),
        ("[::1]evil.test", ""), ("127.0.0.1@evil.test", ""), ("x:y", ""), ("a b", ""), ("", ""), ("[::1", ""),
    ],
)  # fmt: skip
def test_a_host_is_a_name_and_a_port(header: str, name: str):
    assert host_of(header) == name


def _query(**fields: str) -> str:
    return urlencode(fields, errors="surrogatepass")
