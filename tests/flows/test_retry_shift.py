"""Matrix L, row L21: retries that succeed on one class of inputs, through a whole run over HTTP."""

from __future__ import annotations

from pathlib import Path

import pytest

from assizes.judge.config.run import RunConfig
from assizes.judge.summary.spending import MIN_CASES
from tests.builders import agent, case, user
from tests.doubles.fixtures import OpenAIServer
from tests.flows.test_evaluate import config, outcome_of, written

pytestmark = pytest.mark.usefixtures("prefect_server")


def wanted(folder: Path, server: OpenAIServer, model: str) -> RunConfig:
    kinds = ("hard case", "plain case")
    cases = [
        case(user(f"a {kind}, number {n}"), agent("done"), case_id=f"{kind[:4]}-{n}")
        for kind in kinds
        for n in range(MIN_CASES)
    ]
    judge = {"model": f"openai/{model}", "api_base": server.api_base}
    return config(folder, written(folder / "t.jsonl", cases), judge=judge)


async def test_retries_that_go_with_other_verdicts_are_warned_of(tmp_path: Path, judge_server):
    outcome = await outcome_of(wanted(tmp_path, judge_server, "hard-cases"))

    (warning,) = [one for one in outcome.summary.warnings if one.startswith("retries:")]
    assert "of the cases that took retries 0 of 20 pass, of the others 20 of 20" in warning
    assert judge_server.stats()["requests"] == 3 * MIN_CASES


@pytest.mark.full
async def test_retries_alone_are_not(tmp_path: Path, judge_server):
    outcome = await outcome_of(wanted(tmp_path, judge_server, "flaky-500-1"))

    assert not [one for one in outcome.summary.warnings if one.startswith("retries:")]
    assert judge_server.stats()["requests"] == 4 * MIN_CASES
