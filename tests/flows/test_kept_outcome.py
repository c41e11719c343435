"""The result of a finished subflow, as Prefect returns it to a flow run that is retried."""

from __future__ import annotations

import json

from assizes.flows.outcome import RunOutcome, parse_outcome
from assizes.judge.comparison.compare import compare
from assizes.judge.errors import Inconclusive
from tests.tasks.reports.sample import Said, config, run


def test_an_outcome_that_was_kept_as_json_is_the_same_outcome():
    before = run([Said("a", (5, 5)), Said("b", (5, 4))])
    after = run([Said("a", (1, 1), done=False), Said("b", (5, 4))], run_id="nightly-bbbbbbbbbbbb")
    found = RunOutcome(
        run_id=after.record.run_id,
        judge_model=after.record.judge_model,
        conclusion="Regression",
        exit_code=1,
        reasons=["it fell"],
        summary=after.summary,
        comparison=compare(before.side(), after.side(), config().comparison),
        reports={"html": "reports/report.html"},
    )
    assert parse_outcome(json.loads(found.model_dump_json())) == found
    assert parse_outcome(found) is found


def test_an_error_stays_an_error():
    error = Inconclusive("nothing to judge")
    assert parse_outcome(error) is error
