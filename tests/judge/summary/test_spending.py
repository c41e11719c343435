from __future__ import annotations

import pytest

from assizes.judge.summary.spending import JudgeSpending, ModelCalls
from tests.judge.run_frames import ask_row, case_row, outcomes, summary_of


@pytest.mark.row("001-50")
def test_judge_tokens_and_cost_are_summed_over_paid_asks():
    asks = [
        ask_row("a"),
        ask_row("b", cached=True),
        ask_row("c", error="rate_limited: x", input_tokens=0, output_tokens=0, cost_usd=0.0),
        ask_row("d", error="rate_limited: x", attempts=0, cost_usd=0.0),
    ]
    summary = summary_of(outcomes(1), asks=asks)
    assert summary.total_platform_token_usage == {"input": 700, "output": 300, "total": 1000}
    assert summary.total_platform_cost_usd == 0.01
    assert summary.model_calls == ModelCalls(asks=4, cached=1, unanswered=2, attempts=3)


@pytest.mark.row("001-50")
def test_a_call_that_may_have_been_charged_makes_the_cost_null_whatever_came_of_it():
    lost = ask_row("b", error="timeout: late", attempts=2, input_tokens=None, cost_usd=None)
    summary = summary_of(outcomes(2), asks=[ask_row("a"), lost])
    assert summary.total_platform_cost_usd is None
    assert summary.judges["conversation"].cost_usd is None


def test_an_outage_in_which_every_call_was_turned_away_costs_nothing():
    away = {"error": "rate_limited: x", "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0}
    summary = summary_of(outcomes(2), asks=[ask_row("a", **away), ask_row("b", **away)])
    assert summary.total_platform_token_usage == {"input": 0, "output": 0, "total": 0}
    assert summary.total_platform_cost_usd == 0.0


def test_a_call_turned_away_does_not_make_tokens_known_that_nobody_metered():
    away = {"error": "rate_limited: x", "input_tokens": 0, "output_tokens": 0, "cost_usd": 0.0}
    unmetered = ask_row("a", input_tokens=None, output_tokens=None)
    asks = [unmetered, ask_row("b", **away)]
    assert summary_of(outcomes(2), asks=asks).total_platform_token_usage is None


def test_a_failure_shared_with_the_same_ask_in_flight_is_counted_once():
    paid = ask_row("a", error="truncated_output: cut off")
    shared = ask_row("b", error="truncated_output: cut off", attempts=0, cost_usd=0.0)
    summary = summary_of(outcomes(2), asks=[paid, shared])
    assert summary.total_platform_token_usage == {"input": 700, "output": 300, "total": 1000}
    assert summary.total_platform_cost_usd == 0.01


@pytest.mark.row("001-50")
def test_an_unknown_price_makes_the_cost_null_not_zero():
    asks = [ask_row("a"), ask_row("b", cost_usd=None)]
    summary = summary_of([case_row("a", agent_cost_usd=0.5)], asks=asks)
    assert summary.total_platform_cost_usd is None
    assert summary.total_estimated_cost_usd is None
    assert summary.total_platform_token_usage == {"input": 1400, "output": 600, "total": 2000}


def test_tokens_that_no_provider_metered_are_null_and_nothing_asked_is_zero():
    unmetered = ask_row("a", input_tokens=None, output_tokens=None)
    assert summary_of(outcomes(1), asks=[unmetered]).total_platform_token_usage is None
    nothing = summary_of(outcomes(1))
    assert nothing.total_platform_token_usage == {"input": 0, "output": 0, "total": 0}
    assert nothing.total_platform_cost_usd == 0.0


def test_agent_tokens_and_cost_are_summed_over_the_cases_that_recorded_them():
    cases = [
        case_row(
            "a",
            agent_tokens=120,
            agent_input_tokens=100,
            agent_output_tokens=20,
            agent_cost_usd=0.1,
        ),
        case_row("b", agent_input_tokens=200, agent_output_tokens=30, agent_cost_usd=0.2),
        case_row("c"),
    ]
    summary = summary_of(cases, asks=[ask_row("a")])
    assert summary.total_agent_token_usage == {"input": 300, "output": 50, "total": 350}
    assert summary.total_agent_cost_usd == 0.3
    assert summary.total_estimated_cost_usd == 0.31


def test_agent_tokens_and_cost_that_nobody_recorded_are_null():
    summary = summary_of(outcomes(2), asks=[ask_row("a")])
    assert summary.total_agent_token_usage is None
    assert summary.total_agent_cost_usd is None
    assert summary.total_estimated_cost_usd is None


def test_a_total_without_its_parts_is_reported_without_them():
    assert summary_of([case_row("a", agent_tokens=7)]).total_agent_token_usage == {"total": 7}


def test_what_each_judge_asked_is_summed_up_on_its_own():
    asks = [
        ask_row("a", judge="sql", cost_usd=0.02, attempts=2),
        ask_row("b", judge="sql", cached=True, cost_usd=0.0, attempts=0),
        ask_row("a", judge="safety", cost_usd=None),
        ask_row("a", judge="local", input_tokens=None, output_tokens=None),
    ]
    summary = summary_of(outcomes(1), asks=asks)
    assert summary.judges == {
        "local": JudgeSpending(
            asks=1, cached=0, calls=1, input_tokens=None, output_tokens=None, cost_usd=0.01
        ),
        "safety": JudgeSpending(
            asks=1, cached=0, calls=1, input_tokens=700, output_tokens=300, cost_usd=None
        ),
        "sql": JudgeSpending(
            asks=2, cached=1, calls=2, input_tokens=700, output_tokens=300, cost_usd=0.02
        ),
    }
    assert sum(one.asks for one in summary.judges.values()) == summary.model_calls.asks


def test_a_run_whose_judges_asked_nothing_has_nothing_to_split():
    assert summary_of(outcomes(1)).judges == {}
