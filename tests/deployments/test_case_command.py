"""`assizes case`, the page of a case and the report: the tiers of one case, its criteria in words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from assizes.judge.case import Case, Expected
from assizes.judge.catalog import resolve_judges
from assizes.judge.config.judging import JudgeConfig, LimitsConfig
from assizes.judge.config.run import StoreConfig
from assizes.judge.engine.hearings import Engine
from assizes.judge.heuristic.answers import HeuristicModel
from assizes.judge.rows import SHARD_TABLES, frame
from assizes.judge.verdicts.case_rows import RowKey, findings
from assizes.tasks.reports.data.case_rows import case_pages, case_rows
from assizes.tasks.runs.stored_cases import stored_executions
from assizes.tasks.store import open_store
from tests.builders import agent, call, case, result, user
from tests.command import assizes
from tests.tasks.reports.sample import run

RUN_ID = "nightly-cccccccccccc"
TIERS = ["execution", "process", "delivery"]  # the case shows the offline judge no knowledge
BREWED = case(
    user("How do I brew it?"),
    agent(calls=[call("look_up", topic="coffee")]),
    result("Use fresh beans, water at 93 degrees."),
    agent("Use fresh beans and water at 93 degrees."),
    case_id="brewed",
    expected=Expected(acceptance_criteria=("Use fresh beans", "Grind coarsely")),
)
COVERED = "Use fresh beans · covered: Use fresh beans · reason: "
MISSING = "Grind coarsely · missing: Grind coarsely · reason: "
BAND = "half of the criteria covered; 1 of 2 aspects, 1 of 2 concepts covered"


@pytest.fixture(scope="module")
async def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run of two cases, one of which could not be judged."""
    place = tmp_path_factory.mktemp("case")
    panel = resolve_judges(JudgeConfig(judges=("conversation", "answer_criteria")))
    engine = Engine(HeuristicModel(), LimitsConfig())
    rows = {name: [] for name in SHARD_TABLES}
    empty: Case = case(case_id="empty")
    for number, one in enumerate((BREWED, empty)):
        results = [await engine.hear(judge, one) for judge in panel.judges]
        found = findings(RowKey(RUN_ID, "gone.jsonl", number), one, results, panel).rows
        for name in found:
            rows[name] += found[name]
    of = run([], run_id=RUN_ID)
    with open_store(StoreConfig(uri=f"duckdb:///{place}/assizes.duckdb"), writing=True) as store:
        store.begin(replace(of.record, status="running", finished_at=None, summary=None))
        frames = {name: frame(name, rows[name]) for name in SHARD_TABLES}
        store.commit_shard(RUN_ID, "s0", frames, {"judged": 1, "errored": 1})
        store.finish(of.record, frame("run_metrics", []))
    return place


@pytest.mark.row("005-06", "005-15")
def test_the_command_shows_the_tiers_of_a_case_and_what_of_its_criteria_is_covered(folder: Path):
    out = assizes("case", RUN_ID, "brewed", cwd=folder).out
    (line,) = [line for line in out.splitlines() if line.startswith("tiers, of 100: ")]
    scores = [part.split() for part in line.removeprefix("tiers, of 100: ").split(", ")]
    assert [tier for tier, _ in scores] == TIERS
    words = " ".join(out.split())
    assert all(text in words for text in (BAND, COVERED, MISSING))
    document = json.loads(assizes("case", RUN_ID, "brewed", "--json", cwd=folder).out)
    tiers = document["cases"][0]["tier_scores"]
    assert {tier: float(score) for tier, score in scores} == pytest.approx(tiers, abs=0.01)


@pytest.mark.row("005-06")
def test_a_case_without_a_verdict_has_no_tiers(folder: Path):
    assert "tiers" not in assizes("case", RUN_ID, "empty", cwd=folder).out


@pytest.mark.row("005-06", "005-15")
def test_the_page_and_the_report_show_the_same(folder: Path):
    with open_store(StoreConfig(uri=f"duckdb:///{folder}/assizes.duckdb")) as store:
        executions = stored_executions(store, RUN_ID, "brewed", None)
        (page,) = case_pages(store.run(RUN_ID), executions)
        report = case_rows(store.scan(RUN_ID, "cases"), store.scan(RUN_ID, "scores"), {})
    (shown,) = [each for each in report.read_first if each.case_id == "brewed"]
    assert list(page["case"]["tier_scores"]) == TIERS
    for found in (page["findings"], [finding.model_dump() for finding in shown.findings]):
        texts = [each["justification"] for each in found if each["metric"] == "answer_criteria"]
        assert BAND in texts
        assert [any(text.startswith(begin) for text in texts) for begin in (COVERED, MISSING)] == [
            True,
            True,
        ]


def test_tiers_are_the_weighted_means_of_their_metrics(folder: Path):
    with open_store(StoreConfig(uri=f"duckdb:///{folder}/assizes.duckdb")) as store:
        (execution,) = stored_executions(store, RUN_ID, "brewed", None)
    for tier, points in execution.case["tier_scores"].items():
        scored = [row for row in execution.scores if row["value"] is not None]
        own = [row for row in scored if row["tier"] == tier and row["weight"]]
        weights = sum(row["weight"] for row in own)
        mean = sum(row["value"] * row["weight"] for row in own) / weights
        assert points == pytest.approx(mean * 100, abs=0.005)
