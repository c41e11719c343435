"""Numbers that a provider reports: what no call can have is not believed, and ends nothing."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from assizes.judge.config.judging import Price
from assizes.judge.models.model import (
    ESTIMATED,
    MAX_CALL_TOKENS,
    Completion,
    with_bounded_numbers,
)
from assizes.judge.models.provider_calls import (
    MAX_HINT_S,
    completion_of,
    retry_after_s,
    with_estimates,
)

PRICE = Price(
    input_usd_per_million=2.0, output_usd_per_million=8.0, cached_input_usd_per_million=1.0
)


def response(sent: Any, written: Any, cached: Any = 0) -> Any:
    details = SimpleNamespace(cached_tokens=cached)
    usage = SimpleNamespace(
        prompt_tokens=sent, completion_tokens=written, total_tokens=1, prompt_tokens_details=details
    )
    message = SimpleNamespace(content="four words of text")
    return SimpleNamespace(choices=[SimpleNamespace(message=message)], usage=usage, model="m")


@pytest.mark.parametrize("absurd", [2**63, 10**400, -1, 1.5, float("nan"), "7", True])
@pytest.mark.parametrize("place", ["sent", "written"])
def test_absurd_usage_is_estimated_with_a_warning(
    absurd: Any, place: str, caplog: pytest.LogCaptureFixture
):
    numbers = {"sent": 10, "written": 5} | {place: absurd}
    with caplog.at_level(logging.WARNING):
        completion = completion_of(response(**numbers), "m", PRICE)
    assert "which no call has; its tokens and cost are estimated" in caplog.text
    estimated = with_estimates(completion, 1_000_000, PRICE)
    assert (estimated.input_tokens, estimated.flags) == (1_000_000, (ESTIMATED,))
    assert estimated.cost_usd == pytest.approx(2.0, rel=0.01)  # dollars; the answer is short


@pytest.mark.parametrize("cached", [2**63, -(2**63), "7", float("inf")])
def test_absurd_cached_tokens_make_no_call_cheaper_than_it_can_be(cached: Any):
    cost = completion_of(response(1_000_000, 0, cached), "m", PRICE).cost_usd
    assert cost == 2.0


def test_the_largest_count_is_believed():
    assert completion_of(response(MAX_CALL_TOKENS, 1), "m", PRICE).input_tokens == MAX_CALL_TOKENS


@pytest.mark.parametrize("cost_usd", [float("inf"), float("nan"), -1.0, 1e300])
def test_a_completion_of_an_own_model_or_a_cache_has_no_absurd_number(cost_usd: float):
    bounded = with_bounded_numbers(Completion("", "m", 2**63, -1, cost_usd, float("inf")))
    figures = (bounded.input_tokens, bounded.output_tokens, bounded.cost_usd, bounded.latency_ms)
    assert figures == (None, None, None, 0.0)


@pytest.mark.parametrize(
    "headers",
    [
        {"retry-after": "1e300"},
        {"retry-after-ms": "1e300"},
        {"retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"},
    ],
)
def test_a_pause_of_a_thousand_years_is_a_day(headers: dict[str, str]):
    assert retry_after_s(headers, now=0.0) == MAX_HINT_S
