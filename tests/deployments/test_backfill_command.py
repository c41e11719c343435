"""`assizes nightly`, `after-deployment` and `backfill`, as a person or a CI job runs them."""

from __future__ import annotations

import json
import signal
from dataclasses import astuple
from datetime import date, timedelta
from pathlib import Path

import pytest

from assizes.deployments.samples import with_planted_regression
from tests.command import assizes, started
from tests.doubles.fixtures import OPENAI_KEY, running_openai_server
from tests.flows.nights import ago, cases_of, lay
from tests.flows.test_backfill import answered
from tests.flows.test_interrupt import asked, left_over

DAYS = [date(2026, 10, 20) + timedelta(days=number) for number in range(6)]

CONFIG = """
name = "suite"
[transcripts]
uri = "logs/{date}/"
[thresholds]
metrics_pass_threshold = 0
cases_pass_threshold = 0
[store]
uri = "lake"
[after_deployment]
min_transcripts = 4
deadline_minutes = 1
poll_s = 0.5
"""

JUDGE = """
[judge]
model = "openai/gpt-4o-mini"
api_base = "{api_base}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "assizes.toml").write_text(CONFIG)
    (tmp_path / "logs").mkdir()
    return tmp_path


@pytest.fixture
def env(prefect_server: str) -> dict[str, str]:
    return {"PREFECT_API_URL": prefect_server, "OPENAI_API_KEY": OPENAI_KEY}


@pytest.mark.full
def test_an_interrupted_backfill_goes_on_and_ends_with_a_table_of_days(
    folder: Path, env: dict[str, str]
):
    for day in DAYS:
        lay(folder, day, cases_of(day))
    words = ["backfill", "--from", str(DAYS[0]), "--to", str(DAYS[-1])]
    with running_openai_server("--latency", "0.2") as model:
        (folder / "assizes.toml").write_text(CONFIG + JUDGE.format(api_base=model.api_base))
        process = started(*words, cwd=folder, env=env, new_session=True)
        asked(model, 4)
        process.send_signal(signal.SIGINT)
        code, _, err = astuple(process.answer(60))
        assert code == 130, err
        assert left_over(process.pid) == []
        assert "Traceback" not in err
        assert "USD so far)" in err

        done = assizes(*words, "--in-flight", "3", "--json", cwd=folder, env=env)
        assert done.code == 0, done
        outcome = json.loads(done.out)
        assert [part["part"] for part in outcome["parts"]] == [str(day) for day in DAYS]
        assert sum(part["cases"] for part in outcome["parts"]) == 12
        assert (
            answered(folder / ".assizes" / "ledger.db") <= 12 + 2
        )  # of the day that was interrupted
        before = model.stats()["requests"]
        again = assizes(*words, cwd=folder, env=env)
        assert again.code == 0
        assert model.stats()["requests"] == before
    assert "PASSED" in again.out
    for part in outcome["parts"]:
        line = next(line for line in again.out.splitlines() if part["part"] in line)
        assert part["run_id"] in line


def test_a_night_without_transcripts_ends_with_code_4(folder: Path, env: dict[str, str]):
    answer = assizes("nightly", "--date", "2026-10-20", cwd=folder, env=env)
    assert answer.code == 4, answer
    assert "NO DATA" in answer.out
    assert "2026-10-20: NoData: no_data: nothing to judge" in answer.out
    assert "Traceback" not in answer.err
    shown = assizes("runs", "--json", cwd=folder)
    assert [run["trigger"] for run in json.loads(shown.out)] == ["nightly"]


@pytest.mark.full
def test_a_rollout_is_stopped_by_a_worse_version(folder: Path, env: dict[str, str]):
    good = cases_of(ago(), 20, "v1")
    bad = with_planted_regression(cases_of(ago(40), 20, "v2"))
    lay(folder, ago(), [*good, *bad])
    words = ["--min-transcripts", "20", "--set", "comparison.mode=rules", "--json"]
    first = assizes("after-deployment", "--version", "v1", *words, cwd=folder, env=env)
    assert first.code == 0, first
    second = assizes("after-deployment", "--version", "v2", *words, cwd=folder, env=env)
    assert second.code == 1, second
    assert json.loads(second.out)["conclusion"] == "Regression"
    assert "20 of 20 transcripts" in second.err


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["backfill"], "give the first day of a range (--from; since) or places"),
        (["backfill", "--from", "2026-10-21", "--to", "2026-10-20"], "before it begins"),
        (["backfill", "--from", "2026-10-21", "--uri", "x"], "not both"),
        (
            ["backfill", "--uri", "x", "--uri", "https://ada:hunter2@host/x.jsonl"],
            "assizes: [transcripts] uri: holds a URL with a password, key or signature in it; secrets",
        ),
        (["nightly", "--set", "transcripts.uri=logs/"], "has no place for a day"),
        (["nightly", "--date", "2999-01-01"], "2999-01-01 lies in the future, so there is nothing"),
        (
            ["backfill", "--from", "2026-10-20", "--to", "2999-01-01"],
            "2999-01-01 lies in the future",
        ),
        (
            ["backfill", "--from", "2016-10-20", "--to", "2026-10-20"],
            "days; accepted are up to 1,100",
        ),
        (["after-deployment", "--version", ""], "--version '': an empty version is none; give"),
        (
            ["after-deployment", "--version", "v1", "--agent", " "],
            "--agent '': an empty name is none",
        ),
    ],
)
def test_what_cannot_be_run_is_one_line(folder: Path, words: list[str], reason: str):
    answer = assizes(*words, cwd=folder)
    assert answer.code == 2
    (line,) = answer.err.splitlines()
    assert reason in line
    assert not (folder / "lake").exists()
