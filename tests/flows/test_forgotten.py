"""A run that finds rows of its shards deleted goes on, ends, and says how many cases are gone."""

from __future__ import annotations

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.flows.test_evaluate import written
from tests.flows.test_kills import KILLED, run


@pytest.mark.full
@pytest.mark.parametrize("store", ["duckdb:///{folder}/a.duckdb", "{folder}/lake"])
def test_a_run_whose_case_was_deleted_in_between_is_complete(tmp_path, prefect_server, store):
    folder = tmp_path / "run"
    written(tmp_path / "t.jsonl", sample_cases()[:12])
    assert run(folder, store, prefect_server, "shard.committed:2").code == KILLED
    for lock in (folder / "lake" / "runs" / "r" / "holds").glob("*"):
        lock.unlink()  # of the killed process: nobody has to wait for a minute and a half here
    uri = store.format(folder=folder)
    with open_store(StoreConfig(uri=uri)) as opened:
        case_id = opened.table("r", "cases")["case_id"][0]
    gone = assizes("store", "forget", case_id, "--yes", "--store", uri, cwd=folder)
    assert gone.code == 0, gone.err

    again = run(folder, store, prefect_server)

    assert again.code == 0, again.err
    with open_store(StoreConfig(uri=uri)) as opened:
        record = opened.run("r")
        assert record.status == "complete"
        assert (record.counts["read"], record.counts["judged"]) == (11, 11)
        assert case_id not in opened.table("r", "cases")["case_id"]
    warnings = (record.summary or {})["warnings"]
    assert [line for line in warnings if line.startswith("forgotten: 1 cases were deleted")]
