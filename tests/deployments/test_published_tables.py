"""`assizes calibrate` over published data sets gives the numbers that their authors published."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from assizes.deployments.cli import app

pytestmark = pytest.mark.data

DL23 = "llmjudge_dl23"
RUNS = (
    "NISTRetrieval-instruct0",
    "NISTRetrieval-reason1",
    "Olz-gpt4o",
    "Olz-halfbin",
    "Olz-somebin",
    "RMITIR-GPT4o",
    "RMITIR-llama38b",
    "TREMA-4prompts",
    "TREMA-CoT",
    "TREMA-all",
    "TREMA-nuggets",
    "TREMA-rubric0",
    "h2oloo-fewself",
    "h2oloo-zeroshot2",
    "prophet-setting1",
    "prophet-setting4",
    "willia-umbrela1",
)

Command = Callable[..., dict[str, Any]]


@pytest.fixture
def calibrate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """A function that runs `assizes calibrate --json` and returns its only calibration."""
    monkeypatch.chdir(tmp_path)

    def command(*words: object) -> dict[str, Any]:
        done = CliRunner().invoke(app, ["calibrate", "--json", *map(str, words)])
        assert done.exit_code == 0, done.output
        (calibration,) = json.loads(done.stdout)["calibrations"]
        return calibration

    return command


@pytest.mark.parametrize("run", RUNS)
def test_kappa_and_alpha_of_the_relevance_judges_at_four_decimals(
    run: str, data: Path, calibrate: Command
):
    labels = data / DL23 / "llmjudge_test_qrel_idx.txt"
    judged = data / DL23 / "runs" / f"{run}.txt.gz"
    calibration = calibrate(labels, "--judgements", judged, "--levels", "0,1,2,3", "--clip")
    table = (data / DL23 / "published_table.csv").read_text(encoding="utf-8")
    published = {row["run"]: row for row in csv.DictReader(table.splitlines())}
    assert set(published) == set(RUNS)
    agreement = calibration["agreement"]
    assert agreement["items"] == 4423
    assert calibration["clusters"] == 25
    assert f"{agreement['kappa']['value']:.4f}" == published[run]["cohen_kappa"]
    assert f"{agreement['alpha']['value']:.4f}" == published[run]["krippendorff_alpha"]


RATERS = [("--column", f"label=annotator{number}") for number in (1, 2, 3)]
PANDA = ("--column", "case=idx", "--nominal", "--word", "tie=0", *chain.from_iterable(RATERS))


def test_the_people_of_pandalm_agree_as_published(data: Path, calibrate: Command):
    labels = data / "pandalm" / "testset-v1.json.gz"
    judged = data / "pandalm" / "pandalm-7b-testset-v1.json.gz"
    calibration = calibrate(
        labels, "--judgements", judged, *PANDA, "--column", "judge=pandalm_result"
    )
    kappas = {
        tuple(pair["raters"]): round(pair["agreement"]["kappa"]["value"], 2)
        for pair in calibration["ceiling"]["pairs"]
    }
    assert kappas == {
        ("annotator1", "annotator2"): 0.85,
        ("annotator1", "annotator3"): 0.88,
        ("annotator2", "annotator3"): 0.86,
    }
    assert [sum(row) for row in calibration["confusion"]] == [105, 422, 472]


def test_garbage_of_a_recorded_judge_is_an_error_and_no_grade(data: Path, calibrate: Command):
    labels = data / "pandalm" / "testset-v1.json.gz"
    judged = data / "pandalm" / "gpt-3.5-turbo-testset-v1.json.gz"
    calibration = calibrate(labels, "--judgements", judged, *PANDA, "--column", "judge=gpt_result")
    assert calibration["judge_errors"] == 25
    assert calibration["agreement"]["items"] == 999 - 25


AUTHORS_AGREE: Mapping[str, int] = {
    "customer_outcome_v1": 20,
    "policy_chain_of_thought_v1": 18,
    "policy_conversation_v1": 34,
    "quick_triage_v1": 25,
}
"""Agreements among 50 cases each; the authors read `satisfied` as a pass, other words as no verdict."""


def airline(data: Path, prompt: str) -> tuple[object, ...]:
    file = data / "tau2_airline_llm_judges" / f"{prompt}.jsonl.gz"
    roles = ("case=simulation_id", "label=tau2_reward", "reply=judge_response")
    return (file, "--judgements", file, *(word for role in roles for word in ("--column", role)))


def agreements(calibration: Mapping[str, Any]) -> int:
    return sum(row[place] for place, row in enumerate(calibration["confusion"]))


@pytest.mark.parametrize("prompt", AUTHORS_AGREE)
def test_the_airline_judges_agree_as_often_as_their_authors_counted(
    prompt: str, data: Path, calibrate: Command
):
    calibration = calibrate(*airline(data, prompt), "--word", "satisfied=1")
    own = json.loads(
        (data / "tau2_airline_llm_judges" / f"{prompt}.summary.json").read_text(encoding="utf-8")
    )
    assert agreements(calibration) == own["agree_count"] == AUTHORS_AGREE[prompt]
    no_verdict = sum(entry["agreement"] is None for entry in own["entries"])
    assert calibration["judge_errors"] == no_verdict


@pytest.mark.parametrize("prompt", AUTHORS_AGREE)
def test_words_outside_pass_and_fail_are_judge_errors_with_their_rate(
    prompt: str, data: Path, calibrate: Command
):
    calibration = calibrate(*airline(data, prompt))
    wrong = 27 if prompt == "policy_chain_of_thought_v1" else 0
    assert (calibration["judge_errors"], calibration["judge_error_rate"]) == (wrong, wrong / 50)
    assert calibration["agreement"]["items"] == 50 - wrong
