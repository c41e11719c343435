"""The commands as a person runs them, from an empty folder to a report."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import tomllib
from dataclasses import astuple
from pathlib import Path

import pytest

from assizes.deployments.samples import sample_cases
from assizes.judge.formats import native_line
from tests.command import Answer, started
from tests.command import (
    cold_assizes as assizes,
)  # the first steps of a person, start and end included
from tests.doubles.fixtures import OPENAI_KEY


def output_of(answer: Answer, code: int = 0) -> str:
    assert answer.code == code, answer
    assert "Traceback" not in answer.err
    assert "leaked" not in answer.err
    return answer.out


@pytest.fixture
def env(prefect_server: str) -> dict[str, str]:
    return {"PREFECT_API_URL": prefect_server}


def test_the_demo_finds_its_regression_and_its_runs_can_be_read(tmp_path: Path, env):
    store = ["--store", "duckdb:///.assizes/demo/demo.duckdb"]
    outcome = json.loads(output_of(assizes("demo", "--json", cwd=tmp_path, env=env)))
    assert outcome["conclusion"] == "Regression"
    assert len(outcome["comparison"]["verdict"]["reasons"]) == 3
    assert all((tmp_path / path).exists() for path in outcome["reports"].values())

    runs = json.loads(output_of(assizes("runs", "--json", *store, cwd=tmp_path)))
    assert [run["status"] for run in runs] == ["complete", "complete"]
    candidate, baseline = (run["run_id"] for run in runs)
    assert candidate == outcome["run_id"]
    table = output_of(assizes("runs", *store, cwd=tmp_path))
    assert candidate in table
    assert baseline in table

    shown = output_of(assizes("show", candidate, *store, cwd=tmp_path))
    assert shown.startswith("Judged by the offline baseline")
    assert "task_completion" in shown

    worse = outcome["comparison"]["test_case_comparisons"]
    case_id = next(case["test_case_id"] for case in worse if case["status"] == "regression")
    case = output_of(assizes("case", candidate, case_id, *store, cwd=tmp_path))
    assert "FAILED" in case
    assert "✗" in case
    assert "task_completion" in case

    again = assizes("compare", baseline, candidate, *store, "--json", cwd=tmp_path)
    assert json.loads(output_of(again, 1))["verdict"]["regression_detected"]
    lenient = ["--max-pass-rate-drop", "50%", "--max-avg-score-drop", "50"]
    lenient += ["--max-latency-increase-pct", "0.5"]
    assert "NOT WORSE" in output_of(
        assizes("compare", baseline, candidate, *lenient, *store, cwd=tmp_path)
    )

    links = json.loads(
        output_of(assizes("report", candidate, "-o", "out", "--json", *store, cwd=tmp_path))
    )
    for kind, path in links.items():
        written = (tmp_path / path).read_bytes()
        assert written == (tmp_path / outcome["reports"][kind]).read_bytes()


@pytest.mark.full
def test_the_demo_leaves_what_is_not_its_own(tmp_path: Path, env):
    theirs = ("notes.txt", "v1.jsonl", "reports/mine/report.html", "replies/one.json", "sub/x.db")
    for name in theirs:
        (tmp_path / "X" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "X" / name).write_text("mine")
    for _ in range(2):
        output_of(assizes("demo", "--folder", "X", "--json", cwd=tmp_path, env=env))
    for name in theirs:
        assert (tmp_path / "X" / name).read_text() == "mine"


def test_a_demo_folder_that_is_a_file_is_one_line(tmp_path: Path):
    (tmp_path / "X").write_text("mine")
    answer = assizes("demo", "--folder", "X", cwd=tmp_path)
    assert answer.code == 2
    assert answer.err.startswith("assizes: --folder 'X' cannot be used: ")
    assert (tmp_path / "X").read_text() == "mine"


@pytest.mark.full
def test_an_interrupted_run_says_how_to_go_on(tmp_path: Path, env, judge_server):
    lines = [native_line(case) for case in sample_cases()[:4]]
    (tmp_path / "t.jsonl").write_bytes(b"".join(lines))
    settings = ["transcripts.uri=t.jsonl", "judge.model=openai/slow-60"]
    settings.append(f"judge.api_base={judge_server.api_base}")
    pairs = [word for pair in settings for word in ("--set", pair)]
    process = started("run", *pairs, cwd=tmp_path, env={**env, "OPENAI_API_KEY": OPENAI_KEY})
    deadline = time.monotonic() + 60
    while not judge_server.stats()["requests"] and time.monotonic() < deadline:
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    code, _, err = astuple(process.answer(60))
    assert code == 130
    assert err.splitlines()[-1] == "assizes: interrupted; run the same command again to resume"
    assert "Traceback" not in err


@pytest.mark.full
def test_what_our_packages_warn_of_reaches_the_user_on_one_line(tmp_path: Path, env, judge_server):
    lines = [native_line(case) for case in sample_cases()[:2]]
    (tmp_path / "t.jsonl").write_bytes(b"".join(lines))
    # The folder takes the probe of the check; of the replies, each of 256 folders is a file.
    (tmp_path / "replies").mkdir()
    for number in range(256):
        (tmp_path / "replies" / f"{number:02x}").write_text("")
    settings = ["transcripts.uri=t.jsonl", "judge.model=openai/m", "cache.uri=replies"]
    settings.append(f"judge.api_base={judge_server.api_base}")
    pairs = [word for pair in settings for word in ("--set", pair)]
    answer = assizes("run", *pairs, cwd=tmp_path, env={**env, "OPENAI_API_KEY": OPENAI_KEY})
    (line,) = answer.err.splitlines()
    assert line.startswith("assizes: warning: [cache] replies cannot be ")


def test_init_writes_what_run_takes(tmp_path: Path, env):
    lines = [native_line(case) for case in sample_cases()[:4]]
    (tmp_path / "t.jsonl").write_bytes(b"".join(lines))
    assert "assizes run" in output_of(assizes("init", "t.jsonl", cwd=tmp_path))
    assert "4 cases (native)" in (tmp_path / "assizes.toml").read_text()
    output_of(assizes("doctor", cwd=tmp_path, env=env))
    printed = output_of(assizes("run", "--limit", "2", cwd=tmp_path, env=env))
    assert "records: read 4, judged 2, skipped 2" in printed
    assert "PASSED" in printed


def test_init_quotes_what_transcripts_and_folders_are_called(tmp_path: Path):
    name = 'x"]\n[judge]\nmodel = "openai/planted"\n#\U000e0001'
    turn = {"role": "assistant", "tool_calls": [{"name": name, "arguments": {}, "id": "1"}]}
    record = {"case_id": "a", "transcript": {"turns": [{"role": "user", "text": "hi"}, turn]}}
    place = tmp_path / 'in "quotes" \\ \U000e0001\x7f'
    place.mkdir()
    (place / "t.jsonl").write_text(json.dumps(record))
    output_of(assizes("init", place.name, cwd=tmp_path))
    written = tomllib.loads((tmp_path / "assizes.toml").read_text())
    assert written["transcripts"]["uri"] == place.name
    assert written["judge"]["model"] == "offline/lexical"


@pytest.mark.row("000-48", "000-49", "000-50", "000-51")
def test_the_metrics_are_listed_with_the_opt_in_one(tmp_path: Path):
    listing = json.loads(output_of(assizes("metrics", "--json", cwd=tmp_path)))
    assert listing["count"] == len(listing["data"]) == 9
    first = {name: listing["data"][0][name] for name in ("name", "display_name", "tier")}
    assert first == {"name": "tool_routing", "display_name": "Tool Routing", "tier": "execution"}
    opt_in = next(metric for metric in listing["data"] if metric["name"] == "task_completion")
    assert (opt_in["include_in_defaults"], opt_in["score_type"]) == (False, "binary")
    assert "task_completion" in output_of(assizes("metrics", cwd=tmp_path))


@pytest.mark.full
def test_the_judges_are_listed(tmp_path: Path):
    listing = json.loads(output_of(assizes("judges", "--json", cwd=tmp_path)))
    assert {"conversation", "recorded"} <= {judge["name"] for judge in listing}


@pytest.mark.full
def test_reading_commands_import_neither_prefect_nor_litellm():
    program = (
        "import sys\n"
        "import assizes.deployments.cli, assizes.deployments.commands.show, assizes.deployments.commands.show\n"
        "import assizes.deployments.commands.report, assizes.deployments.commands.init\n"
        "assert not {'prefect', 'litellm'} & set(sys.modules)\n"
    )
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", program], cwd=root, check=False)
    assert done.returncode == 0
