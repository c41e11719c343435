"""`assizes compare --pairwise` and `assizes rank` as a person runs them, over a real model server."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.case import Case
from assizes.judge.formats import native_line
from tests.command import Answer, assizes
from tests.doubles.fixtures import OPENAI_KEY

pytestmark = pytest.mark.full  # each command starts a server of its own

SETTINGS = """
name = "{name}"
[transcripts]
uri = "{name}.jsonl"
[store]
uri = "duckdb:///rows.duckdb"
[judge]
model = "openai/{model}"
api_base = "{base}"
judges = ["safety"]
[limits]
ledger = "ledger.db"
[limits.prices."openai/fair"]
input_usd_per_million = 1.0
output_usd_per_million = 2.0
[limits.prices."openai/placed-30"]
input_usd_per_million = 1.0
output_usd_per_million = 2.0
"""
CASES = 40
QUALITY = {"worst": 3, "middle": 5, "best": 9}  # cases of ten in which the answer is right


def conversation(name: str, number: int) -> Case:
    """Two cases of each user; a better run is right wherever a worse run is, and in more."""
    right = number * 7 % 10 < QUALITY[name]
    text = f"This is {'right' if right else 'wrong'}, says {name}."
    turns = [{"role": "user", "text": f"Question {number}?"}, {"role": "assistant", "text": text}]
    body = {"case_id": f"case-{number}", "transcript": {"turns": turns}}
    return Case.model_validate({**body, "cluster": f"user-{number // 2}"})


def command(folder: Path, *words: str) -> Answer:
    return assizes(*words, cwd=folder, env={"OPENAI_API_KEY": OPENAI_KEY})


def write_settings(folder: Path, name: str, model: str, base: str) -> None:
    text = SETTINGS.format(name=name, model=model, base=base)
    (folder / "assizes.toml").write_text(text)


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with three runs, which are judged once for all tests."""
    path = tmp_path_factory.mktemp("judged")
    for name in QUALITY:
        lines = b"".join(native_line(conversation(name, number)) for number in range(CASES))
        (path / f"{name}.jsonl").write_bytes(lines)
        write_settings(path, name, "fair", "http://127.0.0.1:9/v1")
        answer = command(path, "run", "--set", "judge.model=offline/lexical")
        assert answer.code in (0, 1), answer
    return path


@pytest.fixture
def folder(judged: Path, tmp_path: Path, judge_server: Any) -> Path:
    shutil.copytree(judged, tmp_path, dirs_exist_ok=True)
    write_settings(tmp_path, "best", "fair", judge_server.api_base)
    judge_server.reset()
    return tmp_path


PAIRWISE = ("compare", "worst", "best", "--pairwise", "--model", "openai/fair")


def test_a_win_rate_stands_beside_the_scores_and_is_paid_for_once(folder: Path, judge_server: Any):
    plan = command(folder, *PAIRWISE, "--dry-run")
    assert (plan.code, plan.out.startswith("40 pairs, 0 of them judged already: 80 asks")) == (
        0,
        True,
    ), plan
    assert judge_server.stats()["requests"] == 0
    first = command(folder, *PAIRWISE, "--json")
    assert first.code == 0, first
    document = json.loads(first.out)
    assert document["verdict"]["ending"] == "fine"  # the comparison of the scores, as ever
    (pair,) = document["pairwise"]["pairs"]
    result = pair["result"]
    assert (result["pairs"], result["clusters"], result["flips"], result["losses"]) == (
        40,
        20,
        0,
        0,
    )
    assert result["win_rate"]["value"] == 0.5 + result["wins"] / 80
    assert result["win_rate"]["low"] > 0.5
    assert 0 < document["pairwise"]["asked"] == judge_server.stats()["requests"] <= 80
    again = command(folder, *PAIRWISE)
    assert "asked now: 0 calls, 0.0000 USD" in again.out
    assert again.out.startswith("question: overall (")
    assert "by the" in again.out or "no regression" in again.out  # the scores follow
    turned = command(folder, "compare", "best", "worst", *PAIRWISE[3:], "--json")
    mirrored = json.loads(turned.out)["pairwise"]["pairs"][0]["result"]
    assert (mirrored["wins"], mirrored["losses"]) == (0, result["wins"])
    assert judge_server.stats()["requests"] == document["pairwise"]["asked"]  # all in the cache


def test_a_judge_that_follows_the_place_is_found_out(folder: Path):
    answer = command(folder, *PAIRWISE[:3], "--pairwise", "--model", "openai/placed-30", "--json")
    assert answer.code == 0, answer
    result = json.loads(answer.out)["pairwise"]["pairs"][0]["result"]
    assert result["position_bias"]["low"] > 0
    assert result["position_bias"]["value"] == pytest.approx(0.3, abs=0.15)


def test_a_budget_that_is_spent_keeps_what_was_paid_for(folder: Path, judge_server: Any):
    stopped = command(folder, *PAIRWISE, "--budget", "0.02")
    assert stopped.code != 0, stopped
    assert "verdicts so far are stored, and the same command goes on" in stopped.err
    before = judge_server.stats()["requests"]
    assert 0 < before < 80
    whole = command(folder, *PAIRWISE, "--budget", "5", "--json")
    assert whole.code == 0, whole
    assert json.loads(whole.out)["pairwise"]["pairs"][0]["result"]["pairs"] == 40
    assert judge_server.stats()["requests"] <= 80


def test_runs_are_ranked_with_intervals(folder: Path, judge_server: Any):
    words = ("rank", "worst", "best", "middle", "--model", "openai/fair", "--pairs", "30")
    answer = command(folder, *words, "--json")
    assert answer.code == 0, answer
    ranking = json.loads(answer.out)["ranking"]
    order = [run["run"].rpartition("-")[0] for run in ranking["runs"]]
    assert order == ["best", "middle", "worst"]
    assert all(run["strength"]["low"] < run["strength"]["high"] for run in ranking["runs"])
    shown = command(folder, *words)
    assert shown.out.splitlines()[1].startswith("1. best-"), shown
    assert "asked now: 0 calls" in shown.out


def test_mistakes_are_one_line_and_cost_nothing(folder: Path, judge_server: Any):
    wrong = {
        (
            "compare",
            "worst",
            "best",
            "--model",
            "openai/fair",
        ): "--model is about pairs; give --pair",
        ("compare", "worst", "worst", "--pairwise"): "is named twice",
        (*PAIRWISE, "--rubric", "helpfulness"): "unknown rubric",
        (*PAIRWISE, "--rubric", "gone.toml"): "gone.toml: cannot be read",
        (*PAIRWISE, "--budget", "0"): "--budget: ",
        ("compare", "worst", "best", "--pairwise", "--model", "openai/unpriced", "--budget", "1"): (
            "no price is known"
        ),
        ("rank", "worst"): "name two or more",
        ("rank", "worst", "nowhere"): "nowhere",
    }
    for words, reason in wrong.items():
        answer = command(folder, *words)
        assert (answer.code, reason in answer.err) == (2, True), (words, answer)
        assert "Traceback" not in answer.err
    assert judge_server.stats()["requests"] == 0
