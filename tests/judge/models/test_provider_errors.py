"""The classification of provider failures, without any call."""

from __future__ import annotations

import time

import pytest

from assizes.judge.models.provider_calls import model_error, readable, retry_after_s

NOON = 1_790_000_000.0  # Mon, 21 Sep 2026 14:13:20 GMT


class Failed(Exception):
    """An error as client libraries raise it: a status beside a text."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(said)
        self.status_code = status


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "20"}, 20.0),
        ({"Retry-After": "0.5"}, 0.5),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "9"}, 9.0),
        ({"retry-after": "Mon, 21 Sep 2026 14:13:50 GMT"}, 30.0),
        ({"retry-after": "Mon, 21 Sep 2026 14:13:10 GMT"}, None),
        ({"retry-after": "Fri, 01 Jan 2100 00:00:00 GMT"}, 86_400.0),  # at most a day
        ({"retry-after": "Mon, 21 Sep 2026 14:13:50"}, 30.0),  # a date of HTTP is in UTC
        ({"retry-after": "Mon, 21 Sep 2026 14:13:50 -0000"}, 30.0),
        ({"retry-after": "Mon, 21 Sep 2026 16:13:50 +0200"}, 30.0),
        ({"retry-after": "-1"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Mon, 99 Sep 2026 99:99:99 GMT"}, None),
        ({}, None),
    ],
)
def test_a_hint_is_seconds_from_now_or_nothing(headers, seconds, monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        assert retry_after_s(headers, NOON) == seconds
    finally:
        monkeypatch.undo()
        time.tzset()


LLAMA_SERVER_FULL = (  # as the server of llama.cpp words it
    '{"error":{"code":400,"message":"request (4476 tokens) exceeds the available context size (4096 '
    'tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":4476,"n_ctx":4096}}'
)


@pytest.mark.parametrize(
    ("status", "said", "code"),
    [
        (429, "You exceeded your current quota", "quota"),
        (400, "Your credit balance is too low to access the API", "quota"),
        (402, "Insufficient Balance", "quota"),
        (429, "Rate limit reached for requests", "rate_limited"),
        (400, "litellm.ContextWindowExceededError: prompt", "context_overflow"),
        (400, "The input token count (9) exceeds the maximum number of tokens", "context_overflow"),
        (400, LLAMA_SERVER_FULL, "context_overflow"),
        (400, "API key not valid. Please pass a valid API key.", "authentication"),
        (403, "flagged by our content_filter", "refused"),
        (500, "content_filter is down", "unavailable"),
        (418, "a teapot", "bad_request"),
        (408, "our own clock ran out", "timeout"),
    ],
)
def test_a_status_that_means_several_things_is_told_by_the_words(status, said, code):
    assert model_error(Failed(status, said)).code == code


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ('litellm.APIError: APIError: XException - {"error":{"message":"a  b","code":1}}', "a b"),
        ('{"error": "plain"}', "plain"),
        ('{"type":"error","error":{"type":"overloaded","message":"Overloaded"}}', "Overloaded"),
        ('{"message": "no"} after', "no"),
        ('{"detail": "Not Found"}', "Not Found"),
        ('{"error": {"message": ""}}', '{"error": {"message": ""}}'),
        ("{broken", "{broken"),
        ("got: <html><head><title> 502 Bad\nGateway </title></head>", "got: 502 Bad Gateway"),
        ('{"error":{"message":"key sk-abcdef123456 is wrong"}}', "key sk-*** is wrong"),
    ],
)
def test_an_error_object_or_a_page_is_shown_by_its_message(said, shown):
    assert model_error(Failed(500, said)).detail == shown


def test_a_page_of_titles_without_an_end_is_read_in_linear_time():
    begun = time.process_time()
    assert readable("<title>" * 50_000).startswith("<title>")
    assert readable("<title>Bad gateway</title>") == "Bad gateway"
    assert time.process_time() - begun < 5  # squared, it takes minutes
