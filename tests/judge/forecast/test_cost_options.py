"""What a run would cost otherwise: each choice from the volumes of together and apart."""

from __future__ import annotations

import pytest

from assizes.judge.config.judging import Price
from assizes.judge.forecast.cost_options import (
    CONVERSATION,
    SAMPLE_CASES,
    DecidedChoice,
    OptionInputs,
    Volume,
    cost_options,
)
from assizes.judge.forecast.decided import StopEstimate
from tests.judge.engine.test_own_models import Named

SMALL, BIG = Named("small", []), Named("big", [])
SMALL.price = Price(
    input_usd_per_million=1.0, output_usd_per_million=2.0, cached_input_usd_per_million=0.1
)
BIG.price = Price(input_usd_per_million=10.0, output_usd_per_million=20.0)
ONE = Volume(1000, 1_000_000, 500_000, 0, 100_000)


def options(**changes: object) -> dict[str, tuple[int, float | None]]:
    given = {
        "together": {(CONVERSATION, "small"): ONE},
        "apart": {(CONVERSATION, "small"): Volume(9000, 8_000_000, 0, 0, 120_000)},
        "models": {"small": SMALL, "big": BIG},
        "shares": {},
        "due": 1000,
        "batch": False,
        "batched": {"small": 1, "big": 1},
    }
    inputs = OptionInputs(**{**given, **changes})
    return {option.name: (option.calls, option.expected_usd) for option in cost_options(inputs)}


def test_each_choice_has_its_calls_and_its_price():
    assert options() == {
        "configured": (1000, pytest.approx(0.5 + 0.05 + 0.2)),
        "apart": (9000, pytest.approx(8.0 + 0.24)),
        "batch": (1000, pytest.approx((1.0 + 0.2) / 2)),
        "no_provider_cache": (1000, pytest.approx(1.2)),
        "sample": (SAMPLE_CASES, pytest.approx(0.75 * SAMPLE_CASES / 1000)),
    }


def test_a_batch_is_compared_with_single_calls_and_one_metric_has_no_apart():
    found = options(batch=True, apart=None, due=100)
    assert list(found) == ["configured", "single_calls", "no_provider_cache"]
    assert found["single_calls"] == (1000, pytest.approx(0.75))


def test_a_cascade_is_compared_with_each_of_its_models():
    key = (CONVERSATION, "big")
    both = {(CONVERSATION, "small"): ONE, key: Volume(1000, 1_000_000, 0, 0, 100_000)}
    found = options(together=both, apart=None, shares={key: 0.25}, due=100)
    assert found["configured"] == (1250, pytest.approx(0.75 + 12 / 4))
    assert found["first_alone"] == (1000, pytest.approx(0.75))
    assert found["stronger_alone"] == (1000, pytest.approx(12.0))


def test_without_a_price_the_calls_are_told_and_the_cost_is_not():
    bare = Named("small", [])
    bare.price = None
    assert options(models={"small": bare})["configured"] == (1000, None)


def test_a_run_without_calls_has_no_choices():
    assert options(together={(CONVERSATION, "small"): Volume()}) == {}


def test_only_asks_that_go_to_a_batch_have_its_price():
    both = {(CONVERSATION, "small"): ONE, ("other", "big"): Volume(50, 50_000, 0, 0, 5_000)}
    single = 0.05 * 10 + 0.005 * 20
    few = options(together=both, apart=None, batched={"small": 1, "big": 100})
    assert few["batch"] == (1050, pytest.approx(0.6 + single))
    without = options(together=both, apart=None, batched={"small": 1})
    assert without["batch"] == few["batch"]
    assert "batch" not in options(batched={})
    assert "batch" not in options(refuses_batch=True)


def test_a_run_that_could_stop_early_is_beside_the_one_over_all_cases():
    estimate = StopEstimate(median=0.3, low=0.1, high=0.6)
    choice = DecidedChoice(False, 0.1, estimate, "500 cases of night-1")
    found = options(decided=choice)
    assert list(found)[:3] == ["configured", "until_decided", "until_decided_least"]
    assert found["until_decided"] == (300, pytest.approx(0.75 * 0.3))
    assert found["until_decided_least"] == (100, pytest.approx(0.075))


def test_a_run_that_stops_early_has_its_counted_calls_as_the_least_and_the_most():
    choice = DecidedChoice(True, 0.1, StopEstimate(0.5, 0.2, 1.0), "one run", calls=(97, 1003))
    inputs = {"together": {(CONVERSATION, "small"): ONE}, "models": {"small": SMALL}, "shares": {}}
    rows = cost_options(
        OptionInputs(**inputs, apart=None, due=300, batch=False, batched={}, decided=choice)
    )
    most, expected, least = rows[:3]
    assert (most.calls, least.calls, expected.calls) == (1003, 97, 500)
    assert (expected.low_calls, expected.high_calls) == (200, 1000)
    assert "an estimate from one run, 200 to 1,000 calls" in expected.what
    assert "about" not in least.what
