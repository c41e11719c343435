"""What is told of a run, by its end."""

from __future__ import annotations

import pytest

from judge.compare import Ending
from judge.summary import Outcome
from tasks.publishing import event_names


@pytest.mark.parametrize(
    ("status", "outcome", "ending", "told"),
    [
        ("complete", "passed", "fine", []),
        ("complete", "failed", "fine", ["assizes.run.failed"]),
        ("complete", "passed", "not_comparable", ["assizes.run.failed"]),
        ("incomplete", "passed", "fine", ["assizes.run.failed"]),
        ("complete", "inconclusive", "fine", ["assizes.run.inconclusive"]),
        ("complete", "passed", "inconclusive", ["assizes.run.inconclusive"]),
        ("complete", "passed", "regressed", ["assizes.regression.detected"]),
        ("complete", "failed", "regressed", ["assizes.regression.detected"]),
    ],
)
def test_every_end_but_a_pass_has_one_event_of_its_own(
    status: str, outcome: Outcome, ending: Ending, told: list[str]
):
    assert event_names(status, outcome, ending) == ["assizes.run.finished", *told]
