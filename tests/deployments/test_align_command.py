"""`assizes align` as a person runs it: the plan, the proposal, the edited text in place."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from assizes.judge.formats import native_line
from tests.command import Answer, assizes
from tests.doubles.fixtures import OPENAI_KEY
from tests.flows.test_align import CASES, RUBRIC, conversation, passes

SETTINGS = """
name = "aligned"
[transcripts]
uri = "t.jsonl"
[store]
uri = "duckdb:///rows.duckdb"
[judge]
model = "openai/long-hater"
api_base = "{}"
judges = ["helpful"]
rubrics = ["rubrics"]
[limits]
ledger = "ledger.db"
[limits.prices."openai/long-hater"]
input_usd_per_million = 1.0
output_usd_per_million = 2.0
[limits.prices."openai/proposer"]
input_usd_per_million = 1.0
output_usd_per_million = 2.0
"""


def command(folder: Path, *words: str) -> Answer:
    return assizes(*words, cwd=folder, env={"OPENAI_API_KEY": OPENAI_KEY})


@pytest.fixture
def folder(tmp_path: Path, judge_server: Any) -> Path:
    (tmp_path / "t.jsonl").write_bytes(b"".join(native_line(conversation(n)) for n in range(CASES)))
    rows = "".join(f"case-{n},{'pass' if passes(n) else 'fail'}\n" for n in range(CASES))
    (tmp_path / "labels.csv").write_text(f"case_id,label\n{rows}", encoding="utf-8")
    (tmp_path / "rubrics").mkdir()
    (tmp_path / "rubrics" / "helpful.toml").write_text(f"# ours\n{RUBRIC}", encoding="utf-8")
    (tmp_path / "assizes.toml").write_text(SETTINGS.format(judge_server.api_base))
    answer = command(tmp_path, "run")
    assert answer.code in (0, 1), answer
    stored = ("labels", "import", "labels.csv", "--run", "latest", "--metric", "helpful")
    assert command(tmp_path, *stored).code == 0
    return tmp_path


ALIGN = ("align", "latest", "--metric", "helpful")


def test_a_rubric_is_planned_proposed_edited_and_put_in_place(folder: Path, judge_server: Any):
    judge_server.reset()
    plan = command(folder, *ALIGN, "--model", "openai/proposer", "--dry-run")
    assert plan.code == 0, plan
    assert plan.out.startswith("helpful: 96 labels, 38 of them held out; the judge says otherwise")
    assert " USD" in plan.out
    assert judge_server.stats()["requests"] == 0
    proposed = command(folder, *ALIGN, "--model", "openai/proposer", "--write", "new.toml")
    assert proposed.code == 0, proposed
    assert proposed.out.startswith("helpful: better: 7")
    assert "+[[guidelines]]" in proposed.out
    text = (folder / "new.toml").read_text()
    assert text.startswith("# ours\n")
    (folder / "new.toml").write_text(text.replace("What counts", "Length is no fault"))
    applied = command(folder, *ALIGN, "--apply", "new.toml")
    assert applied.code == 0, applied
    assert "have now tried 2 texts" in applied.out
    table = tomllib.loads((folder / "rubrics" / "helpful.toml").read_text())
    assert table["guidelines"][0]["title"] == "Length is no fault"
    assert table["alignment"]["version"] == 1
    run = command(folder, "run")
    assert run.code in (0, 1), run
    trends = command(folder, "trends")
    assert "from run " in trends.out
    assert "helpful is judged by another rubric" in trends.out


@pytest.mark.full
def test_mistakes_are_one_line_and_cost_nothing(folder: Path, judge_server: Any):
    judge_server.reset()
    (folder / "there.toml").write_text("")
    wrong = {
        ("--model", "openai/proposer", "--write", "there.toml"): "is there already",
        (): "--model: name the model",
        ("--optimiser", "nowhere:at_all"): "cannot be imported",
        ("--model", "openai/unpriced"): "no price is known",
        ("--apply", "gone.toml"): "cannot be read",
        ("--model", "x", "--write", "a", "--apply", "b"): "give one of them",
    }
    for words, reason in wrong.items():
        answer = command(folder, *ALIGN, *words)
        assert (answer.code, reason in answer.err) == (2, True), (words, answer)
        assert "Traceback" not in answer.err
    assert judge_server.stats()["requests"] == 0


@pytest.mark.full
def test_an_optimiser_of_the_user_proposes_in_place_of_a_model(folder: Path):
    code = 'def propose(task):\n    return [{"title": "t", "text": "The length is no fault."}]\n'
    (folder / "mine.py").write_text(code)
    answer = command(folder, *ALIGN, "--optimiser", "mine:propose", "--json")
    assert answer.code == 0, answer
    assert '"verdict": "better"' in answer.out
    (folder / "mine.py").write_text("def propose(task):\n    return 7\n")
    answer = command(folder, *ALIGN, "--optimiser", "mine:propose")
    assert answer.code == 2, answer
    assert "returned no list of guidelines" in answer.err
