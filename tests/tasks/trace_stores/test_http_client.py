"""The client waits as a busy server asks, tries a bounded number of times, and reads no endless answer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from assizes.tasks.trace_stores.connection import ServerConnection
from assizes.tasks.trace_stores.http_client import MAX_WAIT_S, TRIES, JsonClient, TraceStoreError
from tests.doubles.json_server import Reply, json_server

SECRET = "Bearer tok-0123456789abcdef"


@pytest.fixture
def server():
    with json_server(lambda request: Reply(200, {"path": request.path})) as server:
        yield server


@pytest.fixture
def waits():
    return []


@pytest.fixture
def client(server, waits):
    connection = ServerConnection("phoenix", server.url, {"authorization": SECRET})
    with JsonClient(connection, max_answer_bytes=1 << 20, sleep=waits.append) as client:
        yield client


def test_a_request_carries_keys_parameters_and_a_body(server, client):
    assert client.get("/v1/x", {"a": 1, "b": None}) == {"path": "/v1/x"}
    answer = client.request("POST", "/v1/y", body={"text": "ü"})
    assert (answer.status, answer.body) == (200, {"path": "/v1/y"})
    get, post = server.requests
    assert (get.method, get.params, get.raw) == ("GET", {"a": "1"}, b"")
    assert get.headers["authorization"] == SECRET
    assert (post.method, post.body) == ("POST", {"text": "ü"})
    assert post.headers["content-type"] == "application/json"


def test_it_waits_as_long_as_the_server_asks(server, client, waits):
    then = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    server.faults += [
        Reply(429, {}, {"retry-after": "7"}),
        Reply(503, b"", {"retry-after": then}),
        Reply(429, {}, {"retry-after": "86400"}),
    ]
    assert client.get("/v1/x") == {"path": "/v1/x"}
    assert waits[0] == 7
    assert 25 < waits[1] <= 30
    assert waits[2] == MAX_WAIT_S
    assert len(server.requests) == 4


def test_a_failing_server_and_a_broken_connection_are_asked_again(server, client, waits):
    server.faults += [Reply(500), Reply(hang_up=True), Reply(502), Reply(504)]
    assert client.get("/v1/x") == {"path": "/v1/x"}
    assert len(waits) == 4
    assert all(0 <= wait <= 30 for wait in waits)


def test_tries_are_bounded(server, client, waits):
    server.faults += [Reply(429, {}, {"retry-after": "nonsense"})] * 50
    with pytest.raises(TraceStoreError, match="HTTP 429, too many requests") as caught:
        client.get("/v1/x")
    assert caught.value.status == 429
    assert len(server.requests) == TRIES
    assert len(waits) == TRIES - 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422, 301])
def test_a_refusal_is_told_at_once(server, client, waits, status):
    server.faults += [Reply(status, {"detail": f"no {SECRET}"}, {"location": "http://elsewhere/"})]
    with pytest.raises(TraceStoreError, match=f"GET /v1/x: HTTP {status}") as caught:
        client.get("/v1/x")
    assert "tok-0123456789abcdef" not in str(caught.value)
    assert (len(server.requests), waits) == (1, [])


def test_an_accepted_status_is_an_answer(server, client):
    server.faults += [Reply(404, {"detail": "none"})]
    assert client.request("GET", "/v1/x", accepted=(404,)).body == {"detail": "none"}
    server.faults += [Reply(404, b"no such thing")]
    assert client.request("GET", "/v1/x", accepted=(404,)).body is None


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        (Reply(200, b"<html>"), "is no JSON"),
        (Reply(200, b'{"a": NaN}'), "is no JSON"),
        (Reply(200, b" " * (2 << 20)), "more than 1048576 bytes"),
        (Reply(200, endless=True), "more than 1048576 bytes"),
        (Reply(200, b"no gzip", {"content-encoding": "gzip"}), "DecodingError"),
    ],
)
def test_an_unusable_answer_is_an_error(server, client, waits, reply, says):
    server.faults += [reply]
    with pytest.raises(TraceStoreError, match=says):
        client.get("/v1/x")
    assert waits == []


def test_a_server_that_is_away_is_named():
    waits = []
    with (
        JsonClient(
            ServerConnection("mlflow", "http://127.0.0.1:9", {}), sleep=waits.append
        ) as client,
        pytest.raises(
            TraceStoreError, match=r"mlflow at http://127.0.0.1:9: GET /x: cannot be reached"
        ),
    ):
        client.get("/x")
    assert len(waits) == TRIES - 1
