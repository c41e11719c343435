"""Where a trace store is, and with which keys, by the variables of the vendors' own clients."""

from __future__ import annotations

import base64

import pytest

from assizes.judge.errors import ConfigurationError
from assizes.judge.privacy.secret_masking import mask
from assizes.tasks.trace_stores.address import StoreAddress, is_trace_store, parse_address
from assizes.tasks.trace_stores.connection import connection_to

LANGFUSE_KEYS = {"LANGFUSE_PUBLIC_KEY": "pk-lf-1", "LANGFUSE_SECRET_KEY": "sk-lf-0123456789"}


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("langfuse://support", StoreAddress("langfuse", "support")),
        ("mlflow://my%20experiment/", StoreAddress("mlflow", "my experiment")),
        ("mlflow://%2FUsers%2Fa", StoreAddress("mlflow", "/Users/a")),
        ("phoenix://default", StoreAddress("phoenix", "default")),
    ],
)
def test_an_address_is_a_kind_and_a_name(uri, address):
    assert parse_address(uri) == address
    assert parse_address(address.uri) == address
    assert is_trace_store(uri)


@pytest.mark.parametrize("uri", ["s3://bucket/prefix", "logs/day.jsonl", "langfuse", "file://x"])
def test_other_places_are_no_trace_store(uri):
    assert not is_trace_store(uri)


@pytest.mark.parametrize(
    ("uri", "says"),
    [
        ("langfuse://", "names no project"),
        ("langfuse://%20", "names no project"),
        ("phoenix://a/b", "percent-encode"),
        ("mlflow://user@host", "percent-encode"),
        ("langfuse://a?limit=3", "percent-encode"),
        ("langsmith://a", "unknown scheme 'langsmith://'"),
    ],
)
def test_a_wrong_address_is_refused(uri, says):
    with pytest.raises(ConfigurationError, match=says):
        parse_address(uri)


def test_langfuse_needs_both_keys_and_prefers_its_newer_variable():
    with pytest.raises(ConfigurationError, match="set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY"):
        connection_to("langfuse", {"LANGFUSE_PUBLIC_KEY": "pk-lf-1"})
    assert connection_to("langfuse", LANGFUSE_KEYS).base_url == "https://cloud.langfuse.com"
    old = {**LANGFUSE_KEYS, "LANGFUSE_HOST": "http://old:3000/"}
    assert connection_to("langfuse", old).base_url == "http://old:3000"
    new = connection_to("langfuse", {**old, "LANGFUSE_BASE_URL": "http://new:3000/base/"})
    assert new.base_url == "http://new:3000/base"
    expected = base64.b64encode(b"pk-lf-1:sk-lf-0123456789").decode()
    assert new.headers == {"authorization": f"Basic {expected}"}


def test_mlflow_takes_user_and_password_before_a_token():
    uri = {"MLFLOW_TRACKING_URI": "https://host:5000"}
    assert connection_to("mlflow", uri).headers == {}
    token = {**uri, "MLFLOW_TRACKING_TOKEN": "tok-0123456789"}
    assert connection_to("mlflow", token).headers == {"authorization": "Bearer tok-0123456789"}
    named = {"MLFLOW_TRACKING_USERNAME": "u", "MLFLOW_TRACKING_PASSWORD": "pass word"}
    assert connection_to("mlflow", {**token, **named}).headers["authorization"].startswith("Basic ")
    inside = connection_to("mlflow", {"MLFLOW_TRACKING_URI": "http://u:p%40ss@host"})
    assert inside.base_url == "http://host"
    assert base64.b64decode(inside.headers["authorization"].split()[1]) == b"u:p@ss"


def test_mlflow_without_a_server_or_with_a_folder_is_refused():
    with pytest.raises(ConfigurationError, match="set MLFLOW_TRACKING_URI"):
        connection_to("mlflow", {})
    for written in ("sqlite:///mlflow.db", "databricks", "./mlruns", "http://host:port"):
        with pytest.raises(ConfigurationError, match="give the address of a server"):
            connection_to("mlflow", {"MLFLOW_TRACKING_URI": written})


@pytest.mark.parametrize(
    ("environment", "url"),
    [
        ({}, "http://localhost:6006"),
        ({"PHOENIX_COLLECTOR_ENDPOINT": "http://p:1/v1/traces"}, "http://p:1"),
        ({"PHOENIX_HOST": "0.0.0.0", "PHOENIX_PORT": "7007"}, "http://127.0.0.1:7007"),
        ({"PHOENIX_HOST": "https://p.example"}, "https://p.example"),
    ],
)
def test_phoenix_is_found_by_its_variables(environment, url):
    assert connection_to("phoenix", environment).base_url == url


def test_phoenix_sends_its_key_and_further_headers():
    sent = connection_to(
        "phoenix", {"PHOENIX_API_KEY": "key-0123456789", "PHOENIX_CLIENT_HEADERS": "X-Team=a%20b,x"}
    ).headers
    assert sent == {"authorization": "Bearer key-0123456789", "x-team": "a b"}


def test_no_secret_is_in_a_text_of_a_connection_or_a_later_error():
    connection = connection_to("langfuse", LANGFUSE_KEYS)
    basic = connection.headers["authorization"].split()[1]
    assert basic not in repr(connection)
    for secret in ("sk-lf-0123456789", basic):
        assert secret not in mask(f"the server answered: {secret}")
