"""`assizes demo --nights`: two faults come on the second night, one of them goes on the third."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.command import assizes


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nights")
    answer = assizes("demo", "--nights", "--folder", "demo", cwd=folder)
    assert answer.code == 0, answer.err
    (folder / "out.txt").write_text(answer.out)
    return folder


def causes(folder: Path, run: str) -> dict[str, str]:
    answer = assizes("causes", run, "--json", "--store", "duckdb:///demo/demo.duckdb", cwd=folder)
    return {row["name"]: row["state"] for row in json.loads(answer.out)["causes"]}


def report(folder: Path, run: str) -> dict[str, Any]:
    answer = assizes("runs", "--json", "--store", "duckdb:///demo/demo.duckdb", cwd=folder)
    place = {"latest": 0, "before": 1}[run]
    run_id = json.loads(answer.out)[place]["run_id"]
    text = (folder / f"demo/reports/{run_id}/report.json").read_text()
    page = (folder / f"demo/reports/{run_id}/report.html").read_text()
    return {**json.loads(text), "page": page}


@pytest.mark.promised
def test_terminal_and_report_name_both_causes_and_say_which_is_new_and_gone(nights: Path):
    out = (nights / "out.txt").read_text()
    second, third = out.split("the third night:")
    assert "cut off before its end: new, in 13 cases" in second
    assert "wrong parameter: new, in 13 cases" in second
    assert "cut off before its end: gone, in no case; 32.5 % in the run before" in third
    assert "wrong parameter: persisting, in 13 cases" in third
    assert "2 causes came on the second night, 1 went on the third" in third
    states = causes(nights, "latest")
    assert (states["cut off before its end"], states["wrong parameter"]) == ("gone", "persisting")
    data = report(nights, "latest")
    assert data["causes"]["first"][0]["name"] == "cut off before its end"
    assert data["causes"]["first"][0]["state"] == "gone"
    assert "<strong>cut off before its end</strong>" in data["page"].replace("<wbr>", "")
    before = report(nights, "before")
    new = [cause["name"] for cause in before["causes"]["first"] if cause["state"] == "new"]
    assert new == ["cut off before its end", "wrong parameter"]
