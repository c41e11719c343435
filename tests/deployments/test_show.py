"""The reading commands over a stored run of every family of judges."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from assizes.deployments.commands.output import print_metrics
from assizes.judge.config.run import StoreConfig
from assizes.judge.rows import frame
from assizes.judge.summary.run_summary import run_metrics
from assizes.judge.verdicts.case_rows import (
    GENERATION_FIX,
)
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.judge.run_frames import case_row, score_row, summary_of
from tests.tasks.reports.sample_families import RUN_ID, families_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stored")
    run = families_run()
    numbers = [
        {"run_id": RUN_ID, "name": name, "value": value}
        for name, value in run_metrics(run.summary).items()
    ]
    with open_store(StoreConfig(uri=f"duckdb:///{place}/assizes.duckdb"), writing=True) as store:
        running = replace(run.record, status="running", finished_at=None, summary=None)
        store.begin(running)
        store.commit_shard(RUN_ID, "s0", run.frames, run.record.counts)
        store.finish(run.record, frame("run_metrics", numbers))
    return place


@pytest.mark.row("004-03", "004-04")
def test_a_failed_case_says_why_and_what_to_try(folder: Path):
    answer = assizes("case", RUN_ID, "wrong-answer", cwd=folder)
    assert answer.code == 0, answer
    lines = answer.out.splitlines()
    assert "root cause: correctness" in lines
    assert f"suggested fix: {GENERATION_FIX}" in " ".join(line.strip() for line in lines)
    assert "error: timeout: safety (no answer in 120 s)" in lines
    shown = {line.split()[0]: line.split()[1:] for line in lines if not line.startswith(" ")}
    assert shown["sql"] == ["0.2", "not", "passed"]
    assert shown["correctness"] == ["0", "no"]
    assert shown["safety"] == ["-", "failed"]
    assert shown["total_token_count"] == ["-", "skipped"]
    assert "    It says *9* instead of 10." in lines


@pytest.mark.row("004-03")
def test_a_case_that_passed_names_no_cause(folder: Path):
    out = assizes("case", RUN_ID, "all-good", cwd=folder).out
    assert out.startswith("all-good (repetition 0): PASSED (score 100.0, needs 75.0; ")
    assert "root cause" not in out
    assert "    Result Match: 0.90" in out.splitlines()


@pytest.mark.row("004-95")
def test_a_run_shows_published_numbers_root_causes_and_the_cost_of_each_judge(folder: Path):
    out = assizes("show", RUN_ID, cwd=folder).out
    assert "root causes of failed cases: context_sufficiency 1, correctness 1" in out
    assert (
        "judge cost: unknown (conversation 0.0900 USD, correctness 0.0300 USD, safety unknown)"
        in out
    )
    (line,) = [line for line in out.splitlines() if "llm_judged/correctness" in line]
    assert line.split() == ["response/llm_judged/correctness/rating/percentage", "0.3333"]


def test_the_summary_as_json_holds_the_same_numbers(folder: Path):
    summary = json.loads(assizes("show", RUN_ID, "--json", cwd=folder).out)["summary"]
    assert summary["published"]["response/overall_assessment/rating/percentage"] == 0.333333333
    assert summary["judges"]["conversation"]["cost_usd"] == 0.09
    assert summary["root_causes"] == {"context_sufficiency": 1, "correctness": 1}


def test_weights_are_shown_with_as_many_digits_as_they_need(capsys: pytest.CaptureFixture[str]):
    weights = (0.15, 0.15, 0.15, 0.125, 0.125, 0.1, 0.1, 0.1, 1 / 12)
    scores = [score_row("a", f"m{n}", 5, weight=weight) for n, weight in enumerate(weights)]
    print_metrics("run", summary_of([case_row("a")], scores))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    shown = [cells[2] for cells in lines if cells and cells[0] in {f"m{n}" for n in range(9)}]
    assert shown == ["0.15"] * 3 + ["0.125"] * 2 + ["0.10"] * 3 + ["0.0833"]
