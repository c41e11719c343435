"""A run whose baseline was judged by another judge has a conclusion and exit code of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.flows.compare import compare_runs
from tests.flows.test_evaluate import config, outcome_of, state_of, written

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.mark.full
async def test_a_run_judged_otherwise_than_its_baseline_ends_as_not_comparable(tmp_path: Path):
    uri = written(tmp_path / "t.jsonl", sample_cases()[:4])
    await outcome_of(config(tmp_path, uri), run_id="before")
    wanted = config(
        tmp_path, uri, judge={"pass_threshold": 40.0}, comparison={"baseline": "before"}
    )
    state = await state_of(wanted, run_id="after")
    outcome = await state.aresult(raise_on_failure=False)
    assert (state.type.value, state.name) == ("FAILED", "NotComparable")
    assert (outcome.conclusion, outcome.exit_code) == ("NotComparable", 3)
    assert outcome.reasons[0] == "judge.pass_threshold: 75.0 -> 40.0"
    report = Path(outcome.reports["md"]).read_text("utf-8")
    assert "## NOT COMPARABLE" in report
    again = await compare_runs("before", "after", wanted.store, return_state=True)
    assert (again.type.value, again.name) == ("FAILED", "NotComparable")
    allowed = config(tmp_path, uri, comparison={"allow": True}).comparison
    told = await compare_runs("before", "after", wanted.store, allowed, return_state=True)
    assert told.name in ("NoRegression", "Regression")
