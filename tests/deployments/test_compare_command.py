"""`assizes compare`: the mode that decides, the output, and the exit codes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.judge.rows import frame
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.tasks.reports.sample import Said, run

LENIENT = ["--max-pass-rate-drop", "100%", "--max-avg-score-drop", "100"]


def cases_with_passes(passing: int, of: int = 40) -> list[Said]:
    return [
        Said(f"c{i:02}", (5, 5) if i < passing else (1, 2), done=i < passing) for i in range(of)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of runs: good, two cases worse, bad, of another threshold for cases, or for the run."""
    place = tmp_path_factory.mktemp("compare")
    runs = [
        run(cases_with_passes(40), run_id="good"),
        run(cases_with_passes(38), run_id="luck"),
        run(cases_with_passes(20), run_id="bad"),
        run(cases_with_passes(40), run_id="other", judge={"pass_threshold": 50.0}),
        run(cases_with_passes(40), run_id="lenient", thresholds={"cases_pass_threshold": 99.0}),
    ]
    with open_store(StoreConfig(uri=f"duckdb:///{place}/rows.duckdb"), writing=True) as store:
        for one in runs:
            store.begin(replace(one.record, status="running", finished_at=None, summary=None))
            store.commit_shard(one.record.run_id, "s0", one.frames, {"judged": 40})
            store.finish(one.record, frame("run_metrics", []))
    return place


def compared(folder: Path, candidate: str, *options: str):
    return assizes(
        "compare", "good", candidate, *options, "--store", "duckdb:///rows.duckdb", cwd=folder
    )


def test_by_default_both_are_shown_and_the_documents_rules_decide(folder: Path):
    answer = compared(folder, "luck")
    assert answer.code == 1
    *_, word, reason = answer.out.splitlines()
    assert (word, reason.partition(" (")[0]) == (
        "REGRESSION",
        "  pass rate fell from 100.0 % to 95.0 %",
    )
    assert "by the statistics: inconclusive" in answer.out
    assert "paired 40 cases / 40 clusters" in " ".join(answer.out.split())
    assert compared(folder, "bad", *LENIENT).code == 0


@pytest.mark.row("005-02")
def test_another_threshold_of_the_run_is_shown_and_blocks_nothing(folder: Path):
    answer = compared(folder, "lenient")
    assert answer.code == 0
    line = "differs, but does not matter here: thresholds.cases_pass_threshold: 100.0 -> 99.0"
    assert line in answer.out.splitlines()
    assert "NOT COMPARABLE" not in answer.out


@pytest.mark.row("005-07")
def test_a_limit_of_latency_that_could_be_either_is_refused_with_the_reason(folder: Path):
    answer = compared(folder, "good", "--max-latency-increase-pct", "20")
    assert (answer.code, answer.out) == (2, "")
    assert "--max-latency-increase-pct: 20 could be 20 % or 2000 %: write it" in answer.err
    assert compared(folder, "good", "--max-latency-increase-pct", "150%").code == 0


@pytest.mark.parametrize(
    ("candidate", "mode", "code"),
    [
        ("luck", "statistics", 4),
        ("bad", "statistics", 1),
        ("luck", "rules", 1),
        ("good", "rules", 0),
    ],
)
def test_the_mode_says_what_the_exit_code_follows(folder: Path, candidate, mode, code):
    answer = compared(folder, candidate, "--mode", mode, "--json")
    assert answer.code == code
    verdict = json.loads(answer.out)["verdict"]
    assert (verdict["mode"], verdict["statistics"] is None) == (mode, mode == "rules")


def test_a_run_of_another_judge_is_refused_with_3_and_the_field(folder: Path):
    answer = compared(folder, "other")
    assert answer.code == 3
    lines = answer.out.splitlines()
    ending = lines[lines.index("NOT COMPARABLE") :]
    assert "  judge.pass_threshold: 75.0 -> 50.0" in ending
    assert "--allow" in answer.out
    allowed = compared(folder, "other", "--allow")
    assert allowed.code == 0
    assert "judged differently: judge.pass_threshold: 75.0 -> 50.0" in allowed.out


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [("--mode", "loud", '"rules"'), ("--margin", "0", "--margin"), ("--alpha", "2", "--alpha")],
)
def test_an_option_out_of_range_is_named_with_what_it_takes(folder: Path, option, value, reason):
    answer = compared(folder, "luck", option, value)
    assert answer.code == 2
    assert reason in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_the_report_shows_both_verdicts(folder: Path):
    compared(folder, "bad")
    answer = assizes(
        "report", "bad", "-o", "out", "--json", "--store", "duckdb:///rows.duckdb", cwd=folder
    )
    links = json.loads(answer.out)
    text = (folder / links["md"]).read_text("utf-8")
    assert "### By the statistics: regressed" in text
    assert "regressed, by intervals over the cases" in (folder / links["html"]).read_text("utf-8")
    data = json.loads((folder / links["json"]).read_text("utf-8"))
    assert data["comparison"]["statistics"]["verdict"] == "regressed"
