"""Which labels count for the numbers of a run, and the numbers."""

from __future__ import annotations

import polars as pl
import pytest

from assizes.judge.labels import corrected
from assizes.judge.labels.corrected import (
    JudgedCase,
    LabelledRun,
    corrected_change,
    corrected_number,
)

SCHEMA = {
    **dict.fromkeys(("run_id", "case_id", "metric"), pl.String),
    "repetition": pl.Int32,
    **dict.fromkeys(("value", "probability"), pl.Float64),
}


def settled(*rows):
    return pl.DataFrame([{"metric": "verdict", "repetition": 0, **row} for row in rows], SCHEMA)


def label(number, value=None, **rest):
    good = float(number % 4 != 0) if value is None else value
    return {"run_id": "a", "case_id": f"c{number}", "value": good, "probability": 0.3, **rest}


def judged(count=100):
    half = ("even", "odd")
    return [JudgedCase(f"c{n}", 0, None, float(n % 5 != 0), (half[n % 2],)) for n in range(count)]


def test_labels_that_do_not_count_are_named_with_the_reason():
    rows = [
        *map(label, range(30)),
        label(40, run_id="b"),
        label(41, probability=None),
        {**label(42), "value": None},
        label(999),
        label(43, probability=0.0),
        label(44, metric="other"),
    ]
    number = corrected_number(LabelledRun.of("a", "verdict", judged(), settled(*rows)), share=True)
    assert number.labels == 30
    reasons = (corrected.OTHER_RUN, corrected.BY_HAND, corrected.DISPUTED, corrected.NO_CASE)
    assert number.left_out == dict.fromkeys((*reasons, corrected.BAD_CHANCE), 1)
    assert number.raw == 0.8
    assert number.estimate.labels == 30
    assert number.estimate.low < 0.75 < number.estimate.high
    assert set(number.slices) == {"even", "odd"}
    assert number.why_not is None


def test_too_few_labels_give_no_number_and_say_so():
    run = LabelledRun.of("a", "verdict", judged(), settled(*map(label, range(5))))
    number = corrected_number(run, share=True)
    assert (number.estimate, number.slices) == (None, {})
    assert number.why_not == "5 labels count; labels in 10 clusters are needed"


def test_repetitions_of_a_case_are_one_cluster():
    cases = [JudgedCase(f"c{n}", r, None, None) for n in range(5) for r in range(4)]
    rows = [label(n, 1.0, repetition=r) for n in range(5) for r in range(4)]
    run = LabelledRun.of("a", "verdict", cases, settled(*rows))
    number = corrected_number(run, share=True)
    assert (number.labels, number.estimate, number.raw) == (20, None, None)


def test_each_run_of_a_difference_has_labels_of_its_own():
    rows = [*map(label, range(40)), *(label(n, 1.0, run_id="b") for n in range(40))]
    before, after = (LabelledRun.of(r, "verdict", judged(), settled(*rows)) for r in "ab")
    change = corrected_change(before, after, share=True)
    assert change.value == pytest.approx(0.25, abs=0.02)
    assert change.low > 0
