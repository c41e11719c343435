"""`assizes export`: tables of a run as files for other programs."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.deployments.test_cells import cells
from tests.tasks.reports.sample_families import families_run
from tests.tasks.stored_runs import put

RUN = families_run()
STORE = ("--store", "duckdb:///s.duckdb")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("export")
    with open_store(StoreConfig(uri=f"duckdb:///{place}/s.duckdb"), writing=True) as store:
        put(store, RUN)
    return place


@pytest.mark.row("005-19")
def test_the_wide_table_is_written_in_the_format_of_the_file(folder: Path):
    command = ("export", RUN.record.run_id[:10], *STORE)
    answer = assizes(*command, "--wide", "out/wide.parquet", cwd=folder)
    assert (answer.code, answer.err) == (0, "")
    table = pl.read_parquet(folder / "out/wide.parquet")
    assert answer.out == f"wide: {table.height} rows, {table.width} columns: out/wide.parquet\n"
    assert table["request_id"].to_list() == sorted(RUN.frames["cases"]["case_id"])
    assert {"response/llm_judged/correctness/rating", "passed"} <= set(table.columns)
    assizes(*command, "--wide", "wide.csv", "--scores", "scores.jsonl", cwd=folder)
    (head, *lines) = cells((folder / "wide.csv").read_text())
    assert (head, len(lines)) == (table.columns, table.height)
    scores = [json.loads(line) for line in (folder / "scores.jsonl").read_text().splitlines()]
    assert len(scores) == RUN.frames["scores"].height
    assert not list(folder.glob(".*"))


def test_json_says_what_was_written(folder: Path):
    answer = assizes(
        "export", RUN.record.run_id, *STORE, "--cases", "cases.csv", "--json", cwd=folder
    )
    (row,) = json.loads(answer.out)
    assert (row["table"], row["file"], row["rows"]) == (
        *("cases", "cases.csv"),
        RUN.frames["cases"].height,
    )


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ((), "export: no file is named; write for example --wide out.parquet"),
        (("--wide", "out.xlsx"), "unknown file type '.xlsx'; known: .csv, .jsonl, .parquet"),
        (("--wide", "s.duckdb/out.csv"), "cannot be written (File exists); name another file"),
    ],
)
def test_a_file_that_cannot_be_written_is_named(folder: Path, options, text):
    answer = assizes("export", RUN.record.run_id, *STORE, *options, cwd=folder)
    assert (answer.code, answer.out) == (2, "")
    assert text in answer.err
