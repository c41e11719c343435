"""The pass rate by the judge's error rates beside the corrected one."""

from __future__ import annotations

from dataclasses import replace

import polars as pl
import pytest

from assizes.judge.labels.corrected import JudgedCase, LabelledRun, corrected_number
from assizes.judge.labels.rate_check import judge_errors, rate_by_errors, rate_check

SCHEMA = {
    **dict.fromkeys(("run_id", "case_id", "metric"), pl.String),
    "repetition": pl.Int32,
    **dict.fromkeys(("value", "probability"), pl.Float64),
}


def labelled(labels: dict[int, float], chance: float = 0.5) -> LabelledRun:
    judged = [JudgedCase(f"c{n}", 0, None, float(n % 4 != 0)) for n in range(200)]
    rows = [
        {"run_id": "a", "case_id": f"c{n}", "metric": "verdict", "repetition": 0}
        | {"value": value, "probability": chance}
        for n, value in labels.items()
    ]
    return LabelledRun.of("a", "verdict", judged, pl.DataFrame(rows, SCHEMA))


def test_a_sample_gives_both_numbers_and_they_agree():
    run = labelled({n: float(n % 4 != 0 and n % 10 != 1) for n in range(0, 200, 2)})
    check = rate_check(run, corrected_number(run, share=True).estimate)
    assert check.agrees
    assert check.low <= check.value <= check.high
    assert "which agrees" in check.sentence()


def test_intervals_that_do_not_meet_are_a_disagreement_and_it_is_said():
    run = labelled({n: float(n % 4 != 0 and n % 10 != 1) for n in range(0, 200, 2)})
    far = replace(corrected_number(run, share=True).estimate, value=0.2, low=0.1, high=0.3)
    check = rate_check(run, far)
    assert not check.agrees
    assert "DISAGREES beyond both intervals" in check.sentence()


def test_error_rates_weigh_each_label_by_its_chance():
    run = labelled({n: float(n % 4 != 0) for n in range(40)})
    errors = judge_errors(run)
    assert (errors.passes, errors.passes_right, errors.fails, errors.fails_right) == (
        30,
        30,
        10,
        10,
    )
    assert rate_by_errors(run, errors).value == pytest.approx(0.75)


def test_one_kind_of_label_gives_no_check():
    run = labelled(dict.fromkeys(range(40), 1.0))
    assert rate_check(run, corrected_number(run, share=True).estimate) is None
