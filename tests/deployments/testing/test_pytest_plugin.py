"""The plugin `assizes.pytest` in sessions of their own: pass, fail, flake, budget, and `-n 4`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

import assizes
from assizes.judge.config.run import StoreConfig
from assizes.judge.formats import native_line
from assizes.tasks.store import RunRecord
from tests.command import ROOT
from tests.doubles.fixtures import OpenAIServer
from tests.outward import PYTHONPATH
from tests.tasks.suites.clerk import conversation

CONFIG = """
[judge]
judges = ["tests.tasks.suites.clerk:manners", "tests.tasks.suites.clerk:sums"]
"""
CLERK = """
import itertools
import pytest
from tests.tasks.suites.clerk import RUDE, WRONG, conversation

numbers = itertools.count()

def polite(number=0, said="Gladly.", price="10 and 10 is 20."):
    return conversation(number, said, price, "v1")
"""
PAID = """
[judge]
model = "openai/m"
api_base = "{api_base}"
max_output_tokens = 500

[limits]
max_in_flight = 3

[limits.prices."openai/m"]
input_usd_per_million = 1.0
output_usd_per_million = 4.0
"""
OF_SAMPLES = """
import pytest
from assizes.deployments.samples import sample_cases

@pytest.mark.parametrize("case", sample_cases()[:20], ids=lambda case: case.case_id)
def test_sample(judge, case):
    judge(case).records("task_completion")
"""


def session(folder: Path, tests: str, *words: str, config: str = CONFIG) -> tuple[int, str]:
    """Run pytest on these tests; returns its exit code and output."""
    (folder / "test_clerk.py").write_text(tests)
    (folder / "assizes.toml").write_text(config)
    (folder / "pytest.ini").write_text("[pytest]\n")
    environment = {
        **{name: text for name, text in os.environ.items() if not name.startswith("PYTEST")},
        "PYTHONPATH": f"{PYTHONPATH}:{ROOT}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # those of other packages take a second of each process
    }
    plugins = ("-p", "assizes.pytest", "-p", "xdist", "-p", "no:cacheprovider")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "--junitxml=junit.xml", *words, "."],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def stored(folder: Path) -> tuple[RunRecord, Any]:
    """The one run of the store, and its cases."""
    with assizes.open_store(StoreConfig(uri=f"duckdb:///{folder}/assizes.duckdb")) as store:
        (run_id,) = store.runs()["run_id"]
        return store.run(run_id), store.table(run_id, "cases")


def properties(folder: Path) -> dict[str, dict[str, str]]:
    """The properties of each test in the JUnit XML."""
    root = ET.parse(folder / "junit.xml").getroot()
    return {
        test.get("name", ""): {
            each.get("name", ""): each.get("value", "") for each in test.iter("property")
        }
        for test in root.iter("testcase")
    }


@pytest.mark.full
def test_invariants_fail_a_test_and_signals_are_recorded_and_all_are_one_run(tmp_path: Path):
    tests = """
def test_polite(judge):
    judge(polite(1)).passes(metric="manners").passes()

def test_rude(judge):
    judge(polite(2, RUDE)).passes(metric="manners")

def test_recorded(judge):
    assert judge(polite(3, RUDE)).records(metric="manners") == [0.0]

def test_unknown(judge):
    judge(polite(4)).passes(metric="wit")

def test_same_id(judge):
    judge(polite(1, price=WRONG)).passes(metric="manners")

def test_messages(judge):
    judge([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]).passes()

def test_nothing(judge):
    judge(3).passes()
"""
    code, text = session(tmp_path, CLERK + tests)
    assert code == 1, text
    assert "3 failed, 4 passed" in text, text
    line = "assizes: 0 of 1 conversations pass manners, 1 must\n"
    assert f"Failed: {line}" in text
    assert "c02: 0.00: The tone of the agent is rude and impatient" in text
    assert "assizes: no judge scores 'wit'; scored: manners, sums" in text
    assert "assizes: not judged (ConfigurationError): cases: int given" in text

    record, cases = stored(tmp_path)
    assert (record.name, record.status) == ("pytest", "complete")
    assert f"assizes: run {record.run_id} in duckdb:///assizes.duckdb: 6 cases" in text
    assert dict(zip(cases["case_id"], cases["passed"], strict=True)) == {
        "c01": True,
        "c01@2": False,
        "c02": False,
        "c03": False,
        "c04": True,
        "test_clerk.py::test_messages": True,
    }
    assert cases["transcript_uri"].str.ends_with("cases.jsonl").all()
    read = properties(tmp_path)
    assert read["test_recorded"] == {
        "assizes.manners": "0",
        "assizes.manners.passed": "0 of 1",
    }


@pytest.mark.full
def test_a_flaky_agent_passes_where_enough_of_its_conversations_do(tmp_path: Path):
    tests = """
