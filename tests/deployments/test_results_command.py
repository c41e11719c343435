"""`assizes results`: the wide table of a run, as JSON and as CSV."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.deployments.test_cells import cells
from tests.tasks.reports.sample import Said, run
from tests.tasks.reports.sample_families import families_run
from tests.tasks.stored_runs import put

RUN = families_run()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("results")
    with open_store(StoreConfig(uri=f"duckdb:///{place}/s.duckdb"), writing=True) as store:
        put(store, RUN)
    return place


@pytest.mark.row("005-19")
def test_the_table_of_a_run_has_a_row_for_each_request(folder: Path):
    command = ("results", RUN.record.run_id[:10], "--store", "duckdb:///s.duckdb")
    rows = json.loads(assizes(*command, "--json", cwd=folder).out)
    ids = sorted(RUN.frames["cases"]["case_id"])
    assert [row["request_id"] for row in rows] == ids
    ratings = [row["response/llm_judged/correctness/rating"] for row in rows]
    rated = [rating == "yes" for rating in ratings if rating]
    name = "response/llm_judged/correctness/rating/percentage"
    assert sum(rated) / len(rated) == pytest.approx(RUN.summary.published[name])
    (head, *lines) = cells(assizes(*command, "--csv", cwd=folder).out)
    assert (head[:2], [line[0] for line in lines]) == (["request_id", "repetition"], ids)
    shown = assizes(*command, cwd=folder).out.splitlines()
    assert [*next(line for line in shown if "request_id" in line).split()][:4] == [
        *("request_id", "repetition", "overall_assessment", "root_cause")
    ]


def test_two_shapes_at_once_are_refused(folder: Path):
    command = ("results", RUN.record.run_id, "--store", "duckdb:///s.duckdb")
    assert assizes(*command, "--csv", "--json", cwd=folder).code == 2


def test_a_run_without_a_judge_that_says_yes_or_no_is_not_an_empty_table(tmp_path: Path):
    with open_store(StoreConfig(uri=f"duckdb:///{tmp_path}/s.duckdb"), writing=True) as store:
        put(store, run([Said("a", (5, 5))]))
    answer = assizes("results", "latest", "--store", "s.duckdb", cwd=tmp_path)
    assert (answer.code, answer.out) == (
        0,
        "no judge of this run says yes or no; `assizes show` lists its metrics\n",
    )
