"""Each measure against a reference: scikit-learn, or the definition written out as loops."""

from __future__ import annotations

import math
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, cohen_kappa_score, confusion_matrix, f1_score

from assizes.judge.calibration import measures
from assizes.judge.calibration.measures import as_counts, coincidences, confusions

LEVELS = (0.0, 1.0, 2.0, 3.0, 4.0, 5.0)
GRADES = st.sampled_from(LEVELS)
PAIRS = st.lists(st.tuples(GRADES, GRADES), min_size=2, max_size=60)
UNITS = st.lists(st.lists(GRADES, max_size=5), min_size=1, max_size=30)


def table(pairs, levels=LEVELS):
    return confusions([(str(n), *pair) for n, pair in enumerate(pairs)], levels).whole


def krippendorff(units, *, ordinal: bool) -> float:
    """By the definition: disagreement of pairs within units over that of all pairs of values."""
    units = [unit for unit in units if len(unit) > 1]
    values = [grade for unit in units for grade in unit]
    times = Counter(values)

    def square(one: float, other: float) -> float:
        if one == other or not ordinal:
            return float(one != other)
        low, high = sorted((one, other))
        between = sum(n for grade, n in times.items() if low <= grade <= high)
        return (between - (times[low] + times[high]) / 2) ** 2

    n = len(values)
    observed = sum(
        sum(square(*pair) for pair in permutations(unit, 2)) / (len(unit) - 1) for unit in units
    )
    expected = sum(
        times[one] * times[other] * square(one, other) for one in times for other in times
    )
    return 1 - (n - 1) * observed / expected if expected else math.nan


@given(PAIRS)
def test_kappa_plain_and_quadratic_are_those_of_a_well_known_library(pairs):
    people, judge = zip(*pairs, strict=True)
    whole = table(pairs)
    assert measures.accuracy(whole) == pytest.approx(accuracy_score(people, judge), abs=1e-9)
    if len({*people, *judge}) < 2:
        assert math.isnan(measures.kappa(whole))
        return
    names = [str(grade) for grade in people], [str(grade) for grade in judge]
    assert measures.kappa(whole) == pytest.approx(cohen_kappa_score(*names), abs=1e-9)
    known = cohen_kappa_score(*names, weights="quadratic", labels=[str(one) for one in LEVELS])
    assert measures.quadratic_kappa(LEVELS)(whole) == pytest.approx(known, abs=1e-9)


@given(PAIRS)
def test_the_confusion_matrix_has_a_row_for_each_grade_of_people(pairs):
    people, judge = zip(*pairs, strict=True)
    names = [str(grade) for grade in people], [str(grade) for grade in judge]
    known = confusion_matrix(*names, labels=[str(one) for one in LEVELS])
    assert as_counts(table(pairs)) == known.tolist()


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60))
def test_the_numbers_of_the_failing_class_have_fail_as_their_finding(pairs):
    people, judge = zip(*pairs, strict=True)
    whole = table([(float(one), float(other)) for one, other in pairs], (0.0, 1.0))
    failed = ([not one for one in people], [not one for one in judge])
    if any(failed[0]) or any(failed[1]):
        assert measures.f1(whole) == pytest.approx(f1_score(*failed), abs=1e-9)
    tn, fp, fn, tp = confusion_matrix(*failed, labels=[False, True]).ravel().tolist()
    if tn + fp:
        assert measures.false_positive_rate(whole) == pytest.approx(fp / (tn + fp), abs=1e-9)
    if tp + fn:
        assert measures.false_negative_rate(whole) == pytest.approx(fn / (tp + fn), abs=1e-9)


@pytest.mark.parametrize("distance", ["ordinal", "nominal"])
@given(units=UNITS)
def test_alpha_is_its_definition_written_out(distance, units):
    whole = coincidences([("c", unit) for unit in units], LEVELS).whole
    known = krippendorff(units, ordinal=distance == "ordinal")
    found = float(measures.alpha(distance)(whole))
    assert found == pytest.approx(known, abs=1e-9, nan_ok=True)


def test_alpha_of_the_example_of_its_author():
    """Krippendorff 2011, 'Computing Krippendorff's alpha-reliability', section D: four observers."""
    a, b, c, d = (
        [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    )
    units = [[g for g in unit if g is not None] for unit in zip(a, b, c, d, strict=True)]
    whole = coincidences([("c", unit) for unit in units], (1, 2, 3, 4, 5)).whole
    assert measures.alpha("nominal")(whole) == pytest.approx(0.743, abs=5e-4)
    assert measures.alpha("ordinal")(whole) == pytest.approx(0.815, abs=5e-4)


def test_a_measure_takes_many_tables_at_once():
    stack = np.stack([table([(0, 0), (1, 1)]), table([(0, 1), (1, 1)])])
    assert measures.accuracy(stack).tolist() == [1.0, 0.5]
    assert measures.kappa(stack).tolist() == [1.0, 0.0]
