"""A run that dies between a call and its rows: the calls that the provider saw of both processes."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.command import Answer, assizes
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer
from tests.flows.test_evaluate import written
from tests.flows.test_kills import KILLED

pytestmark = pytest.mark.full

CASES = 24
IN_FLIGHT = 4


def run(folder: Path, model: OpenAIServer, prefect: str, failpoint: str = "") -> Answer:
    settings = {
        "transcripts.uri": str(folder / "t.jsonl"),
        "judge.model": "openai/m",
        "judge.api_base": model.api_base,
        "limits.max_in_flight": str(IN_FLIGHT),
        "limits.ledger": "ledger.db",
        "store.uri": "lake",
        "cache.uri": "replies",
        "report.uri": "reports",
        "thresholds.metrics_pass_threshold": "0",
        "thresholds.cases_pass_threshold": "0",
        "runner.shard_size": "6",
    }
    given = [part for name, value in settings.items() for part in ("--set", f"{name}={value}")]
    keys = {"OPENAI_API_KEY": OPENAI_KEY, "PREFECT_API_URL": prefect}
    environment = {**keys, "ASSIZES_FAILPOINT": failpoint}
    return assizes("run", "--run-id", "r", *given, cwd=folder, env=environment)


@pytest.mark.parametrize(
    "failpoint",
    ["replies.put.before:9", "replies.put.half:9", "shard.judged:2", "lake.mark.before:3"],
)
def test_no_more_calls_are_made_twice_than_were_in_flight_when_it_died(
    tmp_path, judge_server, prefect_server, failpoint
):
    written(tmp_path / "t.jsonl", sample_cases()[:CASES])
    killed = run(tmp_path, judge_server, prefect_server, failpoint)
    assert killed.code == KILLED, killed.err
    again = run(tmp_path, judge_server, prefect_server)
    assert again.code == 0, again.err

    calls = judge_server.stats()["answered"]
    assert CASES <= calls <= CASES + IN_FLIGHT
    with closing(sqlite3.connect(tmp_path / "ledger.db")) as ledger:
        ((counted,),) = ledger.execute("select count(*) from calls")
    # One that was answered as the process died may not have come to the ledger's end, but its start.
    assert calls <= counted <= calls + IN_FLIGHT
    with open_store(StoreConfig(uri=str(tmp_path / "lake"))) as store:
        asks = store.table("r", "asks")
    assert asks.height == CASES
    kept = asks.filter(pl.col("attempts") > 0).height  # each reply is charged to one ask
    assert CASES - IN_FLIGHT <= kept <= CASES
