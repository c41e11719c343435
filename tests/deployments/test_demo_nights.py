"""`assizes demo --nights`: two faults come on the second night, one goes on the third, and returns."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.command import assizes
from tests.deployments.web.conftest import environment_without_prefect, serving


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nights")
    answer = assizes("demo", "--nights", "--folder", "demo", cwd=folder)
    assert answer.code == 0, answer.err
    (folder / "out.txt").write_text(answer.out)
    return folder


STORE = ("--store", "duckdb:///demo/demo.duckdb")


def run_id(folder: Path, night: int) -> str:
    runs = json.loads(assizes("runs", "--json", *STORE, cwd=folder).out)
    (found,) = [run["run_id"] for run in runs if run["name"] == "demo"][3 - night : 4 - night]
    return str(found)


def causes(folder: Path, night: int) -> dict[str, str]:
    answer = assizes("causes", run_id(folder, night), "--json", *STORE, cwd=folder)
    return {row["name"]: row["state"] for row in json.loads(answer.out)["causes"]}


def report(folder: Path, night: int) -> tuple[dict[str, Any], str]:
    """The data of the report of a night, and its page."""
    files = folder / "demo/reports" / run_id(folder, night)
    page = (files / "report.html").read_text().replace("<wbr>", "")
    return json.loads((files / "report.json").read_text()), page


@pytest.mark.full
@pytest.mark.promised
def test_terminal_and_report_name_both_causes_and_say_which_is_new_and_gone(nights: Path):
    second, third = (nights / "out.txt").read_text().split("the third night:")
    assert "cut off before its end: new, in 13 cases" in second
    assert "wrong parameter: new, in 13 cases" in second
    assert "cut off before its end: gone, in no case; 32.5 % in the run before" in third
    assert "wrong parameter: persisting, in 13 cases" in third
    assert "2 causes came on the second night, 1 went on the third" in third
    states = causes(nights, 3)
    assert (states["cut off before its end"], states["wrong parameter"]) == ("gone", "persisting")
    data, page = report(nights, 3)
    assert data["causes"]["first"][0]["name"] == "cut off before its end"
    assert data["causes"]["first"][0]["state"] == "gone"
    assert "<strong>cut off before its end</strong>" in page
    before, _ = report(nights, 2)
    new = [cause["name"] for cause in before["causes"]["first"] if cause["state"] == "new"]
    assert new == ["cut off before its end", "wrong parameter"]


@pytest.mark.full
def test_the_page_of_a_night_names_them_too(nights: Path):
    store = "duckdb:///demo/demo.duckdb"
    with serving(nights, store=store, **environment_without_prefect(nights)) as url:
        second, third = (
            httpx.get(f"{url}/view/runs/{run_id(nights, night)}/causes").text.replace("<wbr>", "")
            for night in (2, 3)
        )
    for name, words in {
        "cut off before its end": ("new", "gone"),
        "wrong parameter": ("new",),
    }.items():
        for page, word in zip((second, third), words, strict=False):
            (row,) = [each for each in page.split("<tr") if name in each and "<th" in each]
            assert f">{word}<" in row


@pytest.mark.full
@pytest.mark.promised
def test_a_suite_of_the_mended_fault_catches_its_return(nights: Path):
    out = (nights / "out.txt").read_text().split("later, over the suite:")[1]
    assert "FAILED" in out
    assert "(cut off before its end) of suite 'suite' came back: cases 1, 14" in out
    assert "1 came back over the suite demo/suite" in out
    status = assizes("suite", "status", "demo/suite", "--json", *STORE, cwd=nights)
    document = json.loads(status.out)
    assert (document["cases"], document["failing"], len(document["came_back"])) == (13, 13, 13)
    assert [cause["name"] for cause in document["causes"]] == ["cut off before its end"]
