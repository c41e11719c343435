"""`assizes cascade` as a person runs it, and runs that escalate by its thresholds."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tests.builders import agent, case, user
from tests.command import Answer, assizes
from tests.doubles.fixtures import OPENAI_KEY, OpenAIServer
from tests.flows.test_evaluate import written

pytestmark = pytest.mark.usefixtures("prefect_server")

METRIC = "response_delivery"
HARD = [n for n in range(60) if n % 3 == 0]
GOOD = [n for n in range(60) if n % 2 == 0]
SETTINGS = """
[transcripts]
uri = "t.jsonl"
[judge]
model = "openai/unsure"
escalate_to = "openai/knowing"
metrics = ["response_delivery"]
api_base = "{base}"
[limits.prices."openai/unsure"]
input_usd_per_million = 1.0
output_usd_per_million = 1.0
[limits.prices."openai/knowing"]
input_usd_per_million = 10.0
output_usd_per_million = 10.0
"""


def command(folder: Path, *words: str) -> Answer:
    return assizes(*words, cwd=folder, env={"OPENAI_API_KEY": OPENAI_KEY})


@pytest.fixture
def folder(tmp_path: Path, judge_server: OpenAIServer) -> Path:
    cases, lines = [], ["case_id,metric,label"]
    for number in range(60):
        worth = "good" if number in GOOD else "bad"
        how = "hard" if number in HARD else "easy"
        said = f"Order {number} was sent. [{worth} {how}]"
        cases.append(case(user(f"Where is order {number}?"), agent(said), case_id=f"c{number}"))
        lines.append(f"c{number},{METRIC},{'pass' if worth == 'good' else 'fail'}")
    written(tmp_path / "t.jsonl", cases)
    (tmp_path / "labels.csv").write_text("\n".join(lines), encoding="utf-8")
    (tmp_path / "assizes.toml").write_text(SETTINGS.format(base=judge_server.api_base))
    return tmp_path


def test_a_threshold_is_set_and_a_run_by_it_asks_nothing_again(
    folder: Path, judge_server: OpenAIServer
):
    words = ("cascade", "--labels", "labels.csv", "--agreement", "0.9", "--write", "cascade.toml")
    answer = command(folder, *words, "--json")
    assert answer.code == 0, answer
    result = json.loads(answer.out)
    ((found, setting),) = ((one["calibration"], one["setting"]) for one in result["judges"])
    # The margin of a 3 is 0.2: from 0.25 on the hard cases are escalated, and all agree.
    assert found["confidence"] == setting["confidence"] == 0.25
    assert found["escalated"] == pytest.approx(20 / 60)
    (metric,) = found["metrics"]
    assert (metric["metric"], metric["labels"], metric["attained"]) == (METRIC, 60, 1.0)
    assert metric["attained_low"] == pytest.approx(0.1 ** (1 / 60))
    assert metric["first_alone"] == pytest.approx(50 / 60)
    assert found["expected_usd"] == pytest.approx(
        found["first_usd"] + found["senior_usd"] / 3, abs=1e-8
    )
    assert judge_server.stats()["models"] == {"unsure": 60, "knowing": 60}

    _check_a_run(folder, judge_server)


def _check_a_run(folder: Path, judge_server: OpenAIServer) -> None:
    """A run by the thresholds asks nothing again, and its rows, report and plan say who decided."""
    written_settings = (folder / "cascade.toml").read_text(encoding="utf-8")
    assert tomllib.loads(written_settings)["judge"]["cascade"]["agreement"] == 0.9
    config = folder / "assizes.toml"
    config.write_text(config.read_text() + written_settings)
    ran = command(folder, "run", "--json")
    assert ran.code in (0, 1), ran
    assert judge_server.stats()["requests"] == 120  # every answer was paid for already
    run_id = json.loads(ran.out)["run_id"]
    report = command(folder, "show", run_id)
    promise = (
        "cascade of conversation: agreement of at least 90.0% with people on response_delivery"
    )
    assert promise in " ".join(report.out.split())
    plan = json.loads(command(folder, "plan", "--json").out)
    assert any("is asked about 33.3% of the cases" in line for line in plan["assumptions"])
    costs = {option["name"]: option for option in plan["options"]}
    assert costs["configured"]["calls"] == 80
    assert (costs["first_alone"]["calls"], costs["stronger_alone"]["calls"]) == (60, 60)
    assert costs["first_alone"]["expected_usd"] < costs["configured"]["expected_usd"]
    assert costs["configured"]["expected_usd"] < costs["stronger_alone"]["expected_usd"]
    decided = Counter[str]()
    for number in range(6):
        shown = command(folder, "case", run_id, f"c{number}", "--json")
        (score,) = (
            one
            for one in json.loads(shown.out)["scores"]
            if one["metric"] == METRIC and one["part"] == ""
        )
        details = json.loads(score["details"])
        decided[details["decided_by"]] += 1
        assert ("escalated" in details) == (number in HARD)
        sure = 1.0 if number in GOOD else 0.6  # the margins of a 5 and of a 1
        assert details["confidence"] == (0.2 if number in HARD else sure)
    assert decided == {"openai/unsure": 4, "openai/knowing": 2}


@pytest.mark.full
def test_what_cannot_be_promised_is_refused_in_one_line(folder: Path):
    config = folder / "assizes.toml"
    plain = config.read_text()
    for words, said in (
        (("--agreement", "0.99"), "takes at least 230, even if all agree"),
        ((), "--agreement: say how often decisions must agree"),
        (("--agreement", "1.5"), "--agreement 1.5: wanted a number above 0 and below 1"),
        (
            ("--agreement", "0.9", "--pass-from", "17"),
            "--pass-from (pass_from) 17 is outside the grades, which are 0, 1",
        ),
        (("--agreement", "0.9", "--pass-from", "-3"), "-3 is outside the grades, which are 0, 1"),
        (("--agreement", "0.9", "--pass-from", "nan"), "must be a number between"),
    ):
        answer = command(folder, "cascade", "--labels", "labels.csv", *words)
        assert answer.code == 2, answer
        assert said in " ".join(answer.err.split())
    config.write_text(plain + "[judge.cascade]\nagreement = 0.9\n")
    answer = command(folder, "run")
    assert answer.code == 2
    assert "no threshold is set; `assizes cascade` sets it" in " ".join(answer.err.split())


@pytest.mark.full
def test_labels_that_contradict_both_models_are_refused(folder: Path):
    lines = ["case_id,metric,label"]
    lines += [f"c{n},{METRIC},{'pass' if n % 5 else 'fail'}" for n in range(60)]
    (folder / "labels.csv").write_text("\n".join(lines), encoding="utf-8")
    answer = command(folder, "cascade", "--labels", "labels.csv", "--agreement", "0.9")
    assert answer.code == 2
    assert "no threshold keeps agreement 0.9 with delta 0.1" in " ".join(answer.err.split())


@pytest.mark.full
def test_a_threshold_is_refused_for_another_model_or_promise(folder: Path):
    words = ("cascade", "--labels", "labels.csv", "--agreement", "0.9", "--write", "cascade.toml")
    assert command(folder, *words).code == 0
    config = folder / "assizes.toml"
    plain = config.read_text() + (folder / "cascade.toml").read_text()
    for old, new, said in (
        ("openai/knowing", "openai/other-knowing", "was set for other models, prompts or rubrics"),
        ("agreement = 0.9\ndelta = 0.1\n\n", "agreement = 0.95\n\n", "asks for 0.95 and 0.1"),
    ):
        assert old in plain
        config.write_text(plain.replace(old, new))
        answer = command(folder, "run")
        assert answer.code == 2, answer
        assert said in " ".join(answer.err.split())
