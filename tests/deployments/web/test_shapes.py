"""An item of the list of runs has the verdict that the run's report has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from assizes.deployments.web.schemas import Run
from tests.tasks.reports.sample import Said, run


@pytest.mark.parametrize(
    ("baseline", "outcome", "reasons"),
    [
        (None, "passed", []),
        ("latest", "passed", []),
        ("lost", "undecided", ["no comparison with its baseline lost is stored"]),
    ],
)
def test_a_run_that_names_a_baseline_has_passed_only_beside_it(
    baseline: str | None, outcome: str, reasons: list[str]
):
    alone = run([Said("good", (5, 5))])
    config = {**alone.record.config, "comparison": {"baseline": baseline}}
    named = replace(alone, record=replace(alone.record, config=config))
    verdict = named.data()["verdict"]
    assert (verdict["outcome"], verdict["reasons"]) == (outcome, reasons)
    assert Run.of_row(named.record.row(), "complete", None).verdict == outcome
