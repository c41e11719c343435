"""Every command that asks for a run takes every name of it, over a store that is named by its path."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assizes.deployments.cli import app
from assizes.deployments.commands.run import resume_options
from assizes.deployments.web import pages
from assizes.deployments.web.read_routes import StoreReader
from assizes.deployments.web.start_routes import CompareParameters
from assizes.judge.config.judging import LimitsConfig
from assizes.judge.config.run import StoreConfig
from assizes.tasks.spending.ledger import SqliteLedger
from assizes.tasks.store import open_store
from tests.tasks.reports.sample import BEGUN, Said, run
from tests.tasks.stored_runs import put

OLD, NEW = "nightly-1f2e3d4c5b6a", "nightly-9a8b7c6d5e4f"
NAMES = ("latest", "nightly", "nightly@2026-03-03", NEW, "nightly-9a")

Command = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a DuckDB store and a Parquet store of the same two nights."""
    for uri in ("rows.duckdb", "lake"):
        with open_store(StoreConfig(uri=str(tmp_path / uri)), writing=True) as store:
            for nights, run_id in enumerate((OLD, NEW)):
                made = run([Said("c1", (5, 4)), Said("c2", (2, 1), done=False)], run_id=run_id)
                start = BEGUN + timedelta(days=nights)
                put(store, replace(made, record=replace(made.record, started_at=start)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def command(folder: Path) -> Command:
    def answer(*words: str, store: str = "rows.duckdb") -> str:
        done = CliRunner().invoke(app, [*words, "--store", store])
        assert done.exit_code == 0, (words, done.output, done.exception)
        return done.stdout

    return answer


@pytest.mark.parametrize("store", ["rows.duckdb", "lake"])
@pytest.mark.parametrize("name", ["latest", "nightly@2026-03-03"])
def test_commands_that_read_a_run_take_every_name_of_it(command: Command, name: str, store: str):
    shown = json.loads(command("show", name, "--json", store=store))
    assert shown["run_id"] == NEW
    case = json.loads(command("case", name, "c2", "--json", "--no-conversation", store=store))
    assert {row["run_id"] for row in case["cases"]} == {NEW}
    query = "select distinct run_id from cases"
    assert json.loads(command("sql", name, query, "--json", store=store)) == [{"run_id": NEW}]
    links = json.loads(command("report", name, "-o", "reports", "--json", store=store))
    assert all(NEW in link for link in links.values())
    assert "assizes_judgements" in command("metrics-export", name, store=store)
    assert json.loads(command("results", name, "--json", store=store)) is not None
    forgotten = json.loads(command("forget", "c1", "--run-id", name, "--json", store=store))
    assert [match["run_id"] for match in forgotten["runs"]] == [NEW]


def test_two_runs_are_compared_by_their_names(command: Command):
    compared = json.loads(command("compare", "nightly~1", "nightly", "--json"))
    assert (compared["baseline_run_id"], compared["candidate_run_id"]) == (OLD, NEW)


def test_a_run_to_go_on_with_is_named_by_any_name(folder: Path):
    for name in NAMES:
        assert resume_options(name, None, "rows.duckdb", []).run_id == NEW
    assert resume_options("nightly~1", None, "lake", []).run_id == OLD


def test_parts_of_a_run_are_merged_under_its_whole_id(command: Command):
    assert command("compact", "latest", store="lake").startswith(f"{NEW}: ")


def test_a_run_is_stopped_by_its_name_though_its_store_is_locked(folder: Path):
    ledger = str(folder / ".assizes" / "ledger.db")
    for run_id in (OLD, NEW):
        SqliteLedger(ledger, run_id, LimitsConfig()).close()
    with open_store(StoreConfig(uri="rows.duckdb"), writing=True):
        for name, run_id in (("latest", NEW), ("nightly~1", OLD), ("nightly-1f", OLD)):
            done = CliRunner().invoke(app, ["stop", name, "--json"])
            assert json.loads(done.stdout) == {"stopped": run_id}


def test_pages_and_requests_take_every_name(folder: Path):
    reader = StoreReader(StoreConfig(uri="lake"))
    for name in NAMES:
        assert reader.run(name).run_id == NEW
        assert NEW.encode() in pages.run(reader, name).body
        record, _ = reader.case(name, "c2", None)
        assert record.run_id == NEW
    wanted = CompareParameters(baseline="nightly~1", candidate="nightly@2026-03-03")
    assert wanted.set_fields() == {"baseline": "nightly~1", "candidate": "nightly@2026-03-03"}


def test_a_program_reads_rows_by_such_names(folder: Path):
    for place in ("rows.duckdb", "lake"):
        with open_store(place) as store:
            assert store.run("nightly~1").run_id == OLD
            assert set(store.table("latest", "cases")["run_id"]) == {NEW}


def test_a_folder_that_only_has_the_name_of_a_run_is_no_store(command: Command, folder: Path):
    (folder / "nightly").mkdir()
    query = "select distinct run_id from cases order by run_id"
    assert json.loads(command("sql", "nightly", query, "--json")) == [{"run_id": NEW}]
    done: Any = CliRunner().invoke(app, ["sql", "lake", query, "--json"])
    assert [row["run_id"] for row in json.loads(done.stdout)] == [OLD, NEW]
