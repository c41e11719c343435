"""One evaluation in this process: the rows of the flow `evaluate`, and no Prefect server."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prefect.settings import PREFECT_API_URL, temporary_settings

from assizes.flows.in_process import evaluate_in_process
from assizes.judge.config.run import RunConfig
from assizes.judge.errors import ConfigurationError
from tests.deployments.library.logs import logs


def config(folder: Path, name: str, **tables: Any) -> RunConfig:
    file = folder / f"{name}.jsonl"
    file.write_text("".join(json.dumps(log) + "\n" for log in logs(4)))
    body = {
        "transcripts": {"uri": str(file)},
        "store": {"uri": f"duckdb:///{folder}/s.duckdb"},
        "cache": {"uri": f"{folder}/replies"},
        **tables,
    }
    return RunConfig.model_validate(body)


async def test_runs_are_judged_and_compared_where_no_server_answers(tmp_path: Path):
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        before = await evaluate_in_process(config(tmp_path, "v1"))
        after = await evaluate_in_process(config(tmp_path, "v2", comparison={"baseline": "latest"}))
    assert (before.summary.counts["judged"], before.comparison) == (4, None)
    assert after.comparison is not None
    assert after.comparison.baseline_run_id == before.run_id


async def test_a_run_that_was_judged_is_returned_as_it_is(tmp_path: Path):
    first = await evaluate_in_process(config(tmp_path, "v1"))
    again = await evaluate_in_process(config(tmp_path, "v1"))
    assert again.run_id == first.run_id
    assert again.summary == first.summary


@pytest.mark.parametrize("runner", [{"kind": "dask"}, {"batch": True}, {"processes": 2}])
async def test_what_needs_other_processes_is_refused(tmp_path: Path, runner: dict[str, Any]):
    with pytest.raises(ConfigurationError, match="start this run with `assizes run`"):
        await evaluate_in_process(config(tmp_path, "v1", runner=runner))
    assert not (tmp_path / "s.duckdb").exists()
