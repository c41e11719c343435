"""What a summary warns of: a judge that changed, retries that favour, figures nobody metered."""

from __future__ import annotations

from typing import Any

import pytest

from assizes.judge.engine.ledger import Account
from assizes.judge.summary.run_summary import run_metrics
from assizes.judge.summary.spending import cautions
from assizes.judge.summary.summary import with_ledger
from tests.judge.run_frames import ask_row, case_row, lazy, run_of, summary_of

ANSWERED = {"model": "openai/m", "answered_by": "m-2026"}


def said(cases: list[dict[str, Any]], asks: list[dict[str, Any]]) -> tuple[str, ...]:
    return cautions(lazy("cases", cases), lazy("asks", asks))


def half_retried(passed: int, of: int, others: int, of_others: int):
    """Cases of which some took two calls, and how many of each kind pass."""
    sides = {"retried": (2, passed, of), "plain": (1, others, of_others)}
    cases, asks = [], []
    for name, (attempts, good, count) in sides.items():
        for number in range(count):
            case_id = f"{name}-{number:03}"
            cases.append(case_row(case_id, number < good))
            asks.append(ask_row(case_id, attempts=attempts, **ANSWERED))
    return cases, asks


def test_a_clean_run_warns_of_nothing():
    asks = [ask_row(name, **ANSWERED, fingerprint="fp", flags=["repaired"]) for name in "abc"]
    assert said([case_row(name) for name in "abc"], asks) == ()
    assert said([], []) == ()


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("answered_by", "was answered by one, two"),
        ("fingerprint", "answered under the system fingerprints one, two"),
    ],
)
def test_a_judge_that_changes_during_a_run_is_mixed(column: str, words: str):
    asks = [
        ask_row("a", model="openai/m", **{column: "two"}),
        ask_row("b", model="openai/m", **{column: "one"}, cached=True),
        ask_row("c", model="openai/other", **{column: "three"}),
        ask_row("d", model="openai/m", **{column: "lost"}, error="timeout: late"),
        ask_row("e", model="openai/m", **{column: None}),
    ]
    line = f"mixed_judge: openai/m {words}; its scores are not those of one judge"
    assert said([], asks) == (line,)


def test_many_names_are_cut():
    asks = [ask_row(f"c{n}", model="m", answered_by=f"m-{n}") for n in range(9)]
    assert "m-0, m-1, m-2, m-3, m-4 and 4 more; " in said([], asks)[0]


def test_a_comparison_with_a_mixed_side_says_so():
    from assizes.judge.comparison.compare import compare
    from assizes.judge.config.gates import ComparisonConfig

    mixed = [ask_row("a", model="m", answered_by="one"), ask_row("b", model="m", answered_by="two")]
    cases = [case_row("a"), case_row("b")]
    plain = run_of(cases, run_id="x")
    other = run_of(cases, run_id="y", summary=summary_of(cases, asks=mixed))
    found = compare(plain, other, ComparisonConfig())
    assert any(line.startswith("the candidate run: mixed_judge: m ") for line in found.warnings)


@pytest.mark.parametrize(
    ("counts", "warned"),
    [
        ((5, 40, 90, 100), True),
        ((38, 40, 50, 100), True),
        ((36, 40, 90, 100), False),
        ((1, 19, 90, 100), False),
        ((10, 40, 2, 19), False),
    ],
)
def test_retries_that_succeed_on_one_class_of_inputs_are_told(counts, warned: bool):
    found = said(*half_retried(*counts))
    assert bool(found) is warned
    if warned:
        passed, of, others, of_others = counts
        assert found[0].startswith(
            f"retries: of the cases that took retries {passed} of {of} pass, of the others "
            f"{others} of {of_others} (Fisher's exact test, p = "
        )


def test_cases_whose_asks_were_all_kept_say_nothing_about_retries():
    cases, asks = half_retried(5, 40, 90, 100)
    free = [ask | {"attempts": 0, "cached": True} if ask["attempts"] == 1 else ask for ask in asks]
    assert said(cases, free) == ()


def test_what_was_estimated_left_out_or_missed_is_counted():
    asks = [
        ask_row("a", **ANSWERED, cost_source="estimated", flags=["dropped:temperature"]),
        ask_row("b", **ANSWERED, cost_source="priced", flags=["dropped:temperature", "repaired"]),
        ask_row("c", **ANSWERED, cost_source="estimated", cached=True),
        ask_row("d", model="openai/m", error="not_cached: no reply is kept", attempts=1),
    ]
    assert said([], asks) == (
        "estimated_tokens: 1 of 3 paid asks not metered; their tokens and cost are estimated",
        "dropped_parameter: openai/m does not take temperature; 2 asks went without it",
        "not_cached: no reply is kept for 1 ask, and none was asked for (replay_only)",
    )


def test_the_share_of_estimated_dollars_is_that_of_the_paid_ones():
    asks = [
        ask_row("a", cost_usd=0.03, cost_source="estimated"),
        ask_row("b", cost_usd=0.01, cost_source="priced"),
        ask_row("c", cost_usd=0.9, cost_source="estimated", cached=True),
    ]
    assert summary_of([case_row("a")], asks=asks).cost_estimated == 0.75
    assert summary_of([case_row("a")], asks=asks[1:2]).cost_estimated is None


def test_what_a_run_paid_and_no_row_holds_is_the_difference():
    asks = [ask_row("a", cost_usd=0.25), ask_row("b", cost_usd=None), ask_row("c", cached=True)]
    summary = summary_of([case_row("a")], asks=asks)
    whole = with_ledger(summary, Account(5, 0.4), lazy("asks", asks))
    assert (whole.spent_usd, whole.spent_outside_rows_usd) == (0.4, 0.15)
    unpriced = with_ledger(summary, Account(5, 0.4, unpriced=1), lazy("asks", asks))
    assert (unpriced.spent_usd, unpriced.spent_outside_rows_usd) == (None, None)
    elsewhere = with_ledger(summary, Account(1, 0.1), lazy("asks", asks))
    assert elsewhere.spent_usd is None  # other machines counted calls in ledgers of their own


def test_a_run_that_was_stopped_before_a_row_of_unknown_price_has_no_cost():
    stopped = summary_of([], intake={"read": 1, "not_attempted": 1})
    free = with_ledger(stopped, Account(0, 0.0), lazy("asks", []))
    assert (free.total_platform_cost_usd, free.spent_usd) == (0.0, 0.0)
    unpriced = with_ledger(stopped, Account(3, 0.0, unpriced=3), lazy("asks", []))
    assert (unpriced.total_platform_cost_usd, unpriced.spent_usd) == (None, None)
    assert not {"total_platform_cost_usd", "spent_usd"} & run_metrics(unpriced).keys()
