"""Which answers of tools are failures of the environment. All tools are invented."""

from __future__ import annotations

import time

import pytest

from assizes.judge.evidence.outages import is_outage
from assizes.judge.evidence.tool_calls import made_calls
from tests.judge.heuristic.test_agreement_with_rewards import AIRLINES, airline

OUTAGES = [
    "503",
    "Error: 503",
    "Error 503: Service Unavailable",
    "503 Service Unavailable",
    "HTTP 503",
    "HTTP/1.1 502 Bad Gateway",
    "Request failed with status code 504",
    "status: 500",
    "Error (500): Internal Server Error",
    "Internal server error",
    "Bad gateway",
    "504 Gateway Time-out",
    "Error: 429 Too Many Requests",
    "rate limit exceeded, slow down",
    "RateLimitError: please retry after 20 s",
    "Error: request timed out",
    "The operation timed out after 30 s.",
    "Read timed out. (read timeout=10)",
    "timeout of 30000ms exceeded",
    "Timeout",
    "time-out",
    "TimeoutError",
    "context deadline exceeded",
    "Please try again later.",
    "Something went wrong on our side. Try again in a few minutes.",
    "Error: could not load the calendar, try again shortly",
    "The booking system is temporarily unavailable.",
    "Service is currently unavailable",
    "Our servers are down",
    "The database is not responding",
    "backend overloaded",
    "connection refused",
    "Connection reset by peer",
    "ConnectionError: [Errno 111]",
    "ECONNREFUSED 127.0.0.1:5432",
    "Network is unreachable",
    "The API is under maintenance until 6 am",
    '{"status": 503, "error": "Service Unavailable"}',
    '{"error": {"code": 503, "message": "upstream down"}}',
    '{"success": false, "error": "timeout"}',
    "HTTP 429",
    "HTTP/2 504",
    "status code: 502",
    "Status 503: please try again",
    "500 Server Error",
    "Too many requests",
    "The server is overloaded",
    "Our backend is unreachable",
    "upstream is offline",
    "The system is busy",
    "Database unavailable",
    "The host is down",
    "Query timed out",
    "request time-out",
    "Gateway timeout",
    "Connection lost",
    "connection closed by the server",
    "ETIMEDOUT",
    "rate limited",
    "temporarily out of service",
    "retry later",
    "Network error",
]

REFUSALS = [
    "",
    "Error",
    "Error: user not found",
    "Error: flight HAT503 not available on date 2024-05-03",
    "Error: payment amount does not add up, total price is 503, but paid 500",
    "Error: 500 points required",
    "Error: order 503 not found",
    "Error: gift card balance is not enough",
    "Error: not enough seats",
    "Error: seat unavailable",
    "Error: the room is unavailable on that day",
    "Error: too many reservations",
    "Error: number of guests must be below 5",
    "400 Bad Request",
    "Error 404: no such item",
    "HTTP 403 Forbidden",
    "status: 422, quantity must be a number",
    "Invalid value for timeout: must be below 60",
    "timeout exceeds the maximum of 60",
    "missing argument: timeout",
    "Card declined. Try again later.",
    "Account locked, try again later",
    "The code is incorrect. Try again in 5 minutes.",
    "You already have a booking; try again later for another",
    "Error: amount 504 is invalid",
    "Error: code HTTP-504 is unknown",
    "1 validation error for Payment: field required, input_value=500",
    "KeyError: 'service'",
    "Permission denied",
    "Error: cannot be cancelled",
    "Error: guests must not exceed 502",
    "Error: the booking is locked. Try again later",
    "Error: promo code expired, try again in a week",
    "Error: wrong password. Try again later.",
    "403 Forbidden, try again later",
    "Payment not authorised; retry later",
    "Amount exceeds the limit, retry after 1 day",
    "Quantity 429 is too large",
    "Error: unknown field status_code",
    "ValueError: time-out must be positive",
    "Error: seat 500 is taken",
]

CONTENT = [
    '{"price": 503}',
    '{"code": 503, "name": "Blue lamp"}',
    '{"status": "delayed", "note": "try again later"}',
    '{"status": "ok", "message": "no time-out set"}',
    '[{"flight": "HAT503", "status": "landed"}]',
    '["503 Service Unavailable"]',
    "Our service is unavailable on Sundays.",
    "If the card is refused, ask the customer to try again later.",
    "Room 503 is free.",
    "Time-out rules: a team may call two time-outs in each half.",
    "Guide: error 503 means that the server is down. " * 10,
    "ok",
    "",
    "Transfer successful",
    '{"result": "timed out tickets: 0"}',
    '{"errors": [], "status": "ok", "note": "HTTP 503 was seen"}',
    '{"error": null, "data": "the server is down"}',
    "Server rack 502 is in stock.",
    "Request 503 was filed.",
    "A table for 503 people",
    "Flight 504 is delayed.",
    "null",
]


@pytest.mark.parametrize("text", OUTAGES)
def test_an_error_that_says_that_the_environment_failed_is_an_outage(text):
    assert is_outage(text, is_error=True)


@pytest.mark.parametrize("text", REFUSALS)
def test_an_error_that_refuses_what_the_agent_gave_is_none(text):
    assert not is_outage(text, is_error=True)


@pytest.mark.parametrize(
    "text",
    [
        "503 Service Unavailable",
        "Error: request timed out",
        "Timeout",
        "TimeoutError: no answer",
        "HTTP 503",
        "Please try again later.",
        "Service unavailable: the server is overloaded",
        '{"status": 503}',
        '{"statusCode": "502", "body": ""}',
        '{"error": "Request timed out"}',
        '{"status": "error", "message": "temporarily unavailable"}',
        '{"success": false, "message": "The service is down"}',
        '"Error: 503"',
    ],
)
def test_an_outage_that_is_not_marked_as_an_error_is_known_by_its_form(text):
    assert is_outage(text, is_error=False)


@pytest.mark.parametrize("text", [*CONTENT, *REFUSALS])
def test_content_and_refusals_that_are_not_marked_as_errors_are_no_outage(text):
    assert not is_outage(text, is_error=False)


def test_each_table_has_sixty_answers():
    assert len(set(OUTAGES)) >= 60
    assert len({*REFUSALS, *CONTENT}) >= 60


def test_a_long_answer_is_content_whatever_it_says():
    assert not is_outage("503 Service Unavailable " + "x" * 2000, is_error=True)


@pytest.mark.parametrize(
    "piece", ["error ", "http ", "service ", "timeout of 1", "{", "5", "\u2019"]
)
def test_a_hostile_answer_is_read_in_linear_time(piece):
    begun = time.process_time()
    for is_error in (True, False):
        is_outage((piece * 2000)[:2000], is_error=is_error)
    assert time.process_time() - begun < 1


@pytest.mark.data
def test_no_answer_of_the_real_tools_and_no_document_is_taken_for_an_outage(data):
    answers = [
        made.result.content
        for file, form in AIRLINES
        for case in airline(data / file, form)
        for made in made_calls(case.transcript)
        if made.result is not None
    ]
    assert len(answers) > 2000
    assert [text for text in answers if is_outage(text, is_error=True)] == []
    assert [text for text in answers if is_outage(text, is_error=False)] == []
