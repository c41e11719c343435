"""Cases of a complete run whose asks failed, judged in a run of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from assizes.deployments.commands.triggered import errored_run
from assizes.deployments.samples import sample_cases
from assizes.deployments.settings import stored_config
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError, Inconclusive
from assizes.judge.formats import native_line
from assizes.tasks.store import open_store
from tests.doubles.fixtures import OpenAIServer
from tests.flows.test_cache_modes import CASES, wanted
from tests.flows.test_evaluate import outcome_of, tables

pytestmark = pytest.mark.usefixtures("prefect_server")


def errors_of(config: RunConfig, run_id: str) -> RunConfig:
    """The configuration by which `assizes resume RUN --errors` judges cases of a stored run again."""
    with open_store(config.store) as store:
        snapshot = store.run(run_id).config
    settings = {
        "transcripts": {"limit": None, "again": {"run": run_id, "only": "errored"}},
        "cache": {"use": "read_write"},
    }
    return stored_config({**snapshot, "name": "suite-errors"}, settings, [], "test")


async def half_judged(folder: Path, server: OpenAIServer) -> tuple[RunConfig, str]:
    """The configuration and the id of a run with cached replies for four of six cases only."""
    some = wanted(folder, server)
    transcripts = some.transcripts.model_copy(update={"limit": 4})
    await outcome_of(some.model_copy(update={"transcripts": transcripts, "name": "part"}))
    replay = wanted(folder, server, "replay_only")
    first = await outcome_of(replay)
    assert (first.conclusion, first.summary.error_count) == ("Inconclusive", CASES - 4)
    return replay, first.run_id


async def test_only_the_asks_that_failed_are_put_again_and_nothing_committed_is_touched(
    tmp_path: Path, judge_server
):
    config, run_id = await half_judged(tmp_path, judge_server)
    before = tables(config.store, run_id)

    second = await outcome_of(errors_of(config, run_id))

    assert judge_server.stats()["requests"] == CASES
    counts = second.summary.counts
    assert (counts["read"], counts["judged"], counts["skipped"]) == (CASES, 2, CASES - 2)
    errored = before["cases"].filter(before["cases"]["error"].is_not_null())["case_id"]
    assert tables(config.store, second.run_id)["cases"]["case_id"].equals(errored)
    after = tables(config.store, run_id)
    assert all(after[name].equals(before[name]) for name in before)
    assert await outcome_of(errors_of(config, run_id)) == second
    assert judge_server.stats()["requests"] == CASES


@pytest.mark.full
async def test_a_case_that_reads_otherwise_now_is_another_case(tmp_path: Path, judge_server):
    config, run_id = await half_judged(tmp_path, judge_server)
    path = Path(config.transcripts.uri)
    changed = [one.model_copy(update={"cluster": "elsewhere"}) for one in sample_cases()[:CASES]]
    path.write_bytes(b"".join(map(native_line, changed)))

    with pytest.raises(Inconclusive, match="6 records read, 0 rejected .none., 6 not selected"):
        await outcome_of(errors_of(config, run_id))


def test_only_errors_needs_a_run_and_leaves_the_rest_to_its_configuration():
    assert errored_run("x", others=False) == "x"
    for run_id, others in ((None, False), ("x", True)):
        with pytest.raises(
            ConfigurationError, match="--only-errors: use `assizes resume RUN --errors`"
        ):
            errored_run(run_id, others=others)
