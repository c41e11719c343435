"""`assizes plan` as a person runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.formats import native_line
from tests.command import assizes
from tests.outward import PYTHONPATH

CONFIG = """
name = "planned"
[transcripts]
uri = "t.jsonl"
[judge]
model = "openai/m-wordy"
api_base = "{api_base}"
[limits]
budget_usd = 0.01
requests_per_minute = 20
[limits.prices."openai/m-wordy"]
input_usd_per_million = 0.15
output_usd_per_million = 0.6
"""


@pytest.fixture
def folder(tmp_path: Path, judge_server) -> Path:
    """A folder with ten cases and a configuration, and no stored run."""
    lines = [native_line(case) for case in sample_cases()[:10]]
    (tmp_path / "t.jsonl").write_bytes(b"".join(lines) + lines[0])
    (tmp_path / "assizes.toml").write_text(CONFIG.format(api_base=judge_server.api_base))
    return tmp_path


def test_a_plan_says_what_a_run_would_ask_and_does_nothing(folder: Path, judge_server):
    before = sorted(path.name for path in folder.iterdir())
    answer = assizes("plan", "--json", cwd=folder)
    assert answer.code == 0, answer
    forecast = json.loads(answer.out)

    assert forecast["transcripts"] == {
        "read": 11,
        "due": 10,
        "duplicates": 1,
        "rejected": 0,
        "unselected": 0,
    }
    assert (forecast["asks"], forecast["kept"], forecast["to_put"], forecast["minutes"]) == (
        10,
        0,
        10,
        0.5,
    )
    assert forecast["run_id"].startswith("planned-")
    assert forecast["status"] is None
    assert 0.01 < forecast["expected_usd"] < forecast["worst_usd"]
    assert [(limit["limit"], limit["fits"]) for limit in forecast["limits"]] == [
        ("budget_usd", False)
    ]
    assert judge_server.stats()["requests"] == 0
    assert sorted(path.name for path in folder.iterdir()) == before


def test_a_plan_reads_well(folder: Path):
    answer = assizes("plan", "--limit", "4", "--set", "limits.budget_usd=1", cwd=folder)
    assert answer.code == 0, answer
    assert answer.err == ""
    lines = answer.out.splitlines()
    assert lines[0].endswith(": a new run")
    assert lines[1] == "transcripts: read 11, due 4, duplicates 1, rejected 0, unselected 6"
    assert "asks: 4; 0 have a reply in the cache, 0 repeat another ask, 4 go to the model" in lines
    assert any(line.startswith("[limits] budget_usd = 1: 0 spent, ") for line in lines)
    assert any(line.endswith("more expected: fits") for line in lines)
    assert "time: 0.2 min, without retries" in lines
    assert any(line.startswith("assumed: no reply is known of conversation: ") for line in lines)


@pytest.mark.full
def test_what_a_run_has_done_is_not_planned_again(folder: Path, judge_server, prefect_server: str):
    env = {"PREFECT_API_URL": prefect_server, "OPENAI_API_KEY": "any"}
    pairs = ["--set", "limits.budget_usd=5", "--set", "limits.requests_per_minute=6000"]
    foreseen = json.loads(assizes("plan", "--json", *pairs, cwd=folder).out)
    ran = assizes("run", "--json", *pairs, cwd=folder, env=env)
    assert ran.code in (0, 1), ran
    outcome = json.loads(ran.out)
    assert outcome["run_id"] == foreseen["run_id"]
    assert judge_server.stats()["requests"] == foreseen["to_put"]
    spent = outcome["summary"]["spent_usd"]
    assert foreseen["expected_usd"] == pytest.approx(spent, rel=0.15)

    after = json.loads(assizes("plan", "--json", *pairs, cwd=folder).out)
    assert (after["status"], after["kept"], after["to_put"]) == ("complete", 10, 0)
    assert after["expected_usd"] == 0
    assert after["limits"][0]["spent"] == pytest.approx(spent)
    printed = assizes("plan", *pairs, cwd=folder).out
    assert "complete in the store; running it again asks nothing" in printed
    refreshed = json.loads(assizes("plan", "--json", "--set", "cache.use=refresh", cwd=folder).out)
    assert (refreshed["run_id"], refreshed["to_put"]) == (f"{outcome['run_id']}-r2", 10)
    replayed = assizes("plan", "--set", "cache.use=replay_only", "--limit", "3", cwd=folder)
    assert "replay_only: nothing is asked" in replayed.out


def test_a_plan_takes_the_options_of_a_run(folder: Path):
    alone = json.loads(assizes("plan", "--json", cwd=folder).out)
    batch = json.loads(assizes("plan", "--json", "--batch", cwd=folder).out)
    assert batch["expected_usd"] == pytest.approx(alone["expected_usd"] / 2, abs=2e-6)
    assert batch["minutes"] is None
    worst = batch["worst_usd"]
    budget = f"limits.budget_usd={(batch['expected_usd'] + worst) / 2}"
    printed = assizes("plan", "--batch", "--set", budget, cwd=folder).out
    expected = (
        f"up to {worst:g} set aside for its batches: DOES NOT FIT: a batch may not be handed in"
    )
    assert expected in printed
    replayed = assizes("plan", "--replay-only", cwd=folder)
    assert "replay_only: nothing is asked" in replayed.out
    assert assizes("plan", "--refresh", cwd=folder).code == 0
    both = assizes("plan", "--refresh", "--replay-only", cwd=folder)
    assert (both.code, len(both.err.splitlines())) == (2, 1)


@pytest.mark.full
def test_planning_never_speaks_to_prefect(folder: Path):
    program = (
        "import sys\n"
        "from deployments import cli\n"
        "sys.argv = ['assizes', 'plan', '--json']\n"
        "try:\n    cli.run_command_line()\n"
        "finally:\n    assert 'prefect.server' not in sys.modules, 'a server was begun'\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env={"PYTHONPATH": PYTHONPATH, "PREFECT_API_URL": "http://127.0.0.1:9/api", "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_what_a_run_could_not_do_a_plan_refuses_in_one_line(folder: Path):
    answer = assizes("plan", "--set", "transcripts.uri=nowhere.jsonl", cwd=folder)
    assert answer.code == 2
    assert len(answer.err.splitlines()) == 1
    assert "nowhere.jsonl" in answer.err


def test_a_plan_says_what_the_anchors_ask_beside_the_run(folder: Path, judge_server):
    lines = [native_line(case) for case in sample_cases()[10:14]]
    (folder / "golden.jsonl").write_bytes(b"".join(lines))
    answer = assizes("plan", "--set", "anchors.uri=golden.jsonl", cwd=folder)
    assert answer.code == 0, answer
    (line,) = [line for line in answer.out.splitlines() if line.startswith("anchors")]
    assert "with triggers nightly and with a new judge: 4 cases, 4 asks to send, 0.00" in line
    assert judge_server.stats()["requests"] == 0


def test_a_plan_imports_no_library_that_only_a_run_needs(folder):
    program = (
        "import sys\nfrom assizes.deployments.cli import run_command_line\n"
        "try:\n    run_command_line()\nfinally:\n    print(sorted({'prefect', 'aiohttp'} & sys.modules.keys()))"
    )
    config = Path(folder, "assizes.toml")
    config.write_text('name = "planned"\n[transcripts]\nuri = "t.jsonl"\n')  # the offline judge
    done = subprocess.run(
        [sys.executable, "-c", program, "plan"],
        cwd=folder,
        env={"PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "a new run" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
