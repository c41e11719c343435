from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, cohen_kappa_score, confusion_matrix, f1_score

from assizes.judge.calibration.measures import YesNoAgreement, yes_no_agreement

SEED = YesNoAgreement(true_positives=40, false_positives=10, false_negatives=5, true_negatives=45)


@pytest.mark.parametrize(
    ("number", "value"),
    [
        pytest.param("kappa", 0.7, marks=pytest.mark.row("004-86")),
        pytest.param("accuracy", 0.85, marks=pytest.mark.row("004-87")),
        pytest.param("f1", 0.842105263, marks=pytest.mark.row("004-88")),
        pytest.param("false_positive_rate", 0.181818182, marks=pytest.mark.row("004-89")),
        pytest.param("false_negative_rate", 0.111111111, marks=pytest.mark.row("004-90")),
    ],
)
def test_the_five_numbers_of_the_example(number: str, value: float):
    assert getattr(SEED, number) == value


@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1))
def test_the_numbers_are_those_of_a_well_known_library(pairs: list[tuple[bool, bool]]):
    found = yes_no_agreement(pairs)
    judged, true = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    tn, fp, fn, tp = confusion_matrix(true, judged, labels=[False, True]).ravel().tolist()
    assert (found.true_positives, found.false_positives) == (tp, fp)
    assert (found.false_negatives, found.true_negatives) == (fn, tn)
    assert found.total == len(pairs)
    assert found.accuracy == pytest.approx(accuracy_score(true, judged), abs=1e-9)
    if tp + fp + fn:
        assert found.f1 == pytest.approx(f1_score(true, judged), abs=1e-9)
    if len({*judged, *true}) == 2:
        assert found.kappa == pytest.approx(cohen_kappa_score(true, judged), abs=1e-9)


def test_a_number_without_a_denominator_is_null():
    nothing = yes_no_agreement([])
    assert (nothing.accuracy, nothing.kappa, nothing.f1) == (None, None, None)
    assert (nothing.false_positive_rate, nothing.false_negative_rate) == (None, None)
    assert yes_no_agreement([(True, True)]).kappa is None
