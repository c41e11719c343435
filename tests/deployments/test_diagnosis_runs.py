"""`assizes run` over Who&When with the judge `diagnosis`: the decisive turn in rows, case and page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from assizes.judge.config.run import StoreConfig
from assizes.tasks.store import open_store
from tests.command import assizes
from tests.judge.formats.readers.test_who_and_when import CRAFTED, GENERATED

pytestmark = pytest.mark.usefixtures("prefect_server")

CONFIG = """
name = "blame"
[transcripts]
uri = "runs"
format = "who_and_when"
[judge]
judges = ["diagnosis"]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "generated.jsonl").write_text(json.dumps(GENERATED) + "\n", "utf-8")
    (tmp_path / "runs" / "crafted.json").write_text(json.dumps(CRAFTED, indent=4), "utf-8")
    (tmp_path / "assizes.toml").write_text(CONFIG, "utf-8")
    return tmp_path


@pytest.mark.full
def test_failed_runs_of_both_layouts_are_diagnosed_and_the_turn_is_marked(folder: Path):
    assizes("run", cwd=folder)
    with open_store(StoreConfig(uri=f"duckdb:///{folder}/assizes.duckdb")) as store:
        scores = store.table("latest", "scores").sort("case_id")
    assert scores["case_id"].to_list() == ["q-1", "q-2"]
    assert scores["status"].to_list() == ["scored", "scored"]
    assert scores["value"].null_count() == scores["passed"].null_count() == 2
    assert scores["label"].to_list() == ["agent", "agent"]
    details = [json.loads(text) for text in scores["details"]]
    assert [(row["agent"], row["rule"]) for row in details] == [
        ("Excel_Expert", "failed_call"),
        ("WebSurfer", "first_act"),
    ]
    assert "Planner_of_labels" not in json.dumps(details)
    shown = assizes("case", "latest", "q-1", cwd=folder)
    assert shown.code == 0
    assert "[2] assistant Logic_Expert: There are four." in shown.out
    assert "^ diagnosis" in shown.out.partition("[0] assistant Excel_Expert")[2].partition("[1]")[0]
    (page,) = folder.glob("reports/*/report.html")
    assert "Excel_Expert" in page.read_text("utf-8")