def flaky():
    return polite(1, RUDE if next(numbers) % 5 == 0 else "Gladly.")

def test_enough(judge):
    judge(flaky, repeats=5, at_least=4).passes(metric="manners")

@pytest.mark.assizes(repeats=5)
def test_not_enough(judge):
    judge(flaky).passes(metric="manners", at_least=5)

def test_one_conversation(judge):
    judge(polite(1), repeats=2).passes()
"""
    code, text = session(tmp_path, CLERK + tests)
    assert code == 1, text
    assert "2 failed, 1 passed" in text, text
    assert "assizes: 4 of 5 conversations pass manners, 5 must" in text
    assert "one conversation is judged once; give judge() a function" in text
    read = properties(tmp_path)
    assert read["test_enough"]["assizes.manners"] == "0 1 1 1 1"
    assert read["test_enough"]["assizes.manners.passed"] == "4 of 5"
    record, cases = stored(tmp_path)
    assert record.status == "complete"
    assert cases["case_id"].unique().to_list() == ["c01"]
    assert cases["repetition"].sort().to_list() == [0, 1, 2, 3, 4]


def test_a_suite_gives_a_test_its_cases_and_a_wrong_one_is_one_line(tmp_path: Path):
    suite = tmp_path / "suites" / "manners"
    suite.mkdir(parents=True)
    (suite / "suite.toml").write_text('[suite]\nname = "manners"\n')
    lines = [native_line(conversation(n, "Gladly.", "10 and 10 is 20.", "v1")) for n in range(3)]
    (suite / "cases.jsonl").write_bytes(b"".join(lines))
    tests = """
@pytest.mark.assizes(suite="suites/manners")
def test_guard(judge, case):
    judge(case).passes(metric="sums")
"""
    code, text = session(tmp_path, CLERK + tests, "-v")
    assert (code, "test_guard[c02] PASSED" in text) == (0, True), text
    code, text = session(tmp_path, CLERK + tests.replace("suites/manners", "suites/none"))
    assert code != 0
    assert "is no suite: it has no suite.toml" in text


@pytest.mark.full
def test_the_default_judge_needs_neither_configuration_nor_key(tmp_path: Path):
    code, text = session(tmp_path, OF_SAMPLES, config="")
    assert code == 0, text
    record, cases = stored(tmp_path)
    assert (record.judge_model, cases.height) == ("offline/lexical", 20)
    assert "assizes.task_completion" in next(iter(properties(tmp_path).values()))


@pytest.mark.full
def test_four_processes_are_one_run_with_one_limit_and_one_cache(
    tmp_path: Path, judge_server: OpenAIServer
):
    config = PAID.format(api_base=judge_server.api_base)
    code, text = session(tmp_path, OF_SAMPLES, "-n", "4", config=config)
    assert code == 0, text
    record, cases = stored(tmp_path)
    assert (record.status, cases.height) == ("complete", 20)
    stats = judge_server.stats()
    assert stats["requests"] == stats["prompts"] == 20  # nothing was asked twice
    assert stats["peak"] <= 3
    assert record.summary is not None
    assert record.summary["spent_usd"] == pytest.approx(record.summary["total_platform_cost_usd"])
    assert len(properties(tmp_path)) == 20


@pytest.mark.full
@pytest.mark.parametrize("processes", ["0", "4"])
def test_a_spent_budget_is_no_pass(tmp_path: Path, judge_server: OpenAIServer, processes: str):
    config = PAID.format(api_base=judge_server.api_base)
    words = ("-n", processes, "--assizes-budget-usd", "0.06")
    code, text = session(tmp_path, OF_SAMPLES, *words, config=config)
    assert code == 1, text
    assert (
        "assizes: not judged (OverBudget): openai/m: budget: [limits] budget_usd = 0.06: " in text
    ), text
    assert "tests after that were not judged" in text
    record, cases = stored(tmp_path)
    assert record.status == "incomplete"
    assert 0 < cases.height < 20
    assert record.summary is not None
    assert 0 < record.summary["spent_usd"] <= 0.06
    assert f"{cases.height} passed" in text


@pytest.mark.full
def test_a_session_that_judges_nothing_imports_nothing_of_it(tmp_path: Path):
    tests = """
import sys

def test_sums():
    heavy = ("prefect", "polars", "duckdb", "litellm", "assizes.judge.case")
    assert not [name for name in heavy if name in sys.modules]
"""
    code, text = session(tmp_path, tests, "-n", "2")
    assert code == 0, text
    assert not (tmp_path / "assizes.duckdb").exists()
    assert "assizes: run" not in text
