"""`[transcripts] since_last` over whole runs: what was judged is not asked again, the rest is."""

from __future__ import annotations

from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.config.run import RunConfig
from assizes.judge.formats import native_line
from tests.doubles.fixtures import OpenAIServer
from tests.flows.test_cache_modes import CASES, wanted
from tests.flows.test_evaluate import outcome_of, tables
from tests.flows.test_only_errors import errors_of, half_judged

pytestmark = pytest.mark.usefixtures("prefect_server")


def since_last(folder: Path, server: OpenAIServer, count: int = CASES) -> RunConfig:
    """The configuration `wanted` over the first cases of a file, judging only new cases."""
    config = wanted(folder, server)
    (folder / "t.jsonl").write_bytes(b"".join(map(native_line, sample_cases()[:count])))
    transcripts = config.transcripts.model_copy(update={"since_last": True})
    return config.model_copy(update={"transcripts": transcripts})


@pytest.mark.full
async def test_cases_with_an_error_are_judged_by_the_next_run_and_no_others(
    tmp_path: Path, judge_server: OpenAIServer
):
    _, first = await half_judged(tmp_path, judge_server)
    config = since_last(tmp_path, judge_server, CASES + 1)
    paid = judge_server.stats()["requests"]

    second = await outcome_of(config)

    errors = tables(config.store, first)["cases"].drop_nulls("error")["case_id"].to_list()
    new = sample_cases()[CASES].case_id
    judged = tables(config.store, second.run_id)["cases"]
    assert sorted(judged["case_id"]) == sorted([*errors, new])
    assert judge_server.stats()["requests"] == paid + 3
    counts = second.summary.counts
    assert (counts["read"], counts["judged"], counts["skipped"]) == (CASES + 1, 3, CASES - 2)


@pytest.mark.full
async def test_what_a_run_over_leavings_judged_is_not_judged_once_more(
    tmp_path: Path, judge_server: OpenAIServer
):
    config, first = await half_judged(tmp_path, judge_server)
    await outcome_of(errors_of(config, first))
    second = await outcome_of(since_last(tmp_path, judge_server, CASES + 1))
    judged = tables(config.store, second.run_id)["cases"]["case_id"].to_list()
    assert judged == [sample_cases()[CASES].case_id]
    assert judge_server.stats()["requests"] == CASES + 1


@pytest.mark.full
async def test_a_run_that_stopped_goes_on_with_the_same_cases(
    tmp_path: Path, judge_server: OpenAIServer
):
    first = await outcome_of(since_last(tmp_path, judge_server, 2))
    config = since_last(tmp_path, judge_server)
    limits = config.limits.model_copy(update={"max_asks": 2})
    begun = await outcome_of(config.model_copy(update={"limits": limits}))
    assert begun.conclusion == "OverBudget"
    ended = await outcome_of(config)
    assert (ended.run_id, ended.conclusion) == (begun.run_id, "Passed")
    assert first.run_id != begun.run_id
    assert ended.summary.counts["judged"] == CASES - 2
    assert judge_server.stats()["requests"] == CASES
