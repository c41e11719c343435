"""Codes of people and of the judge are compared by Cohen's kappa, code by code."""

from __future__ import annotations

import pytest

from assizes.judge.calibration.code_agreement import CodeCounts, CodedItem, code_agreement


def items(*pairs: tuple[str, str, int]) -> list[CodedItem]:
    rows = [(people, judge) for people, judge, times in pairs for _ in range(times)]
    return [CodedItem(f"c{n}", people, judge) for n, (people, judge) in enumerate(rows)]


def test_kappa_is_that_of_the_confusion_of_codes():
    found = code_agreement(items(("a", "a", 20), ("a", "b", 5), ("b", "a", 10), ("b", "b", 15)))
    assert (found.items, found.accuracy.value) == (50, 0.7)
    assert found.kappa.value == pytest.approx(0.4)  # expected by chance: 0.5
    assert found.kappa.low is not None
    assert found.kappa.low < 0.4 < (found.kappa.high or 0)
    assert found.codes == (CodeCounts("a", 25, 30, 20), CodeCounts("b", 25, 20, 15))


def test_one_code_alone_has_no_kappa():
    found = code_agreement(items(("a", "a", 3)))
    assert (found.accuracy.value, found.kappa.value) == (1.0, None)
