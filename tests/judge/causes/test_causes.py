"""Failures become causes by what judges say about them; a cause is known again in later runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest

from assizes.judge.causes import grouping
from assizes.judge.causes.failures import FAILURES, failures
from assizes.judge.causes.identity import LEAST_CASES, find_causes
from assizes.judge.causes.naming import cause_name, typical_failures
from assizes.judge.causes.reason_space import reasons
from assizes.judge.rows import SCORES, frame

REFUND = (
    "A refund was promised although the policy allows no refund.",
    "The agent promised a refund that the policy forbids.",
    "No refund is due by the policy, and the agent promised one.",
    "The policy excludes the refund which the agent promised.",
)
TONE = (
    "The tone of the reply is rude.",
    "A rude and impatient tone.",
    "The agent answers in a rude tone.",
    "The tone is harsh and rude throughout.",
)
TOTAL = (
    "The sum of the prices is wrong.",
    "The agent computes a wrong sum of prices.",
    "The prices do not add up to the sum given.",
    "A wrong sum: the prices were added up incorrectly.",
)


def failed(texts: Sequence[str], first: int = 0, **changed: Any) -> pl.DataFrame:
    """A failure with each of these reasons, in as many cases."""
    rows = [
        {"case_id": f"c{first + n:05d}", "repetition": 0, "metric": "accuracy", "reason": text}
        | {"code": None, "points": 10.0}
        | changed
        for n, text in enumerate(texts)
    ]
    return pl.DataFrame(rows, schema=FAILURES, orient="row")


KNOWN = {**FAILURES, "cause_id": pl.String}
NOTHING_KNOWN = pl.DataFrame(schema=KNOWN)


def groups(rows: pl.DataFrame, known: pl.DataFrame = NOTHING_KNOWN) -> list[set[str]]:
    """The case ids of each cause."""
    found = find_causes(rows, known, "run-1").failures.drop_nulls("cause_id")
    return sorted(
        (set(group["case_id"]) for group in found.partition_by("cause_id")),
        key=min,
    )


def ids(first: int, count: int) -> set[str]:
    return {f"c{number:05d}" for number in range(first, first + count)}


def test_reasons_that_say_the_same_are_one_cause_in_any_order():
    rows = pl.concat([failed(REFUND), failed(TONE, 4), failed(TOTAL, 8)])
    expected = [ids(0, 4), ids(4, 4), ids(8, 4)]
    assert groups(rows) == expected
    shuffled = rows.sample(fraction=1, shuffle=True, seed=3)
    assert groups(shuffled) == expected
    named = find_causes(rows, NOTHING_KNOWN, "run-1").failures
    again = find_causes(shuffled, NOTHING_KNOWN, "run-1").failures
    assert again.sort("case_id").equals(named.sort("case_id"))


def test_no_failures_and_reasons_without_words_have_no_cause():
    assert find_causes(failed([]), NOTHING_KNOWN, "run-1").failures.height == 0
    assert groups(failed(["...", "!!!", "12", "34", "56"])) == []


def test_one_reason_word_for_word_in_many_cases_is_a_cause():
    assert groups(failed(["It timed out."] * LEAST_CASES)) == [ids(0, LEAST_CASES)]
    assert groups(failed(["It timed out."] * (LEAST_CASES - 1))) == []
    one_case = failed(["It timed out."] * LEAST_CASES, case_id="c1")
    assert groups(one_case) == []


def test_what_a_reason_quotes_and_its_numbers_do_not_count():
    said = '"please cancel my booking to New York and tell me the price"'
    quoting = [f"The user said: {said}. {text}" for text in (*REFUND, *TONE)]
    assert groups(failed(quoting)) == [ids(0, 4), ids(4, 4)]
    numbered = [f"Order {n} {n}{n}: rude tone" for n in range(3)]
    assert groups(failed([*numbered, *TOTAL])) == [ids(0, 3), ids(3, 4)]


def test_failures_without_words_are_grouped_by_their_code():
    rows = pl.concat([failed([""] * 4, code="tool_never_called"), failed(TONE, 4)])
    assert groups(rows) == [ids(0, 4), ids(4, 4)]


def test_reasons_in_chinese_are_grouped_without_blanks():
    refund = [
        "客服承诺退款但政策不允许退款",
        "政策不允许退款 客服却承诺退款",
        "客服违反政策承诺退款",
    ]
    tone = ["客服语气粗鲁 态度很差", "语气粗鲁", "回答的语气非常粗鲁 态度差"]
    assert groups(failed([*refund, *tone])) == [ids(0, 3), ids(3, 3)]


def test_of_many_reasons_a_sample_is_linked_and_the_others_are_placed(
    monkeypatch: pytest.MonkeyPatch,
):
    many = [f"{text} {word}." for text in (*REFUND, *TONE, *TOTAL) for word in "abcdefghij"]
    whole = groups(failed(many))
    assert whole == [ids(0, 40), ids(40, 40), ids(80, 40)]
    monkeypatch.setattr(grouping, "SAMPLE", 30)
    assert groups(failed(many)) == whole


def known_as(texts: Sequence[str], cause: str) -> pl.DataFrame:
    return failed(texts, 900).with_columns(pl.lit(cause).alias("cause_id"))


def test_a_known_cause_keeps_its_id_and_another_gets_a_new_one():
    known = known_as(REFUND, "known")
    found = find_causes(pl.concat([failed(REFUND[:2]), failed(TONE, 2)]), known, "run-2").failures
    assert found["cause_id"].to_list()[:2] == ["known", "known"]  # two cases are enough for it
    (new,) = set(found["cause_id"][2:])
    assert new not in (None, "known")


def test_two_known_causes_that_say_the_same_become_the_older_one():
    known = pl.concat([known_as(REFUND[:2], "older"), known_as(REFUND[2:], "younger")])
    found = find_causes(failed(REFUND), known, "run-3")
    assert set(found.failures["cause_id"]) == {"older"}
    assert found.merged == {"younger": "older"}


def test_causes_that_are_nearly_one_are_pairs_the_older_one_first():
    near = ["The policy was quoted in a wrong way.", "A wrong policy was quoted."]
    known = pl.concat(
        [known_as(REFUND, "refund"), known_as(TOTAL, "total"), known_as(near, "near")]
    )
    assert grouping.near_pairs(known) == [("total", "near")]
    assert grouping.near_pairs(known.clear()) == []


def test_a_name_is_of_few_words_that_set_a_cause_apart():
    own, others = (reasons(failed(texts))["text"].to_list() for texts in (TONE, REFUND))
    name = cause_name(own, others)
    assert {"rude", "tone"} & set(name.split())
    assert 1 <= len(name.split()) <= 5
    other = cause_name(own, others, {name})
    assert other != name
    assert cause_name([], []) == "unnamed"
    assert cause_name([], [], {"unnamed"}) == "unnamed 2"


def test_the_most_typical_failure_comes_first():
    odd = "A rude word about the weather in a long story of many other things that nobody said."
    order = typical_failures(failed([odd, *TONE]))["reason"].to_list()
    assert order[-1] == odd
    assert sorted(order) == sorted([odd, *TONE])


@dataclass
class Row:
    """A score row, as far as failures go by it."""

    case_id: str = "a"
    metric: str = "accuracy"
    part: str = ""
    passed: bool | None = False
    status: str = "scored"
    reason: str | None = "why"
    failure_code: str | None = None
    details: str = "{}"
    value: float = 0.25
    weight: float | None = 0.4


def of_scores(*rows: Row) -> list[dict[str, Any]]:
    full = [
        dict.fromkeys(SCORES) | {"run_id": "r", "judge": "j", "repetition": 0} | vars(row)
        for row in rows
    ]
    return failures(frame("scores", full).lazy()).to_dicts()


def test_a_failed_score_is_a_failure_with_its_points():
    (row,) = of_scores(
        Row(failure_code="x"),
        Row("b", passed=True),
        Row("c", passed=None),
        Row("d", status="failed"),
    )
    assert row == {
        **{"case_id": "a", "repetition": 0, "metric": "accuracy", "reason": "why", "code": "x"},
        "points": pytest.approx(0.75 * 0.4 * 100),
    }


def test_an_explanation_in_the_details_takes_the_place_of_a_reason():
    (row,) = of_scores(Row(reason=None, details='{"justification":"it is late"}'))
    assert row["reason"] == "it is late"


def test_parts_stand_for_a_metric_that_says_nothing_itself():
    told = '{"justification":"never told"}'
    rows = of_scores(
        Row(reason=None),
        Row(part="outcome:0", reason=None, details=told),
        Row(part="outcome:1", passed=True, reason=None),
        Row("b", reason="late"),
        Row("b", part="outcome:0", reason="a part that the metric speaks for"),
        Row("c", part="chunk:0", reason="a part of a metric that passed"),
        Row("d", reason=None),
    )
    assert [(row["case_id"], row["reason"]) for row in rows] == [("a", "never told"), ("b", "late")]
